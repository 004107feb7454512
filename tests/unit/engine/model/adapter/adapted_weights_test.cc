// What an adapter makes of a model, its gradients, and the files that it leaves. That training follows PEFT's:
// tests/parity/training_golden_test.cc; on every layout: tests/parallel/adapter_layouts_test.cc.
#include "engine/model/adapter/adapted_weights.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "base/files/files.h"
#include "base/value/json.h"
#include "engine/interop/peft_writer.h"
#include "engine/model/adapter/adapter_export.h"
#include "engine/model/inference/inference_model.h"
#include "engine/model/store/adapter_merge.h"
#include "tests/support/scratch.h"
#include "tests/support/write_model_folder.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

AdapterShape adapter_of(const std::string& kind) {
  AdapterShape adapter;
  adapter.kind = kind, adapter.rank = 3, adapter.alpha = 5, adapter.virtual_tokens = 4, adapter.bottleneck_size = 6;
  return adapter;
}

SetupOptions adapted_setup(const std::string& kind) {
  SetupOptions options(training_shape(2, false));
  options.adapter = adapter_of(kind);
  return options;
}

// Some matrices have ranks and alphas of their own.
SetupOptions patterned_setup(const std::string& kind) {
  SetupOptions options = adapted_setup(kind);
  options.adapter.ranks = {{"q_proj", 1}, {"model.layers.1.mlp.*", 6}};
  options.adapter.alphas = {{"v_proj", 2}, {"model.layers.1.mlp.up_proj", 9}};
  return options;
}

// Tables, the output layer and norms are trained themselves; of a GPT-2 learned positions, too.
SetupOptions saved_setup(const std::string& kind, ModelShape shape = training_shape(2, false)) {
  SetupOptions options = adapted_setup(kind);
  shape.tie_word_embeddings = false, options.shape = shape;
  options.adapter.modules_to_save = {"lm_head"};
  for (const char* name : {"embed_tokens", "norm", "input_layernorm", "model.layers.1.post_attention_layernorm"})
    if (!shape.is_gpt2()) options.adapter.modules_to_save.emplace_back(name);
  for (const char* name : {"wte", "wpe", "ln_f", "ln_1"})
    if (shape.is_gpt2()) options.adapter.modules_to_save.emplace_back(name);
  return options;
}

// The table of tokens and a matrix of attention.
SetupOptions table_setup() {
  SetupOptions options = adapted_setup("lora");
  options.adapter.targets = {"embed_tokens", "o_proj"}, options.adapter.ranks = {{"embed_tokens", 4}};
  return options;
}

// A third of what enters the thin matrices is dropped.
SetupOptions dropping_setup(const ModelShape& shape) {
  SetupOptions options = shape.is_gpt2() ? adapted_setup("lora") : patterned_setup("lora");
  options.shape = shape, options.adapter.dropout = 0.33;
  return options;
}

// Behind both halves of each layer, or the feed-forward alone.
SetupOptions bottleneck_setup(const ModelShape& shape, bool both = true) {
  SetupOptions options = adapted_setup("bottleneck");
  options.shape = shape;
  if (!both) options.adapter.bottleneck_after = {"feed_forward"};
  return options;
}

// Of experts, a shared one, and one matrix of attention. No loss but that of the tokens.
SetupOptions experts_setup(const std::string& kind) {
  SetupOptions options(training_mixtral_shape());
  options.shape.num_local_experts = 4, options.shape.n_shared_experts = 1;
  options.moe.balance = "none";
  options.adapter = adapter_of(kind);
  options.adapter.targets = {"w1", "w2", "w3", "*.shared_experts.*", "k_proj"};
  return options;
}

// The gradients of experts have been where those of norms are written.
SetupOptions experts_saved_setup(const std::string& kind) {
  SetupOptions options = experts_setup(kind);
  options.shape.num_experts_per_tok = options.shape.num_local_experts, options.shape.tie_word_embeddings = false;
  options.adapter.modules_to_save = {"embed_tokens", "input_layernorm", "post_attention_layernorm"};
  return options;
}

// A choice between experts that falls otherwise is a jump of the loss: here every token goes to all of them.
SetupOptions all_experts_setup(const std::string& kind) {
  SetupOptions options = experts_setup(kind);
  options.shape.num_experts_per_tok = options.shape.num_local_experts;
  return options;
}

// All of an adapter's numbers moved by some noise, so that each matters.
void spread_adapter(ParameterStore& store) {
  const Philox random{5, 17};
  std::uint64_t next = 0;
  for (float& value : store.masters()) value += static_cast<float>(0.05 * random.normal(next++));
  store.shares_changed();
}

struct JudgedBatch {
  explicit JudgedBatch(TrainingSetup& setup) {
    REQUIRE(setup.source.fill(0, 2, storage).ok());
    storage.first_sequence = 7;  // of a training
  }
  double loss(TrainingSetup& setup) {
    std::vector<float> losses(storage.ids.size());
    setup.model.forward(setup.context, 0, storage.view());
    setup.model.token_losses(setup.context, 0, losses);
    double sum = 0;
    for (std::size_t t = 0; t < losses.size(); ++t) sum += static_cast<double>(losses[t]) * storage.weights[t];
    return sum;
  }
  BatchStorage storage;
};

std::vector<float> adapter_gradient(TrainingSetup& setup, const JudgedBatch& batch, bool overwrite) {
  std::vector<float> flat(static_cast<std::size_t>(setup.store.layout().flat_size()), 1.0F);
  GradientTarget own;
  own.flat = flat, own.overwrite = overwrite;
  std::vector<float> losses(batch.storage.ids.size());
  setup.model.forward(setup.context, 0, batch.storage.view());
  setup.model.backward(setup.context, 0, batch.storage.weights, losses, setup.adapted->target(own));
  return flat;
}

}  // namespace

TEST_CASE("an adapter changes nothing of the model before its first step") {
  const SetupOptions plain_options(training_shape(2, false));
  TrainingSetup plain(4, 1, 2, nullptr, DType::f32, 8, plain_options);
  const double wanted = JudgedBatch(plain).loss(plain);
  for (const SetupOptions& options : {adapted_setup("lora"), adapted_setup("dora"), adapted_setup("ia3"),
                                      adapted_setup("bottleneck"), saved_setup("lora"), table_setup()}) {
    CAPTURE(options.adapter.kind);
    TrainingSetup setup(4, 1, 2, nullptr, DType::f32, 8, options);
    CHECK(JudgedBatch(setup).loss(setup) == doctest::Approx(wanted).epsilon(1e-6));
    spread_adapter(setup.store);
    CHECK(std::abs(JudgedBatch(setup).loss(setup) - wanted) > 1e-3);
  }
}

TEST_CASE("an adapter's gradient is the slope of the loss, and adds up over micro-batches") {
  for (const SetupOptions& options :
       {adapted_setup("lora"), adapted_setup("dora"), adapted_setup("ia3"), adapted_setup("prompt"),
        adapted_setup("p-tuning"), adapted_setup("prefix"), adapted_setup("bottleneck"),
        bottleneck_setup(training_gpt2_shape()), patterned_setup("lora"), saved_setup("lora"), saved_setup("ia3"),
        saved_setup("lora", training_gpt2_shape()), table_setup(), dropping_setup(training_shape(2, false)),
        dropping_setup(training_gpt2_shape()), experts_saved_setup("lora"), all_experts_setup("lora"),
        all_experts_setup("dora"), all_experts_setup("ia3")}) {
    CAPTURE(options.adapter.kind);
    CAPTURE(options.shape.architecture);
    TrainingSetup setup(4, 1, 2, nullptr, DType::f32, 8, options);
    spread_adapter(setup.store);
    JudgedBatch batch(setup);
    const std::vector<float> gradient = adapter_gradient(setup, batch, true);
    const std::vector<float> added = adapter_gradient(setup, batch, false);
    const std::vector<float> here(setup.store.masters().begin(), setup.store.masters().end());
    for (const FlatParameter& p : setup.store.layout().parameters()) {
      // No gradient goes through dora's norm: of A and B the loss has another slope (PEFT's is in the golden files).
      if (setup.store.shape().adapter.kind == "dora" && p.spec.shape.size() == 2) continue;
      CAPTURE(p.spec.name);
      double slope = 0, largest = 0;
      const Philox random{9, parameter_stream(p.spec.name)};
      const auto direction = [&](std::int64_t i) { return random.normal(static_cast<std::uint64_t>(i)); };
      for (std::int64_t i = p.begin; i < p.end; ++i) {
        const auto at = static_cast<std::size_t>(i);
        slope += direction(i) * gradient[at];
        largest = std::max(largest, std::abs(static_cast<double>(gradient[at])));
        CHECK(added[at] == doctest::Approx(gradient[at] + 1.0F).epsilon(1e-5));
      }
      CHECK(largest > 1e-4);
      const auto moved = [&](double by) {
        for (std::int64_t i = p.begin; i < p.end; ++i)
          setup.store.masters()[static_cast<std::size_t>(i)] =
              here[static_cast<std::size_t>(i)] + static_cast<float>(by * direction(i));
        setup.store.shares_changed();
        return batch.loss(setup);
      };
      // An encoder has bends, and the other matrix of a table is large.
      const bool bends =
          setup.store.shape().adapter.has_encoder() || p.spec.name.find("embedding_A") != std::string::npos;
      const double by = bends ? 4e-4 : 4e-3;
      const double measured = (moved(by) - moved(-by)) / (2 * by);
      moved(0);
      CHECK(measured == doctest::Approx(slope).epsilon(0.01).scale(0.1));
    }
  }
}

TEST_CASE("training an adapter leaves the model's weights as they are and lowers the loss") {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const char* kind : {"lora", "dora", "ia3", "prompt", "p-tuning", "bottleneck"}) {
      CAPTURE(kind);
      TrainingSetup setup(8, 12, 2, nullptr, dtype, 8, adapted_setup(kind));
      const ConstView weights = setup.frozen->kept(0, setup.frozen->layout().flat_size());
      const auto* const bytes = static_cast<const char*>(weights.data());
      const std::vector<char> before(bytes, bytes + weights.shape().size() * dtype_bytes(dtype));
      double first = 0, last = 0;
      for (int step = 0; step < 12; ++step) {
        const auto report = setup.trainer.step();
        REQUIRE(report.ok());
        (step == 0 ? first : last) = report->loss;
      }
      CHECK(last < first - (std::string(kind) == "ia3" ? 0.002 : 0.02));  // ia3 trains sixteen times fewer numbers
      CHECK(std::equal(before.begin(), before.end(), bytes));
      CHECK(setup.frozen->masters().empty() == (dtype == DType::bf16));
    }
}

TEST_CASE("the files of an adapter, merged into the model's, are the model that was trained") {
  SetupOptions gpt2 = adapted_setup("lora"), gpt2_dora = adapted_setup("dora");
  gpt2.shape = gpt2_dora.shape = training_gpt2_shape();
  for (const SetupOptions& setup_options :
       {adapted_setup("lora"), adapted_setup("dora"), adapted_setup("ia3"), patterned_setup("lora"),
        patterned_setup("dora"), saved_setup("lora"), saved_setup("ia3"), saved_setup("dora", training_gpt2_shape()),
        experts_saved_setup("lora"), gpt2, gpt2_dora, experts_setup("lora"), experts_setup("dora"),
        experts_setup("ia3")}) {
    CAPTURE(setup_options.adapter.kind);
    CAPTURE(setup_options.shape.architecture);
    TrainingSetup setup(4, 1, 2, nullptr, DType::f32, 8, setup_options);
    const testing::Scratch scratch;
    ModelFolderOptions options;
    options.config.shape = setup.frozen->shape();
    REQUIRE(testing::write_model_folder(scratch.file("model"), *setup.frozen, options).ok());
    spread_adapter(setup.store);
    auto writer = PeftWriter::create(scratch.file("adapter"), setup.store.shape(), "model");
    REQUIRE(writer.ok());
    for (const FlatParameter& p : setup.store.layout().parameters())
      REQUIRE(writer->add(p.spec.name, part_of(std::span<const float>(setup.store.masters()), {p.begin, p.end})).ok());
    REQUIRE(writer->finish().ok());
    const auto merge = AdapterMerge::open(scratch.file("adapter"), setup.frozen->shape());
    REQUIRE_MESSAGE(merge.ok(), merge.error().message());
    REQUIRE(copy_model(scratch.file("model"), {&*merge}, options, scratch.file("merged")).ok());
    TrainingSetup merged(4, 1, 2, nullptr, DType::f32, 8, SetupOptions(setup_options.shape));
    REQUIRE(load_model_weights(merged.context, scratch.file("merged"), merged.store).ok());
    CHECK(JudgedBatch(merged).loss(merged) == doctest::Approx(JudgedBatch(setup).loss(setup)).epsilon(1e-6));
  }
}

TEST_CASE("PEFT's configuration names what is trained itself, a norm with a bias once") {
  const SetupOptions options = saved_setup("lora", training_gpt2_shape());
  ModelShape shape = options.shape;
  shape.adapter = options.adapter;
  const testing::Scratch scratch;
  auto writer = PeftWriter::create(scratch.file("adapter"), shape, "model");
  REQUIRE(writer.ok());
  for (const ParameterSpec& spec : parameter_list(shape))
    REQUIRE(writer->add(spec.name, std::vector<float>(static_cast<std::size_t>(spec.elements()))).ok());
  REQUIRE(writer->finish().ok());
  const Value config = parse_json(read_file(scratch.file("adapter") + "/adapter_config.json").value(), "").value();
  CHECK(to_json(*config.find("modules_to_save")) ==
        R"(["transformer.wte","transformer.wpe","transformer.h.0.ln_1","transformer.h.1.ln_1","transformer.ln_f",)"
        R"("lm_head"])");
  const SafetensorsFile file = SafetensorsFile::open(scratch.file("adapter") + "/adapter_model.safetensors").value();
  CHECK(file.find("base_model.model.transformer.ln_f.bias").ok());
  CHECK(file.find("base_model.model.lm_head.weight")->shape == std::vector<std::int64_t>{37, 32});
}

TEST_CASE("PEFT's configuration has each rank and alpha that is not the adapter's, by the whole name of its module") {
  const SetupOptions options = dropping_setup(training_shape(2, false));
  ModelShape shape = options.shape;
  shape.adapter = options.adapter;
  const testing::Scratch scratch;
  auto writer = PeftWriter::create(scratch.file("adapter"), shape, "model");
  REQUIRE(writer.ok());
  for (const ParameterSpec& spec : parameter_list(shape))
    REQUIRE(writer->add(spec.name, std::vector<float>(static_cast<std::size_t>(spec.elements()))).ok());
  REQUIRE(writer->finish().ok());
  const Value config = parse_json(read_file(scratch.file("adapter") + "/adapter_config.json").value(), "").value();
  CHECK(config.get_integer("r") == 3);
  CHECK(config.get_number("lora_dropout") == 0.33);
  CHECK(to_json(*config.find("rank_pattern")) ==
        R"({"model.layers.0.self_attn.q_proj":1,"model.layers.1.self_attn.q_proj":1,"model.layers.1.mlp.gate_proj":6,)"
        R"("model.layers.1.mlp.up_proj":6,"model.layers.1.mlp.down_proj":6})");
  const Value& alphas = *config.find("alpha_pattern");
  CHECK(alphas.size() == 3);
  CHECK(alphas.get_number("model.layers.1.self_attn.v_proj") == 2);
  CHECK(alphas.get_number("model.layers.1.mlp.up_proj") == 9);
}

namespace {

struct PromptedModel {
  const char* kind;
  ModelShape shape;
};

std::vector<PromptedModel> prompted_models() {
  return {{"prompt", training_shape(2, false)},
          {"prompt", training_gpt2_shape()},
          {"prompt", training_mixtral_shape()},
          {"prefix", training_shape(2, false)},
          {"prefix", training_gpt2_shape()}};
}

// The losses of a text that says nothing of what stands before it.
std::vector<float> losses_of_text(const ComputeContext& context, InferenceModel& model,
                                  std::span<const std::int32_t> text, std::span<const std::int32_t> targets) {
  KvCache cache = model.make_cache(12);
  std::vector<float> logits(12 * 37), of_tokens;
  for (const auto& piece : {text.subspan(0, 5), text.subspan(5)}) {  // the second finds the first, not the prompt
    const SequenceStep step{&cache, piece};
    const auto rows = std::span(logits).subspan((of_tokens.size()) * 37, piece.size() * 37);
    const Status done = model.forward(context, {&step, 1}, LogitsWanted::all, rows);
    REQUIRE_MESSAGE(done.ok(), done.error().message());
    for (std::size_t i = 0; i < piece.size(); ++i) {
      const auto row = rows.subspan(i * 37, 37);
      double sum = 0;
      for (const float logit : row) sum += std::exp(static_cast<double>(logit));
      const std::int32_t target = targets[of_tokens.size()];
      of_tokens.push_back(
          target < 0 ? 0.0F
                     : static_cast<float>(std::log(sum) - static_cast<double>(row[static_cast<std::size_t>(target)])));
    }
  }
  CHECK(cache.length() == 12 + model.shape().virtual_tokens);
  return of_tokens;
}

// Its rows begin as tokens that the seed draws.
void check_sampled_rows(const ParameterStore& model, std::span<const float> prompt) {
  const FlatParameter& table = model.layout().find(embedding_name(model.shape()));
  const std::span<const float> tokens = model.kept(table.begin, table.end - table.begin).span<float>();
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto is_row = [&](std::int64_t token) {
      return std::equal(prompt.begin() + i * 32, prompt.begin() + (i + 1) * 32, tokens.begin() + token * 32);
    };
    bool found = false;
    for (std::int64_t token = 0; token < 37; ++token) found = found || is_row(token);
    CHECK(found);
  }
}

void check_peft_files(const std::string& folder, const ModelShape& shape, bool prefix) {
  const SafetensorsFile peft = SafetensorsFile::open(folder + "/adapter_model.safetensors").value();
  REQUIRE(peft.tensors().size() == 1);
  const std::int64_t width = prefix ? shape.num_hidden_layers * 2 * shape.kv_size() : 32;
  CHECK(peft.find("prompt_embeddings")->shape == std::vector<std::int64_t>{4, width});
  const Value said = parse_json(read_file(folder + "/adapter_config.json").value(), "").value();
  CHECK(said.get_string("peft_type") == (prefix ? "PREFIX_TUNING" : "PROMPT_TUNING"));
  CHECK(said.get_integer("num_virtual_tokens") == 4);
}

}  // namespace

TEST_CASE("what was learnt to stand before every text stands there in the model that it leaves, and in PEFT's files") {
  for (const PromptedModel& prompted : prompted_models()) {
    const ModelShape& shape = prompted.shape;
    const bool prefix = std::string(prompted.kind) == "prefix";
    CAPTURE(prompted.kind);
    CAPTURE(shape.architecture);
    TrainingSetup plain(4, 1, 2, nullptr, DType::f32, 8, SetupOptions(shape));
    const testing::Scratch scratch;
    ModelFolderOptions folder;
    folder.config.shape = shape;
    REQUIRE(testing::write_model_folder(scratch.file("model"), plain.store, folder).ok());
    SetupOptions options(shape);
    options.adapter = adapter_of(prompted.kind);
    TrainingSetup setup(4, 1, 2, nullptr, DType::f32, 8, options);
    REQUIRE(load_model_weights(setup.context, scratch.file("model"), *setup.frozen, {}, 3).ok());
    setup.adapted->initialize(2);
    if (!prefix) check_sampled_rows(*setup.frozen, setup.store.masters());
    spread_adapter(setup.store);
    Mesh alone;
    const Status written = write_adapted_model(
        alone, true, setup.store, scratch.file("model"), [&] { return Result<ModelFolderOptions>(folder); },
        scratch.file("tuned"));
    REQUIRE_MESSAGE(written.ok(), written.error().message());
    const auto refused = load_model_config(scratch.file("tuned"));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().what.find(prefix ? "has 4 keys and values of each layer that stand before every text"
                                           : "has 4 embeddings that stand before every text") != std::string::npos);
    const auto config = load_model_config(scratch.file("tuned"), AdapterParts::known);
    REQUIRE_MESSAGE(config.ok(), config.error().message());
    CHECK(config->shape.virtual_tokens == 4);
    CHECK(config->shape.virtual_keys == prefix);

    // What training computes of a row behind the four ids is what a text has that says nothing of them.
    JudgedBatch batch(setup);
    std::vector<float> losses(batch.storage.ids.size());
    setup.model.forward(setup.context, 0, batch.storage.view());
    setup.model.token_losses(setup.context, 0, losses);
    auto tuned = InferenceModel::load(scratch.file("tuned"), DType::f32);
    auto base = InferenceModel::load(scratch.file("model"), DType::f32);
    REQUIRE_MESSAGE(tuned.ok(), tuned.error().message());
    const auto losses_of = [&](InferenceModel& model) {
      return losses_of_text(setup.context, model, std::span(batch.storage.ids).subspan(4, 12),
                            std::span(batch.storage.targets).subspan(4));
    };
    const std::vector<float> of_tuned = losses_of(*tuned), of_base = losses_of(*base);
    double apart = 0, without = 0;
    for (std::size_t i = 0; i < 12; ++i) {
      apart = std::max(apart, std::abs(static_cast<double>(of_tuned[i] - losses[4 + i])));
      without = std::max(without, std::abs(static_cast<double>(of_base[i] - losses[4 + i])));
    }
    CHECK(apart < 1e-5);
    CHECK(without > 1e-3);
    check_peft_files(scratch.file("tuned") + "/adapter", shape, prefix);
  }
}

namespace {

// The files of a bottleneck have its parameters by their own names, and say what it is; nobody merges them.
void check_bottleneck_files(const std::string& folder, const ModelShape& shape, std::size_t halves) {
  const SafetensorsFile file = SafetensorsFile::open(folder + "/adapter_model.safetensors").value();
  CHECK(file.tensors().size() == 2 * 4 * halves);
  CHECK(file.find(bottleneck_prefix(shape, 1, LayerHalf::feed_forward) + "down.weight")->shape ==
        std::vector<std::int64_t>{6, 32});
  const Value said = parse_json(read_file(folder + "/adapter_config.json").value(), "").value();
  CHECK(said.find(bottleneck_key)->get_integer("size") == 6);
  CHECK(said.find(bottleneck_key)->find("after")->size() == halves);
  const auto merged = AdapterMerge::open(folder, shape);
  REQUIRE_FALSE(merged.ok());
  CHECK(merged.error().code == ErrorCode::unsupported);
  CHECK(merged.error().message().find("is of a bottleneck, whose layers no weights can take the place of") !=
        std::string::npos);
}

}  // namespace

TEST_CASE("layers that were learnt behind others are there in the model that it leaves, and in files of their own") {
  for (const SetupOptions& options :
       {bottleneck_setup(training_shape(2, false)), bottleneck_setup(training_gpt2_shape()),
        bottleneck_setup(training_shape(2, true), false)}) {
    const ModelShape& shape = options.shape;
    CAPTURE(shape.architecture);
    TrainingSetup plain(4, 1, 2, nullptr, DType::f32, 8, SetupOptions(shape));
    const testing::Scratch scratch;
    ModelFolderOptions folder;
    folder.config.shape = shape;
    REQUIRE(testing::write_model_folder(scratch.file("model"), plain.store, folder).ok());
    TrainingSetup setup(4, 1, 2, nullptr, DType::f32, 8, options);
    REQUIRE(load_model_weights(setup.context, scratch.file("model"), *setup.frozen, {}, 3).ok());
    setup.adapted->initialize(2);
    spread_adapter(setup.store);
    Mesh alone;
    const Status written = write_adapted_model(
        alone, true, setup.store, scratch.file("model"), [&] { return Result<ModelFolderOptions>(folder); },
        scratch.file("tuned"));
    REQUIRE_MESSAGE(written.ok(), written.error().message());
    const auto refused = load_model_config(scratch.file("tuned"));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().what.find("has bottlenecks of 6 after ") != std::string::npos);
    const auto config = load_model_config(scratch.file("tuned"), AdapterParts::known);
    REQUIRE_MESSAGE(config.ok(), config.error().message());
    CHECK(config->shape.bottleneck == bottleneck_of(options.adapter));

    JudgedBatch batch(setup);
    std::vector<float> losses(batch.storage.ids.size());
    setup.model.forward(setup.context, 0, batch.storage.view());
    setup.model.token_losses(setup.context, 0, losses);
    double apart = 0, without = 0;
    for (const char* name : {"tuned", "model"}) {
      auto model = InferenceModel::load(scratch.file(name), DType::f32);
      REQUIRE_MESSAGE(model.ok(), model.error().message());
      const std::vector<float> of_text = losses_of_text(setup.context, *model, std::span(batch.storage.ids).first(12),
                                                        std::span(batch.storage.targets));
      double& largest = std::string(name) == "tuned" ? apart : without;
      for (std::size_t i = 0; i < 12; ++i)
        largest = std::max(largest, std::abs(static_cast<double>(of_text[i] - losses[i])));
    }
    CHECK(apart < 1e-5);
    CHECK(without > 1e-3);
    check_bottleneck_files(scratch.file("tuned") + "/adapter", shape, options.adapter.bottleneck_after.size());
  }
}

TEST_CASE("an adapter over weights in few bits is trained as over the weights that these stand for, bit for bit") {
  for (const auto& [format, setup] : {std::pair{"int8", adapted_setup("dora")},
                                      {"int4", adapted_setup("dora")},
                                      {"nf4", adapted_setup("dora")},
                                      {"nf4", experts_setup("dora")}}) {
    CAPTURE(format);
    SetupOptions options = setup;
    options.adapter.targets = {"model.layers.1.*"};  // the other layer is widened, too
    TrainingSetup wide(8, 4, 2, nullptr, DType::f32, 8, options);
    options.adapter.base_weights = format;
    TrainingSetup held(8, 4, 2, nullptr, DType::f32, 8, options);
    double largest = 0;
    for (const FlatParameter& p : wide.frozen->layout().parameters()) {
      const std::span<const float> kept = wide.frozen->kept(p.begin, p.end - p.begin).span<float>();
      std::vector<float> values(kept.begin(), kept.end());
      if (is_coded(format, p.spec)) round_to_codes(format, values);
      for (std::size_t i = 0; i < values.size(); ++i)
        largest = std::max(largest, std::abs(static_cast<double>(values[i]) - static_cast<double>(kept[i])));
      wide.frozen->put(wide.context, p, values);
    }
    CHECK(largest > 1e-5);  // there is something to differ in
    wide.adapted->initialize(2);
    for (int step = 0; step < 4; ++step) {
      const auto a = wide.trainer.step(), b = held.trainer.step();
      REQUIRE(a.ok());
      REQUIRE(b.ok());
      CHECK(a->loss == b->loss);
      CHECK(a->grad_norm == b->grad_norm);
    }
    CHECK(held.memory.peak()[MemoryCategory::weights] < wide.memory.peak()[MemoryCategory::weights]);
  }
}

TEST_CASE("what a training over weights in few bits leaves is the model that was trained") {
  SetupOptions options = adapted_setup("lora");
  options.adapter.base_weights = "nf4";
  TrainingSetup setup(4, 1, 2, nullptr, DType::f32, 8, options);
  TrainingSetup plain(4, 1, 2, nullptr, DType::f32, 8, SetupOptions(training_shape(2, false)));
  const testing::Scratch scratch;
  ModelFolderOptions folder;
  folder.config.shape = setup.frozen->shape();
  REQUIRE(testing::write_model_folder(scratch.file("model"), plain.store, folder).ok());
  spread_adapter(setup.store);
  Mesh alone;
  const Status written = write_adapted_model(
      alone, true, setup.store, scratch.file("model"), [&] { return Result<ModelFolderOptions>(folder); },
      scratch.file("merged"));
  REQUIRE_MESSAGE(written.ok(), written.error().message());
  REQUIRE(load_model_weights(plain.context, scratch.file("merged"), plain.store).ok());
  CHECK(JudgedBatch(plain).loss(plain) == doctest::Approx(JudgedBatch(setup).loss(setup)).epsilon(1e-6));
}

TEST_CASE("an adapter of one matrix of some experts has the gradient that it has beside those of all") {
  const auto gradient_of = [](std::vector<std::string> targets) {
    SetupOptions options = experts_setup("lora");
    options.adapter.targets = std::move(targets);
    TrainingSetup setup(4, 1, 2, nullptr, DType::f32, 8, options);
    std::vector<float> flat = adapter_gradient(setup, JudgedBatch(setup), true);
    std::map<std::string, std::vector<float>> gradients;
    for (const FlatParameter& p : setup.store.layout().parameters())
      gradients[p.spec.name].assign(flat.begin() + p.begin, flat.begin() + p.end);
    return gradients;
  };
  const auto of_all = gradient_of({"w1", "w2", "w3"});
  for (const char* target : {"w2", "*.experts.1.w3", "*.layers.1.*.experts.2.*"}) {
    CAPTURE(target);
    const auto of_some = gradient_of({target});
    CHECK(of_some.size() < of_all.size());
    for (const auto& [name, gradient] : of_some) {
      CAPTURE(name);
      CHECK(gradient == of_all.at(name));
      if (name.ends_with("lora_B.weight")) CHECK(std::ranges::any_of(gradient, [](float x) { return x != 0; }));
    }
  }
}

TEST_CASE("only matrices that are named are adapted, and what is trained is small") {
  SetupOptions options = adapted_setup("lora");
  options.adapter.targets = {"q_proj", "model.layers.1.mlp.*"};
  TrainingSetup setup(4, 1, 2, nullptr, DType::f32, 8, options);
  std::vector<std::string> names;
  for (const FlatParameter& p : setup.store.layout().parameters()) names.push_back(p.spec.name);
  CHECK(names.size() == 2 * (2 + 3));
  CHECK(std::ranges::find(names, "model.layers.0.self_attn.q_proj.lora_A.weight") != names.end());
  CHECK(std::ranges::find(names, "model.layers.1.mlp.down_proj.lora_B.weight") != names.end());
  CHECK(std::ranges::find(names, "model.layers.0.mlp.down_proj.lora_B.weight") == names.end());
  CHECK(setup.trainer.step().ok());
}

TEST_CASE("of matrices that nobody wants no gradient is computed") {
  TrainingSetup setup(4, 1, 2, nullptr, DType::f32, 8, SetupOptions(training_shape(2, false)));
  const JudgedBatch batch(setup);
  const FlatParameter& wanted = setup.store.layout().find("model.layers.1.self_attn.k_proj.weight");
  std::vector<float> flat(static_cast<std::size_t>(setup.store.layout().flat_size()), 7.0F);
  GradientTarget target;
  target.flat = flat, target.overwrite = true;
  target.wanted = [&](std::int64_t begin, std::int64_t end) { return begin <= wanted.begin && wanted.begin < end; };
  std::vector<float> losses(batch.storage.ids.size());
  setup.model.forward(setup.context, 0, batch.storage.view());
  setup.model.backward(setup.context, 0, batch.storage.weights, losses, target);
  for (const FlatParameter& p : setup.store.layout().parameters()) {
    if (p.spec.shape.size() < 2) continue;
    CAPTURE(p.spec.name);
    const auto own = part_of(std::span<const float>(flat), {p.begin, p.end});
    const bool untouched = std::ranges::all_of(own, [](float value) { return value == 7.0F; });
    const bool beside = p.spec.name.starts_with("model.layers.1.self_attn.") && !p.spec.name.ends_with("o_proj.weight");
    CHECK(untouched == !beside);  // q, k and v are one product
  }
}
