#include "contracts/plan/processor_speed.h"

#include <array>
#include <cmath>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::array<ProductPass, 3> product_passes = {ProductPass::forward, ProductPass::input, ProductPass::weight};
constexpr std::size_t entries_max = 1000;

Error no_measurement(const std::string& name, const std::string& what) {
  return make_error(ErrorCode::corrupt, format("{} is no measurement of a processor: {}", name, what),
                    "measure again: longhaul-engine measure");
}

bool positive_time(double seconds) {
  return std::isfinite(seconds) && seconds > 0;
}

struct Size {
  const char* key;
  std::int64_t* at;
};

// Each a positive number that a machine may have.
bool read_sizes(const Value& entry, std::initializer_list<Size> sizes) {
  for (const Size& size : sizes) {
    *size.at = entry.get_integer(size.key);
    if (*size.at < 1 || *size.at > 1 << 24) return false;
  }
  return true;
}

bool read_product(const Value& entry, TimedProduct& one) {
  const std::string pass = entry.get_string("pass");
  bool known = false;
  for (const ProductPass p : product_passes)
    if (pass == to_string(p)) one.pass = p, known = true;
  one.seconds = entry.get_number("seconds");
  return known && positive_time(one.seconds) && read_sizes(entry, {{"m", &one.m}, {"n", &one.n}, {"k", &one.k}});
}

bool read_step(const Value& entry, TimedStep& one) {
  one.seconds = entry.get_number("seconds");
  return positive_time(one.seconds) && read_sizes(entry, {{"hidden", &one.hidden},
                                                          {"layers", &one.layers},
                                                          {"heads", &one.heads},
                                                          {"feed_forward", &one.feed_forward},
                                                          {"vocabulary", &one.vocabulary},
                                                          {"sequence_length", &one.sequence_length},
                                                          {"micro_batch_size", &one.micro_batch_size},
                                                          {"micro_batches", &one.micro_batches}});
}

bool read_rollout(const Value& entry, TimedRollout& one) {
  one.generate_seconds = entry.get_number("generate_seconds");
  one.reference_seconds = entry.get_number("reference_seconds");
  return positive_time(one.generate_seconds) && positive_time(one.reference_seconds) &&
         read_sizes(entry, {{"hidden", &one.hidden},
                            {"layers", &one.layers},
                            {"heads", &one.heads},
                            {"kv_heads", &one.kv_heads},
                            {"feed_forward", &one.feed_forward},
                            {"vocabulary", &one.vocabulary},
                            {"prompt_tokens", &one.prompt_tokens},
                            {"answer_tokens", &one.answer_tokens},
                            {"answers", &one.answers},
                            {"group", &one.group}});
}

void add_rollouts(const std::vector<TimedRollout>& rollouts, Value& document) {
  Value& list = document.set("rollouts", Value::make_array());
  for (const TimedRollout& one : rollouts) {
    Value& entry = list.push_back(Value::make_table());
    for (const auto& [key, value] :
         {std::pair{"hidden", one.hidden}, std::pair{"layers", one.layers}, std::pair{"heads", one.heads},
          std::pair{"kv_heads", one.kv_heads}, std::pair{"feed_forward", one.feed_forward},
          std::pair{"vocabulary", one.vocabulary}, std::pair{"prompt_tokens", one.prompt_tokens},
          std::pair{"answer_tokens", one.answer_tokens}, std::pair{"answers", one.answers},
          std::pair{"group", one.group}})
      entry.set(key, static_cast<long long>(value));
    entry.set("generate_seconds", one.generate_seconds), entry.set("reference_seconds", one.reference_seconds);
  }
}

template <class T>
bool read_timed(const Value& document, const char* key, bool (*read)(const Value&, T&), std::vector<T>& list) {
  const Value* found = document.find(key);
  if (!found || !found->is_array() || found->size() == 0 || found->size() > entries_max) return false;
  for (const Value& entry : found->as_array()) {
    T one;
    if (!entry.is_table() || !read(entry, one)) return false;
    list.push_back(one);
  }
  return true;
}

// Where it says what drawing takes, it says all of it.
Status read_drawing(const Value& value, const std::string& name, ProcessorSpeed& speed) {
  const Value *serving = value.find("serving"), *rollouts = value.find("rollouts");
  if (serving && !serving_speed_from_value(*serving, speed.serving))
    return no_measurement(name, "what a server's operations take is not whole");
  if (rollouts && !read_timed(value, "rollouts", read_rollout, speed.rollouts))
    return no_measurement(name, "a rollout lacks its sizes or a time");
  if (!rollouts || serving) return {};
  return no_measurement(name, "it has rollouts, and not what their operations take");
}

}  // namespace

std::string RankUse::text() const {
  const std::string of_those = format("{}x{}-{}", ranks, threads, precision);
  return beside.ranks == 0 ? of_those : of_those + format("-beside-{}x{}", beside.ranks, beside.threads);
}

const char* to_string(ProductPass pass) {
  switch (pass) {
    case ProductPass::forward: return "forward";
    case ProductPass::input: return "input";
    case ProductPass::weight: return "weight";
  }
  return "";
}

Value identity_to_value(const ProcessorIdentity& identity) {
  Value value = Value::make_table();
  value.set("processor", identity.processor), value.set("cores", identity.cores);
  value.set("kernels", identity.kernels), value.set("products", identity.products);
  value.set("engine", identity.engine);
  return value;
}

Result<ProcessorIdentity> identity_from_value(const Value& value, const std::string& name) {
  ProcessorIdentity identity;
  if (!value.is_table()) return no_measurement(name, "it does not say of which machine");
  identity.processor = value.get_string("processor"), identity.cores = static_cast<int>(value.get_integer("cores"));
  identity.kernels = value.get_string("kernels"), identity.products = value.get_string("products");
  identity.engine = value.get_string("engine");
  if (identity.cores < 1 || identity.kernels.empty() || identity.engine.empty())
    return no_measurement(name, "it does not say of which machine");
  return identity;
}

Value processor_speed_to_value(const ProcessorSpeed& speed) {
  Value document = Value::make_table();
  document.set("version", ProcessorSpeed::version);
  document.set("machine", identity_to_value(speed.identity));
  document.set("ranks", speed.ranks), document.set("threads", speed.threads);
  document.set("precision", speed.precision);
  if (speed.beside.ranks > 0)
    document.set("beside_ranks", speed.beside.ranks), document.set("beside_threads", speed.beside.threads);
  document.set("at_ms", static_cast<long long>(speed.at_ms));
  document.set("spent_seconds", speed.spent_seconds);
  document.set("copy_rate", speed.copy_rate), document.set("call_seconds", speed.call_seconds);
  Value& products = document.set("products", Value::make_array());
  for (const TimedProduct& one : speed.products) {
    Value& entry = products.push_back(Value::make_table());
    entry.set("pass", to_string(one.pass));
    entry.set("m", static_cast<long long>(one.m)), entry.set("n", static_cast<long long>(one.n));
    entry.set("k", static_cast<long long>(one.k));
    entry.set("seconds", one.seconds);
  }
  Value& steps = document.set("steps", Value::make_array());
  for (const TimedStep& one : speed.steps) {
    Value& entry = steps.push_back(Value::make_table());
    for (const auto& [key, value] :
         {std::pair{"hidden", one.hidden}, std::pair{"layers", one.layers}, std::pair{"heads", one.heads},
          std::pair{"feed_forward", one.feed_forward}, std::pair{"vocabulary", one.vocabulary},
          std::pair{"sequence_length", one.sequence_length}, std::pair{"micro_batch_size", one.micro_batch_size},
          std::pair{"micro_batches", one.micro_batches}})
      entry.set(key, static_cast<long long>(value));
    entry.set("seconds", one.seconds);
  }
  if (speed.serving.known()) document.set("serving", serving_speed_to_value(speed.serving));
  if (!speed.rollouts.empty()) add_rollouts(speed.rollouts, document);
  return document;
}

Result<ProcessorSpeed> processor_speed_from_value(const Value& value, const std::string& name) {
  if (!value.is_table() || value.get_integer("version") != ProcessorSpeed::version)
    return no_measurement(name, format("its version is not {}", ProcessorSpeed::version));
  ProcessorSpeed speed;
  const Value* machine = value.find("machine");
  LH_TRY(speed.identity, identity_from_value(machine ? *machine : Value(), name));
  speed.ranks = static_cast<int>(value.get_integer("ranks"));
  speed.threads = static_cast<int>(value.get_integer("threads"));
  speed.precision = value.get_string("precision");
  speed.at_ms = value.get_integer("at_ms"), speed.spent_seconds = value.get_number("spent_seconds");
  speed.copy_rate = value.get_number("copy_rate"), speed.call_seconds = value.get_number("call_seconds");
  speed.beside = {static_cast<int>(value.get_integer("beside_ranks")),
                  static_cast<int>(value.get_integer("beside_threads"))};
  if (speed.beside.ranks < 0 || (speed.beside.ranks == 0) != (speed.beside.threads == 0))
    return no_measurement(name, "ranks beside have no threads, or threads no ranks");
  if (speed.ranks < 1 || speed.threads < 1 || (speed.precision != "bf16" && speed.precision != "f32"))
    return no_measurement(name, "ranks, threads or precision are missing");
  if (!positive_time(speed.copy_rate) || !positive_time(speed.call_seconds))
    return no_measurement(name, "the rate of copies or the time of a call is missing");
  if (!read_timed(value, "products", read_product, speed.products))
    return no_measurement(name, "a product lacks its pass, its sizes or its time");
  if (!read_timed(value, "steps", read_step, speed.steps))
    return no_measurement(name, "a step lacks its sizes or its time");
  LH_CHECK(read_drawing(value, name, speed));
  return speed;
}

}  // namespace longhaul
