#include "autotune/inference/serving_plan.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "base/toml.h"
#include "contracts/settings/stages/inference.h"
#include "tests/support/sanitized.h"
#include "tests/support/seed.h"

namespace longhaul {
namespace {

const TimeConstants& serving_constants() {
  static const TimeConstants constants =
      read_time_constants(std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml").value();
  return constants;
}

Cluster cluster_named(const std::string& name) {
  const GpuType gpu = serving_constants().gpu_named(name).value();
  return {gpu, 8, gpu.link_domain, gpu.nic_rate};
}

ModelShape llama_served(bool large) {
  ModelShape shape;
  shape.hidden_size = large ? 8192 : 4096, shape.intermediate_size = large ? 28672 : 14336;
  shape.num_hidden_layers = large ? 80 : 32, shape.num_attention_heads = large ? 64 : 32;
  shape.num_key_value_heads = 8, shape.head_dim = 128, shape.vocab_size = 128256;
  shape.max_position_embeddings = 131072, shape.tie_word_embeddings = false;
  return shape;
}

ServingPlan plan_of(bool large, const ServingTask& task, const std::string& gpu) {
  auto plan = plan_serving(llama_served(large), task, cluster_named(gpu), serving_constants());
  if (!plan.ok()) FAIL(plan.error().message());
  return *plan;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const ServingAlternative* alternative(const ServingPlan& plan, const std::string& name) {
  for (const ServingAlternative& a : plan.alternatives)
    if (a.name == name) return &a;
  return nullptr;
}

TEST_CASE("nothing that was computed is better than the winner, and the winner keeps its promises") {
  for (const ServingGoal goal : {ServingGoal::throughput, ServingGoal::latency}) {
    for (const double itl : {0.0, 0.030, 0.016}) {
      ServingTask task;
      task.gpus = 8, task.goal = goal, task.itl_max = itl, task.caches = {CacheFormat::bf16, CacheFormat::fp8};
      const ServingPlan plan = plan_of(true, task, "H100");
      const ServingLayout& w = plan.winner.layout;
      CHECK(plan.winner.fits);
      CHECK(plan.winner.meets_targets);
      CHECK(w.replicas * w.tp <= 8);
      if (itl > 0) CHECK(plan.winner.rates.itl <= itl);
      for (const ServingCandidate& c : serving_candidates(llama_served(true), task, plan.place)) {
        if (!c.meets_targets || !c.fits) continue;
        if (goal == ServingGoal::throughput) CHECK(0.99 * c.token_rate <= plan.winner.token_rate);
        if (goal == ServingGoal::latency)
          CHECK(c.rates.latency(task.answer_tokens) >= 0.99 * plan.winner.rates.latency(task.answer_tokens));
      }
    }
  }
}

TEST_CASE("a target on ITL costs tokens/s; the shortest answers take the widest group") {
  ServingTask task;
  task.gpus = 8;
  const double free = plan_of(true, task, "H100").winner.token_rate;
  task.itl_max = 0.02;
  const ServingPlan held = plan_of(true, task, "H100");
  CHECK(held.winner.token_rate < free);
  task.goal = ServingGoal::latency, task.itl_max = 0;
  const ServingPlan quick = plan_of(true, task, "H100");
  CHECK(quick.winner.rates.itl < held.winner.rates.itl);
  CHECK(quick.winner.layout.tp == 8);
}

TEST_CASE("the Pareto front rises in both, and holds the winner's tokens/s") {
  ServingTask task;
  task.gpus = 4;
  const ServingPlan plan = plan_of(false, task, "A100");
  REQUIRE(plan.pareto.size() > 3);
  for (std::size_t i = 1; i < plan.pareto.size(); ++i) {
    CHECK(plan.pareto[i].token_rate > plan.pareto[i - 1].token_rate);
    CHECK(plan.pareto[i].rates.itl >= plan.pareto[i - 1].rates.itl);
  }
  CHECK(plan.pareto.back().token_rate == doctest::Approx(plan.winner.token_rate).epsilon(0.02));
}

TEST_CASE("the plan says why the others lost, and what formats that are not allowed would bring") {
  ServingTask task;
  task.gpus = 8, task.itl_max = 0.025;
  const ServingPlan plan = plan_of(true, task, "H100");
  const ServingAlternative *one = alternative(plan, "tp = 1"), *fp8 = alternative(plan, "fp8 weights");
  REQUIRE(one != nullptr);
  CHECK(one->why.substr(0, 12) == "does not fit");
  REQUIRE(fp8 != nullptr);
  CHECK(!fp8->allowed);
  CHECK(has(fp8->why, "more tokens/s"));
  const std::string report = serving_report(plan);
  for (const char* part : {"Why not", "tp = 1", "(not allowed)", "GB of each GPU", "ITL", "chunks of 512"})
    CHECK_MESSAGE(has(report, part), part << " in " << report);
  CHECK_MESSAGE(has(report, "90 % of such servers bring"), report);
  CHECK_MESSAGE(has(report, sentence_of(ForecastSource::measured_elsewhere)), report);
  CHECK(plan.low_rate() < plan.winner.token_rate);
  CHECK(plan.high_rate() > plan.winner.token_rate);
}

TEST_CASE("fp8 is no offer where the GPU has none") {
  ServingTask task;
  task.gpus = 4;
  const ServingPlan plan = plan_of(true, task, "A100");
  CHECK(alternative(plan, "fp8 weights") == nullptr);
  CHECK(alternative(plan, "int4 weights") != nullptr);
}

TEST_CASE("what does not fit says by how much, and each way out that it names does fit") {
  ServingTask task;
  const auto plan = plan_serving(llama_served(true), task, cluster_named("H100"), serving_constants());
  REQUIRE(!plan.ok());
  CHECK(plan.error().code == ErrorCode::unavailable);
  const std::string text = plan.error().message();
  for (const char* part : {"GB more on each h100", "tp = 4 (4 GPUs)", "int4 weights", "GPUs of"})
    CHECK_MESSAGE(has(text, part), part << " in " << text);
  task.gpus = 4;
  CHECK(plan_serving(llama_served(true), task, cluster_named("H100"), serving_constants()).ok());
  task.gpus = 1, task.weights = {WeightFormat::int4};
  CHECK(plan_serving(llama_served(true), task, cluster_named("H100"), serving_constants()).ok());
}

TEST_CASE("targets that cannot be met say how near the nearest comes") {
  ServingTask task;
  task.itl_max = 1e-3;
  auto plan = plan_serving(llama_served(false), task, cluster_named("H100"), serving_constants());
  REQUIRE(!plan.ok());
  CHECK(has(plan.error().message(), "over the target 1 ms"));
  task.itl_max = 0, task.request_rate = 1e4;
  plan = plan_serving(llama_served(false), task, cluster_named("H100"), serving_constants());
  REQUIRE(!plan.ok());
  CHECK(has(plan.error().message(), "of the 1e+04 requests/s"));
}

TEST_CASE("everything that is wrong with a question is said at once, with the pair in conflict") {
  ServingTask task;
  task.gpus = 8, task.tp = 3, task.percentile = 95, task.context_length = 100, task.weights = {WeightFormat::fp8};
  const auto plan = plan_serving(llama_served(true), task, cluster_named("A100"), serving_constants());
  REQUIRE(!plan.ok());
  CHECK(plan.error().code == ErrorCode::invalid_input);
  for (const char* part : {"tp = 3 does not divide num_attention_heads = 64", "use tp = 1, 2, 4, 8", "percentile = 95",
                           "context_length = 100", "a100 has no products"})
    CHECK_MESSAGE(has(plan.error().message(), part), part << " in " << plan.error().message());
}

TEST_CASE("the settings are those of a deploy stage, within its bounds") {
  ServingTask task;
  limit_to_own_server(task);
  task.goal = ServingGoal::latency, task.concurrency = 16;
  const ServingPlan plan = plan_of(false, task, "H200");
  CHECK(plan.winner.layout.chunk == 256);
  const std::string text = serving_toml(llama_served(false), plan);
  const auto document = parse_toml(text, "plan.toml");
  REQUIRE_MESSAGE(document.ok(), text);
  const Value* stage = document->find("stage")->find("deploy");
  REQUIRE(stage != nullptr);
  Value settings = *stage;
  std::erase_if(settings.as_table(), [](const ValueMember& m) { return m.key == "kind"; });
  const auto deploy = deploy_fields().parse(settings, "stage.deploy");
  REQUIRE_MESSAGE(deploy.ok(), (deploy.ok() ? "" : deploy.error().message()));
  CHECK(deploy->slots == plan.winner.layout.slots);
  CHECK(deploy->precision == "bf16");
  CHECK(deploy->max_tokens >= task.answer_tokens);
  // int8 weights come from a quantize stage before it.
  CHECK((document->find("stage")->find("quantize") != nullptr) == (plan.winner.layout.weights == WeightFormat::int8));
}

TEST_CASE("any model and question gets a plan that keeps its word or an error that says what to do") {
  const std::uint64_t seed = testing::seed(614);
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const auto draw = [&](int from, int to) {
    return from + static_cast<int>(random() % static_cast<unsigned>(to - from + 1));
  };
  int plans = 0;
  constexpr int questions = testing::sanitized ? 12 : 60;
  for (int i = 0; i < questions; ++i) {
    ModelShape shape;
    shape.num_attention_heads = 1 << draw(2, 6), shape.hidden_size = shape.num_attention_heads * 64 * draw(1, 2);
    shape.num_key_value_heads = draw(0, 1) == 0 ? 0 : shape.num_attention_heads / 4;  // 0: as many, once resolved
    shape.num_hidden_layers = draw(1, 80), shape.vocab_size = draw(100, 200000), shape.max_position_embeddings = 9000;
    if (draw(0, 3) == 0) shape.architecture = "mixtral";
    if (draw(0, 5) == 0) shape.architecture = "gpt2", shape.num_key_value_heads = 0;
    ServingTask task;
    task.prompt_tokens = draw(1, 4000), task.answer_tokens = draw(1, 4000), task.gpus = draw(1, 9);
    task.goal = draw(0, 1) == 0 ? ServingGoal::latency : ServingGoal::throughput, task.concurrency = draw(1, 300);
    task.request_rate = draw(0, 1) == 0 ? 0 : draw(1, 40), task.itl_max = draw(0, 1) * 0.05;
    task.weights = all_weight_formats(), task.caches = all_cache_formats(), task.chunks = {256, 2048};
    CAPTURE(i);
    const auto plan = plan_serving(shape, task, cluster_named(draw(0, 1) == 0 ? "A100" : "B200"), serving_constants());
    if (!plan.ok()) {
      CHECK(plan.error().message().size() > 40);
      continue;
    }
    ++plans;
    const ServingCandidate& w = plan->winner;
    CHECK(w.layout.slots >= 1);
    CHECK(w.layout.slots <= w.slots_fit);
    CHECK(w.layout.tp * w.layout.replicas <= task.gpus);
    CHECK(std::isfinite(w.token_rate));
    CHECK(w.token_rate > 0);
    CHECK((task.itl_max == 0 || w.rates.itl <= task.itl_max));
    CHECK(parse_toml(serving_toml(shape, *plan), "plan.toml").ok());
    CHECK(!plan->pareto.empty());
  }
  CHECK(plans > questions / 3);
}

TEST_CASE("more GPUs carry more; a rate that one replica cannot carry is carried by eight") {
  ServingTask task;
  const double one = plan_of(false, task, "H100").winner.token_rate;
  task.gpus = 8;
  const ServingPlan plan = plan_of(false, task, "H100");
  CHECK(plan.winner.token_rate > 6 * one);
  task.request_rate = 3 * one / static_cast<double>(task.answer_tokens), task.ttft_max = 2, task.itl_max = 0.1;
  const ServingPlan loaded = plan_of(false, task, "H100");
  CHECK(!loaded.winner.rates.overloaded);
  CHECK(loaded.winner.rates.ttft <= 2);
}

}  // namespace
}  // namespace longhaul
