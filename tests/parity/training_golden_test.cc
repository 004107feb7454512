// Models of `transformers` trained here become what `transformers` makes of them (golden/train-*/, made by
// make_training_golden.py): logits, loss, the gradient of every tensor, ten AdamW steps; and the folder that is written
// of them is theirs, bit for bit. The same of adapters that PEFT trains (golden/train-adapter-*, made by
// make_adapter_training_golden.py).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/align/scores/score_objective.h"
#include "engine/interop/safetensors.h"
#include "engine/model/adapter/adapter_export.h"
#include "engine/model/store/learned_prompt.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/rewards/reward_pairs.h"
#include "engine/train/step/trainer.h"
#include "tests/parity/golden_options.h"
#include "tests/support/scratch.h"
#include "tests/support/write_model_folder.h"

using namespace longhaul;

namespace {

constexpr double kTrainLogitsBar = 1e-5, kTrainLossBar = 1e-6;
constexpr double kGradientBar = 1e-5;     // of the largest of the tensor's layer
constexpr double kMovedBar = 1e-4;        // of the way that a tensor went in ten steps
constexpr double kMovedOverCodes = 1e-3;  // the same over NF4: a tensor of 64 has an element whose gradient is nearly 0
constexpr const char* kTrained[] = {"train-llama-untied", "train-llama-tied", "train-mistral", "train-gpt2",
                                    "train-mixtral"};

std::string trained_folder(const std::string& model) {
  return std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/" + model;
}

Value training_golden(const std::string& model) {
  const std::string path = trained_folder(model) + "/golden.json";
  return parse_json(read_file(path).value(), path).value();
}

// Softmax is the same whatever is added to all keys' scores of a query: the bias of the keys has no gradient.
bool is_without_gradient(const std::string& name) {
  return ends_with(name, "attn.k_proj.bias");
}

// Where a model has experts: transformers' auxiliary loss, with the coefficient of make_training_golden.py.
const MoeSettings kTheirExperts = [] {
  MoeSettings settings;
  settings.aux_loss = "hugging_face", settings.aux_loss_coef = 0.02;
  return settings;
}();

// The batches of the golden file, one a step.
class GoldenBatches final : public BatchSource {
 public:
  // `before`: ids in front of every row, without a loss.
  explicit GoldenBatches(const Value& golden, std::vector<std::int32_t> before = {})
      : steps_(*golden.find("steps")), before_(std::move(before)) {}
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override {
    const ValueArray& rows = steps_.as_array()[static_cast<std::size_t>(first / count)].find("ids")->as_array();
    REQUIRE(static_cast<std::int64_t>(rows.size()) == count);
    out.ids.clear(), out.targets.clear(), out.weights.clear();
    out.sequences = count;
    for (const Value& row : rows) {
      const ValueArray& ids = row.as_array();
      out.length = static_cast<std::int64_t>(before_.size() + ids.size());
      out.ids.insert(out.ids.end(), before_.begin(), before_.end());
      out.targets.insert(out.targets.end(), before_.size(), no_target);
      out.weights.insert(out.weights.end(), before_.size(), 0.0F);
      for (std::size_t t = 0; t < ids.size(); ++t) {
        const bool last = t + 1 == ids.size();
        out.ids.push_back(static_cast<std::int32_t>(ids[t].as_integer()));
        out.targets.push_back(last ? -1 : static_cast<std::int32_t>(ids[t + 1].as_integer()));
        out.weights.push_back(last ? 0.0F : 1.0F);
      }
    }
    return {};
  }
  std::int64_t samples_per_epoch() const override { return 1000; }
  std::int64_t sequences() const {
    return static_cast<std::int64_t>(steps_.as_array()[0].find("ids")->as_array().size());
  }

 private:
  Value steps_;
  std::vector<std::int32_t> before_;
};

struct GoldenModel {
  explicit GoldenModel(const std::string& name)
      : golden(training_golden(name)),
        store(load_model_config(trained_folder(name)).value().shape, DType::f32),
        batches(golden) {
    REQUIRE(load_model_weights(context, trained_folder(name), store).ok());
    REQUIRE(batches.fill(0, batches.sequences(), first).ok());
    LlamaOptions options;
    options.tokens_max = first.view().tokens();
    options.moe = kTheirExperts;
    model = std::make_unique<Llama>(store, options);
  }
  // Of the tensors of a folder beside the model, in this model's flat order.
  std::vector<float> flat_of(const std::string& folder) {
    ParameterStore other(store.shape(), DType::f32);
    REQUIRE(load_model_weights(context, folder, other).ok());
    return {other.masters().begin(), other.masters().end()};
  }

  ComputeContext context{1};
  Value golden;
  ParameterStore store;
  GoldenBatches batches;
  BatchStorage first;
  std::unique_ptr<Llama> model;
};

double largest_of(std::span<const float> values) {
  double largest = 0;
  for (const float x : values) largest = std::max(largest, std::abs(static_cast<double>(x)));
  return largest;
}
double largest_apart(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(std::isfinite(a[i]));
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest;
}
// Norms: where a gradient is nearly 0, the last bits of a sum decide by how much of a step AdamW moves that one
// element.
double apart_of_way(std::span<const float> a, std::span<const float> b, std::span<const float> start) {
  double apart = 0, way = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(std::isfinite(a[i]));
    apart += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    way += std::pow(static_cast<double>(b[i]) - static_cast<double>(start[i]), 2);
  }
  return std::sqrt(apart / way);
}
std::span<const float> part_of(std::span<const float> flat, const FlatParameter& p) {
  return flat.subspan(static_cast<std::size_t>(p.begin), static_cast<std::size_t>(p.end - p.begin));
}

}  // namespace

TEST_CASE("logits, loss and the gradient of every tensor are theirs") {
  for (const std::string name : kTrained) {
    CAPTURE(name);
    GoldenModel m(name);
    m.model->forward(m.context, 0, m.first.view());
    const std::int64_t vocab = m.store.shape().vocab_size, length = m.first.length;
    std::vector<float> logits(static_cast<std::size_t>(length * vocab)), theirs;
    m.model->logits(m.context, 0, 0, length, View(logits.data(), Shape{length, vocab}));
    for (const Value& row : m.golden.find("logits")->as_array())
      for (const Value& x : row.as_array()) theirs.push_back(static_cast<float>(x.as_number()));
    REQUIRE(theirs.size() == logits.size());
    const double logits_apart = largest_apart(logits, theirs);
    CHECK(logits_apart <= kTrainLogitsBar);

    std::vector<float> loss(m.first.ids.size()), weights = m.first.weights,
                                                 gradient(static_cast<std::size_t>(m.store.layout().flat_size()));
    const auto count = static_cast<float>(std::count(weights.begin(), weights.end(), 1.0F));
    for (float& w : weights) w /= count;
    GradientTarget target;
    target.flat = gradient, target.overwrite = true;
    m.model->backward(m.context, 0, weights, loss, target);
    double mean = 0;
    for (std::size_t t = 0; t < loss.size(); ++t)
      mean += static_cast<double>(weights[t]) * static_cast<double>(loss[t]);
    CHECK(std::abs(mean - m.golden.get_number("loss")) <= kTrainLossBar * mean);

    if (MoeState* experts = m.model->experts())
      CHECK(static_cast<double>(experts->take_totals().balance_loss(0)) ==
            doctest::Approx(m.golden.get_number("auxiliary_loss")).epsilon(1e-5));
    const std::vector<float> wanted = m.flat_of(trained_folder(name) + "/gradients");
    double worst = 0;
    for (const FlatParameter& p : m.store.layout().parameters()) {
      CAPTURE(p.spec.name);
      double largest = 0;
      for (const FlatParameter& other : m.store.layout().parameters())
        if (other.spec.layer == p.spec.layer) largest = std::max(largest, largest_of(part_of(wanted, other)));
      const double apart = largest_apart(part_of(gradient, p), part_of(wanted, p)) / largest;
      CHECK(apart <= kGradientBar);
      if (!is_without_gradient(p.spec.name)) CHECK(largest_of(part_of(wanted, p)) > 1e-3 * largest);
      worst = std::max(worst, apart);
    }
    MESSAGE(format("{}: logits {:.1e} apart, bar {:.0e}; gradients {:.1e} of their layer's largest, bar {:.0e}", name,
                   logits_apart, kTrainLogitsBar, worst, kGradientBar));
    CHECK(worst > 0);
  }
}

namespace {

// What the scripts train with.

}  // namespace

TEST_CASE("ten AdamW steps are theirs: losses, norms, and where every tensor ends") {
  for (const std::string name : kTrained) {
    CAPTURE(name);
    GoldenModel m(name);
    const std::vector<float> start(m.store.masters().begin(), m.store.masters().end());
    const Value& adamw = *m.golden.find("adamw");
    const ValueArray& steps = m.golden.find("steps")->as_array();
    const TrainerOptions options = golden_options(adamw, std::ssize(steps), m.batches.sequences());
    Mesh alone;
    LanguageModelObjective objective;
    Trainer trainer(m.context, alone, m.store, {m.model.get()}, objective, m.batches, options);
    double worst_loss = 0;
    for (const Value& step : steps) {
      const auto report = trainer.step();
      REQUIRE(report.ok());
      worst_loss = std::max(worst_loss, std::abs(report->loss / step.get_number("loss") - 1));
      if (m.model->experts())
        CHECK(report->balance_loss == doctest::Approx(step.get_number("auxiliary_loss")).epsilon(1e-5));
      CHECK(std::abs(report->grad_norm / step.get_number("grad_norm") - 1) <= 1e-4);
    }
    CHECK(worst_loss <= 1e-5);
    const std::vector<float> wanted = m.flat_of(trained_folder(name) + "/after");
    double worst = 0;
    for (const FlatParameter& p : m.store.layout().parameters()) {
      if (is_without_gradient(p.spec.name)) continue;
      CAPTURE(p.spec.name);
      const double apart = apart_of_way(part_of(m.store.masters(), p), part_of(wanted, p), part_of(start, p));
      CHECK(apart <= kMovedBar);
      worst = std::max(worst, apart);
    }
    MESSAGE(format("{}: losses {:.1e} apart, bar 1e-05; weights {:.1e} of their way, bar {:.0e}", name, worst_loss,
                   worst, kMovedBar));
    CHECK(worst > 0);
  }
}

namespace {

// The shape of an adapter's training as PEFT's configuration says it.
AdapterShape peft_shape(const std::string& folder) {
  const std::string path = folder + "/adapter_config.json";
  const Value config = parse_json(read_file(path).value(), path).value();
  AdapterShape adapter;
  if (const Value* bottleneck = config.find(bottleneck_key)) {  // our own: PEFT has none
    adapter.kind = "bottleneck", adapter.bottleneck_size = bottleneck->get_integer("size");
    adapter.bottleneck_after.clear();
    for (const Value& half : bottleneck->find("after")->as_array())
      adapter.bottleneck_after.push_back(half.as_string());
    return adapter;
  }
  if (config.find("num_virtual_tokens")) {
    const std::string type = config.get_string("peft_type");
    adapter.kind = type == "P_TUNING" ? "p-tuning" : type == "PREFIX_TUNING" ? "prefix" : "prompt";
    adapter.virtual_tokens = config.get_integer("num_virtual_tokens");
    if (adapter.has_encoder()) adapter.encoder_size = config.get_integer("encoder_hidden_size");
    return adapter;
  }
  const bool ia3 = config.get_string("peft_type") == "IA3";
  adapter.kind = ia3 ? "ia3" : config.get_bool("use_dora") ? "dora" : "lora";
  if (!ia3) adapter.rank = config.get_integer("r"), adapter.alpha = config.get_number("lora_alpha");
  if (!ia3) adapter.dropout = config.get_number("lora_dropout");
  if (const Value* ranks = config.find("rank_pattern"))
    for (const ValueMember& one : ranks->as_table()) adapter.ranks[one.key] = one.value.as_integer();
  if (const Value* alphas = config.find("alpha_pattern"))
    for (const ValueMember& one : alphas->as_table()) adapter.alphas[one.key] = one.value.as_number();
  const Value* saved = config.find("modules_to_save");  // of a reward model its output layer, by all of its names
  if (saved && saved->is_array() && config.get_string("task_type") == "CAUSAL_LM")
    for (const Value& module : saved->as_array()) adapter.modules_to_save.push_back(module.as_string());
  adapter.rslora = config.get_bool("use_rslora");
  for (const Value& target : config.find("target_modules")->as_array()) adapter.targets.push_back(target.as_string());
  return adapter;
}

// Keys and values of all layers, which PEFT has in one tensor.
std::vector<float> prefix_values(const ParameterLayout& layout, const ModelShape& shape,
                                 const SafetensorsFile& theirs) {
  const SafetensorView view = theirs.find(prompt_name).value();
  REQUIRE(theirs.tensors().size() == 1);
  std::vector<float> prompt(static_cast<std::size_t>(view.elements()));
  REQUIRE(convert_to_f32(view, prompt).ok());
  std::vector<float> flat(static_cast<std::size_t>(layout.flat_size()));
  for (const FlatParameter& p : layout.parameters())
    prompt_part(shape, p.spec, prompt,
                std::span(flat).subspan(static_cast<std::size_t>(p.begin), static_cast<std::size_t>(p.end - p.begin)));
  return flat;
}

// Of a folder of PEFT's, in the flat order of our layout; of p-tuning the encoder, which PEFT keeps nowhere.
std::vector<float> peft_values(const ParameterLayout& layout, const ModelShape& shape, const std::string& folder) {
  const std::string encoder = folder + "/encoder.safetensors";
  const SafetensorsFile theirs =
      SafetensorsFile::open(file_exists(encoder) ? encoder : folder + "/adapter_model.safetensors").value();
  if (shape.virtual_keys) return prefix_values(layout, shape, theirs);
  CHECK(theirs.tensors().size() == layout.parameters().size());
  std::vector<float> flat(static_cast<std::size_t>(layout.flat_size()));
  for (const FlatParameter& p : layout.parameters()) {
    const bool own = p.spec.name.starts_with("prompt_") || is_of_bottleneck(p.spec);
    const SafetensorView view = theirs.find((own ? "" : "base_model.model.") + p.spec.name).value();
    REQUIRE(view.bytes.size() == static_cast<std::size_t>(p.end - p.begin) * sizeof(float));
    std::memcpy(flat.data() + p.begin, view.bytes.data(), view.bytes.size());
  }
  return flat;
}

}  // namespace

namespace {

// What is trained of a golden adapter, its base and its model.
struct GoldenAdapter {
  explicit GoldenAdapter(const std::string& kind)
      : folder(trained_folder("train-adapter-" + kind)),
        golden(training_golden("train-adapter-" + kind)),
        base(trained_folder(golden.get_string("base"))),
        shape(load_any_model_config(base).value().shape),
        frozen(ParameterStore::frozen(frozen_shape(trained_shape()), DType::f32, nullptr, {},
                                      golden.get_string("base_weights", "full"))),
        store(trained_shape(), DType::f32),
        adapted(context, frozen, store, nullptr),
        start(peft_values(store.layout(), frozen.shape(), folder)) {
    REQUIRE(load_model_weights(context, base, frozen, {}, 1).ok());
    std::ranges::copy(start, store.masters().begin());
    store.refresh_compute_copy(context);
  }
  ModelShape trained_shape() const {
    ModelShape trained = shape;
    trained.adapter = peft_shape(folder);
    trained.adapter.base_weights = golden.get_string("base_weights", "full");
    return trained;
  }
  // `count`: samples of a step, of so many tokens together.
  void train(Objective& objective, BatchSource& batches, std::int64_t count, std::int64_t tokens) {
    const ValueArray& steps = golden.find("steps")->as_array();
    TrainerOptions options = golden_options(*golden.find("adamw"), std::ssize(steps), count);
    options.adapted = &adapted, options.tokens_max = tokens;
    LlamaOptions model_options;
    model_options.tokens_max = tokens, model_options.moe.balance = "none";  // no loss but that of the tokens
    model_options.adapted = &adapted;
    model_options.seed = static_cast<std::uint64_t>(golden.get_integer("seed"));  // of the masks
    Llama model(frozen, model_options);
    Mesh alone;
    Trainer trainer(context, alone, store, {&model}, objective, batches, options);
    double worst_loss = 0, worst = 0;
    const double bar = golden.get_string("base_weights", "full") == "full" ? kMovedBar : kMovedOverCodes;
    for (const Value& step : steps) {
      const auto report = trainer.step();
      REQUIRE(report.ok());
      worst_loss = std::max(worst_loss, std::abs(report->loss / step.get_number("loss") - 1));
      CHECK(std::abs(report->grad_norm / step.get_number("grad_norm") - 1) <= 1e-4);
    }
    CHECK(worst_loss <= 1e-5);
    const std::vector<float> wanted = peft_values(store.layout(), frozen.shape(), folder + "/after");
    for (const FlatParameter& p : store.layout().parameters()) {
      CAPTURE(p.spec.name);
      const double apart = apart_of_way(part_of(store.masters(), p), part_of(wanted, p), part_of(start, p));
      CHECK(apart <= bar);
      worst = std::max(worst, apart);
    }
    if (file_exists(folder + "/encoder.safetensors")) check_embeddings();
    MESSAGE(format("{}: losses {:.1e} apart, bar 1e-05; tensors {:.1e} of their way, bar {:.0e}", folder, worst_loss,
                   worst, bar));
    CHECK(worst > 0);
  }

  // What an encoder has made is what PEFT keeps of it.
  void check_embeddings() {
    std::map<std::string, std::vector<float>> values;
    for (const FlatParameter& p : store.layout().parameters()) {
      const std::span<const float> own = part_of(std::span<const float>(store.masters()), p);
      values[p.spec.name].assign(own.begin(), own.end());
    }
    const std::vector<float> ours = learned_prompt(store.shape(), values);
    const SafetensorsFile file = SafetensorsFile::open(folder + "/after/adapter_model.safetensors").value();
    std::vector<float> theirs(ours.size());
    REQUIRE(convert_to_f32(file.find("prompt_embeddings").value(), theirs).ok());
    double apart = 0;
    for (std::size_t i = 0; i < ours.size(); ++i)
      apart = std::max(apart, std::abs(static_cast<double>(ours[i] - theirs[i])));
    CHECK(apart <= 1e-4);
  }

  const ComputeContext context{1};
  std::string folder;
  Value golden;
  std::string base;
  ModelShape shape;
  ParameterStore frozen, store;
  AdaptedWeights adapted;
  std::vector<float> start;
};

}  // namespace

TEST_CASE("ten AdamW steps of an adapter are PEFT's: losses, norms, and where every tensor ends") {
  for (const char* kind : {"lora",     "rslora",       "dora",        "ia3",     "nf4",      "gpt2",   "gpt2-dora",
                           "mixtral",  "mixtral-dora", "patterns",    "modules", "table",    "prompt", "gpt2-prompt",
                           "p-tuning", "prefix",       "gpt2-prefix", "houlsby", "pfeiffer", "dropout"}) {
    CAPTURE(kind);
    GoldenAdapter m(kind);
    GoldenBatches batches(m.golden, virtual_token_ids(m.frozen.shape()));
    BatchStorage first;
    REQUIRE(batches.fill(0, batches.sequences(), first).ok());
    LanguageModelObjective objective;
    m.train(objective, batches, batches.sequences(), first.view().tokens());
  }
}

TEST_CASE("ten AdamW steps of a reward model's adapter, with its output layer beside it, are PEFT's") {
  GoldenAdapter m("reward");
  std::vector<RewardPair> pairs;
  for (const Value& step : m.golden.find("steps")->as_array())
    for (const Value& one : step.find("pairs")->as_array()) {
      RewardPair pair;
      for (const auto& [key, into] : {std::pair{"chosen", &pair.chosen}, {"rejected", &pair.rejected}})
        for (const Value& id : one.find(key)->as_array()) into->push_back(static_cast<std::int32_t>(id.as_integer()));
      pair.margin = one.get_number("margin");
      pairs.push_back(std::move(pair));
    }
  const std::int64_t length = 16, count = 4;
  RewardPairSource batches(std::move(pairs), length, 0, SampleOrder::sequential);
  RewardModelSettings settings;
  settings.center_weight = m.golden.get_number("center_weight");
  ScoreObjective objective(settings);
  m.train(objective, batches, count, 2 * count * length);
}

TEST_CASE("a trained family's folder written again is theirs, bit for bit") {
  for (const std::string name : kTrained) {
    CAPTURE(name);
    GoldenModel m(name);
    const testing::Scratch scratch;
    ModelFolderOptions options;
    options.config = load_model_config(trained_folder(name)).value();
    REQUIRE(testing::write_model_folder(scratch.path(), m.store, options).ok());
    CHECK(load_model_config(scratch.path()).value().shape == options.config.shape);
    const SafetensorsFile theirs = SafetensorsFile::open(trained_folder(name) + "/model.safetensors").value();
    const SafetensorsFile ours = SafetensorsFile::open(scratch.file("model.safetensors")).value();
    REQUIRE(ours.tensors().size() == theirs.tensors().size());
    for (const auto& [tensor, view] : theirs.tensors()) {
      CAPTURE(tensor);
      const SafetensorView mine = ours.find(tensor).value();
      CHECK(mine.shape == view.shape);
      CHECK(mine.bytes == view.bytes);
    }
  }
}
