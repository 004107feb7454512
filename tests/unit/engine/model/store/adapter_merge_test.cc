// Adapters that PEFT wrote, merged here, give the logits that PEFT gives (tests/parity/golden/adapter-*, made by
// make_adapter_golden.py), and what cannot be merged is refused by its name.
#include "engine/model/store/adapter_merge.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/model/llama.h"
#include "engine/model/store/model_folder.h"
#include "engine/parallel/mesh/box_copy.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

std::string adapters_golden(const std::string& name) {
  return std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/" + name;
}

ParameterStore merged_store(const std::string& base, const std::string& adapter) {
  const ComputeContext context(1);
  const ModelShape shape = load_model_config(base).value().shape;
  ParameterStore store(shape, DType::f32);
  const auto reader = ModelFolderReader::open(base, shape);
  REQUIRE(reader.ok());
  const auto merge = AdapterMerge::open(adapter, shape);
  REQUIRE_MESSAGE(merge.ok(), (merge.ok() ? "" : merge.error().message()));
  CHECK(merge->tensors() > 0);
  std::vector<float> values;
  for (const FlatParameter& p : store.layout().parameters()) {
    values.resize(static_cast<std::size_t>(p.end - p.begin));
    REQUIRE(reader->read(p.spec, p.box, values).ok());
    REQUIRE(merge->merge(p.spec, values).ok());
    store.put(context, p, values);
  }
  return store;
}

// Of the last tokens of a sequence, the largest difference from what PEFT computed.
double furthest_from_peft(const ParameterStore& store, const Value& golden) {
  const ComputeContext context(1);
  std::vector<std::int32_t> ids;
  for (const Value& id : golden.find("ids")->as_array()) ids.push_back(static_cast<std::int32_t>(id.as_integer()));
  const auto length = static_cast<std::int64_t>(ids.size()), vocabulary = store.shape().vocab_size;
  LlamaOptions options;
  options.tokens_max = length, options.training = false;
  Llama model(store, options);
  const std::vector<std::int32_t> targets(ids.size(), -1);
  MicroBatch batch;
  batch.sequences = 1, batch.length = length, batch.ids = ids, batch.targets = targets;
  REQUIRE(model.check(batch).ok());
  model.forward(context, 0, batch);
  const ValueArray& expected = golden.find("logits")->as_array();
  const auto rows = static_cast<std::int64_t>(expected.size());
  Tensor logits(DType::f32, Shape{rows, vocabulary}, nullptr);
  model.logits(context, 0, length - rows, length, logits.view());
  double furthest = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const ValueArray& theirs = expected[static_cast<std::size_t>(row)].as_array();
    REQUIRE(static_cast<std::int64_t>(theirs.size()) == vocabulary);
    for (std::int64_t v = 0; v < vocabulary; ++v) {
      const double mine = static_cast<double>(logits.span<float>()[static_cast<std::size_t>(row * vocabulary + v)]);
      furthest = std::max(furthest, std::abs(mine - theirs[static_cast<std::size_t>(v)].as_number()));
    }
  }
  return furthest;
}

// A copy of an adapter's folder whose configuration has one key changed.
std::string with_key(const testing::Scratch& scratch, const std::string& name, const std::string& key, Value value) {
  const std::string from = adapters_golden(name), to = scratch.path() + "/" + name;
  REQUIRE(make_directories(to).ok());
  Value config = parse_json(read_file(from + "/adapter_config.json").value()).value();
  config.set(key, std::move(value));
  REQUIRE(write_file_atomic(to + "/adapter_config.json", to_json(config)).ok());
  REQUIRE(write_file_atomic(to + "/adapter_model.safetensors", read_file(from + "/adapter_model.safetensors").value())
              .ok());
  return to;
}

std::string refusal_of(const std::string& adapter, const std::string& base) {
  const auto merge = AdapterMerge::open(adapter, load_model_config(adapters_golden(base)).value().shape);
  return merge.ok() ? "" : merge.error().message();
}

}  // namespace

TEST_CASE("adapters of PEFT, merged into the weights, give PEFT's logits") {
  for (const std::string name :
       {"lora", "rslora", "saved", "dora", "ia3", "gpt2", "gpt2-dora", "mixtral", "mixtral-ia3"}) {
    CAPTURE(name);
    const std::string folder = adapters_golden("adapter-" + name);
    const Value golden = parse_json(read_file(folder + "/golden.json").value()).value();
    const ParameterStore store = merged_store(adapters_golden(golden.get_string("base")), folder);
    const double furthest = furthest_from_peft(store, golden);
    MESSAGE(name << ": " << furthest);
    CHECK(furthest <= 1e-4);
  }
}

TEST_CASE("an adapter that was merged is taken out again, or refused where what was before is lost") {
  for (const std::string name : {"lora", "ia3", "mixtral", "mixtral-ia3"}) {
    CAPTURE(name);
    const std::string folder = adapters_golden("adapter-" + name);
    const std::string base =
        adapters_golden(parse_json(read_file(folder + "/golden.json").value()).value().get_string("base"));
    const ParameterStore merged = merged_store(base, folder);
    const auto reader = ModelFolderReader::open(base, merged.shape());
    const auto out = AdapterMerge::open(folder, merged.shape(), AdapterMerge::Way::out);
    REQUIRE_MESSAGE(out.ok(), (out.ok() ? "" : out.error().message()));
    double furthest = 0, moved = 0;
    for (const FlatParameter& p : merged.layout().parameters()) {
      const std::span<const float> tuned = merged.vector(p.begin, p.end - p.begin).span<float>();
      std::vector<float> before(tuned.size()), back(tuned.begin(), tuned.end());
      REQUIRE(reader->read(p.spec, p.box, before).ok());
      REQUIRE(out->merge(p.spec, back).ok());
      for (std::size_t i = 0; i < back.size(); ++i) {
        furthest = std::max(furthest, std::abs(static_cast<double>(back[i]) - static_cast<double>(before[i])));
        moved = std::max(moved, std::abs(static_cast<double>(tuned[i]) - static_cast<double>(before[i])));
      }
    }
    CHECK(moved > 1e-3);
    CHECK(furthest < 1e-6);
  }
  const auto refusal = [](const std::string& name) {
    const std::string folder = adapters_golden("adapter-" + name);
    const std::string base = parse_json(read_file(folder + "/golden.json").value()).value().get_string("base");
    const auto out =
        AdapterMerge::open(folder, load_model_config(adapters_golden(base)).value().shape, AdapterMerge::Way::out);
    REQUIRE(!out.ok());
    return out.error().message();
  };
  CHECK(refusal("dora").find("(the lengths of its rows)") != std::string::npos);
  CHECK(refusal("rslora").find("(all of it was replaced)") != std::string::npos);
}

TEST_CASE("an adapter of another model is refused with all that differs, and its base") {
  const std::string said = refusal_of(adapters_golden("adapter-lora"), "train-llama-untied");
  CAPTURE(said);
  CHECK(said.find("is no adapter of this model") != std::string::npos);
  CHECK(said.find("A of model.layers.0.self_attn.q_proj.weight is [4, 32]") != std::string::npos);
  CHECK(said.find("base_model_name_or_path = \"model-untied\"") != std::string::npos);
  CHECK(refusal_of(adapters_golden("adapter-gpt2"), "model-untied").find("the model has no transformer.h.0") !=
        std::string::npos);
  CHECK(refusal_of(adapters_golden("adapter-saved"), "model-tied-llama3").find("tied") != std::string::npos);
  CHECK(refusal_of(adapters_golden("model-untied"), "model-untied").find("adapter_config.json") != std::string::npos);
}

TEST_CASE("what an adapter's configuration asks for and nobody merges is refused by its key") {
  const testing::Scratch scratch;
  const auto said = [&](const char* name, const char* key, Value value) {
    return refusal_of(with_key(scratch, name, key, std::move(value)), "model-untied");
  };
  CHECK(said("adapter-lora", "peft_type", "ADAPTION_PROMPT").find("ADAPTION_PROMPT") != std::string::npos);
  CHECK(said("adapter-lora", "layer_replication", Value(ValueArray{Value(1)})).find("layer_replication") !=
        std::string::npos);
  CHECK(said("adapter-lora", "init_lora_weights", "pissa_niter_4").find("pissa") != std::string::npos);
  CHECK(said("adapter-lora", "use_dora", true).find("use_dora") != std::string::npos);
  Value pattern = Value::make_table();
  pattern.set("layers\\.[01]\\.q_proj", 3);
  CHECK(said("adapter-lora", "alpha_pattern", std::move(pattern)).find("regular expression") != std::string::npos);
  CHECK(said("adapter-lora", "something_new", true).find("something_new") != std::string::npos);
  CHECK(said("adapter-lora", "something_new", false).empty());
}

TEST_CASE("the first of an adapter's alpha patterns that means a module counts, by its whole name or the end of it") {
  const testing::Scratch scratch;
  const std::string base = adapters_golden("model-untied"), name = "model.layers.0.self_attn.q_proj.weight";
  const ModelShape shape = load_model_config(base).value().shape;
  const auto reader = ModelFolderReader::open(base, shape).value();
  const std::vector<ParameterSpec> all = parameter_list(shape);
  const ParameterSpec& spec = *std::ranges::find(all, name, &ParameterSpec::name);
  const auto moved_by = [&](std::initializer_list<std::pair<const char*, double>> alphas) {
    Value pattern = Value::make_table();
    for (const auto& [key, alpha] : alphas) pattern.set(key, alpha);
    const auto merge = AdapterMerge::open(with_key(scratch, "adapter-lora", "alpha_pattern", pattern), shape).value();
    std::vector<float> values(static_cast<std::size_t>(spec.elements()));
    REQUIRE(reader.read(spec, whole_box(spec.shape), values).ok());
    const float before = values[5];
    REQUIRE(merge.merge(spec, values).ok());
    return static_cast<double>(values[5] - before) * 4;  // of rank 4
  };
  const double of_one = moved_by({{"q_proj", 1}});
  CHECK(std::abs(of_one) > 1e-3);
  CHECK(moved_by({{"layers.0.self_attn.q_proj", 2}, {"q_proj", 1}}) == doctest::Approx(2 * of_one).epsilon(1e-4));
  CHECK(moved_by({{"q_proj", 1}, {"layers.0.self_attn.q_proj", 2}}) == doctest::Approx(of_one).epsilon(1e-4));
  CHECK(moved_by({{"layers.1.self_attn.q_proj", 2}}) == doctest::Approx(6 * of_one).epsilon(1e-4));  // lora_alpha
  CHECK(moved_by({{"model.layers.0.self_attn.q_proj", 3}}) == doctest::Approx(3 * of_one).epsilon(1e-4));
}

TEST_CASE("what PEFT puts before every text is read, of p-tuning what its encoder made") {
  struct Written {
    const char* name;
    std::int64_t tokens, width;
  };
  for (const auto& [name, tokens, width] : {Written{"train-adapter-prompt", 5, 16},
                                            {"train-adapter-p-tuning", 4, 16},
                                            {"train-adapter-prefix", 3, 2 * 2 * 8}}) {
    CAPTURE(name);
    const auto prompt = read_peft_prompt(adapters_golden(name));
    REQUIRE_MESSAGE(prompt.ok(), prompt.error().message());
    REQUIRE(prompt->has_value());
    CHECK((*prompt)->tokens == tokens);
    CHECK((*prompt)->width == width);
    CHECK((*prompt)->of_layers == (width > 16));
    CHECK((*prompt)->values.size() == static_cast<std::size_t>(tokens * width));
    const auto merged = AdapterMerge::open(adapters_golden(name), resolve_shape(ModelShape()).value());
    REQUIRE_FALSE(merged.ok());
    CHECK(merged.error().message().find("is no change of weights") != std::string::npos);
  }
  CHECK_FALSE(read_peft_prompt(adapters_golden("train-adapter-lora"))->has_value());

  const testing::Scratch scratch;
  const auto said = [&](const char* key, Value value) {
    const auto prompt = read_peft_prompt(with_key(scratch, "train-adapter-prompt", key, std::move(value)));
    return prompt.ok() ? "" : prompt.error().message();
  };
  CHECK(said("num_virtual_tokens", 6).find("of 6 virtual tokens prompt_embeddings is [5, 16]") != std::string::npos);
  CHECK(said("num_ranks", 2).find("num_ranks is not known") != std::string::npos);
  CHECK(said("num_ranks", Value()).empty());
}
