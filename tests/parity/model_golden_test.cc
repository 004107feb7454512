// Models of `transformers` loaded here compute what `transformers` computed with them (golden/model-*/, made by
// make_model_golden.py): logits, losses, greedy answers, and the folder that is written of them again.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/interop/safetensors.h"
#include "engine/model/inference/inference_model.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/common/parity_commands.h"
#include "tests/support/scratch.h"
#include "tests/support/write_model_folder.h"

using namespace longhaul;

namespace {

constexpr double kLogitsBar = 1e-4, kLossBar = 1e-5;
constexpr std::int64_t kAnswerTokens = 24;
using Ids = std::vector<std::int32_t>;

// Any small model will do, but both kinds of output layer and of rotary embedding have to be there.
constexpr const char* kModels[] = {"model-untied", "model-tied-llama3", "model-mistral"};

std::string golden_folder(const std::string& model) {
  return std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/" + model;
}

Value golden_of(const std::string& model) {
  const std::string path = golden_folder(model) + "/golden.json";
  return parse_json(read_file(path).value(), path).value();
}

Ids ids_of(const Value& row, const char* key) {
  Ids ids;
  for (const Value& id : row.find(key)->as_array()) ids.push_back(static_cast<std::int32_t>(id.as_integer()));
  return ids;
}

InferenceModel load_golden(const std::string& model) {
  auto loaded = InferenceModel::load(golden_folder(model), DType::f32);
  INFO((loaded.ok() ? std::string() : loaded.error().message()));
  REQUIRE(loaded.ok());
  return std::move(loaded).value();
}

// [tokens, vocab], the sequence in one piece, or token by token through the cache.
std::vector<float> logits_of(InferenceModel& model, std::span<const std::int32_t> ids, bool one_by_one) {
  const ComputeContext context(1);
  const auto vocab = static_cast<std::size_t>(model.shape().vocab_size);
  std::vector<float> logits(ids.size() * vocab);
  KvCache cache = model.make_cache(static_cast<std::int64_t>(ids.size()));
  const std::size_t piece = one_by_one ? 1 : ids.size();
  for (std::size_t at = 0; at < ids.size(); at += piece) {
    const SequenceStep step{&cache, ids.subspan(at, piece)};
    REQUIRE(model.forward(context, {&step, 1}, LogitsWanted::all, std::span(logits).subspan(at * vocab, piece * vocab))
                .ok());
  }
  return logits;
}

double largest_difference(std::span<const float> logits, std::size_t vocab, const Value& row) {
  double largest = 0;
  const Ids positions = ids_of(row, "positions");
  const ValueArray& expected = row.find("logits")->as_array();
  REQUIRE(expected.size() == positions.size());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const ValueArray& theirs = expected[i].as_array();
    REQUIRE(theirs.size() == vocab);
    for (std::size_t v = 0; v < vocab; ++v) {
      const double ours = static_cast<double>(logits[static_cast<std::size_t>(positions[i]) * vocab + v]);
      REQUIRE(std::isfinite(ours));
      largest = std::max(largest, std::abs(ours - theirs[v].as_number()));
    }
  }
  return largest;
}

// Mean over all tokens but the first of -log softmax(logits before it)[token].
double loss_of(std::span<const float> logits, std::size_t vocab, const Ids& ids) {
  double sum = 0;
  for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
    const std::span<const float> row = logits.subspan(t * vocab, vocab);
    const double top = static_cast<double>(*std::max_element(row.begin(), row.end()));
    double total = 0;
    for (const float x : row) total += std::exp(static_cast<double>(x) - top);
    sum += top + std::log(total) - static_cast<double>(row[static_cast<std::size_t>(ids[t + 1])]);
  }
  return sum / static_cast<double>(ids.size() - 1);
}

}  // namespace

TEST_CASE("logits and losses are theirs, in one piece and token by token") {
  for (const std::string name : kModels) {
    CAPTURE(name);
    InferenceModel model = load_golden(name);
    const auto vocab = static_cast<std::size_t>(model.shape().vocab_size);
    double largest = 0, largest_decode = 0, largest_loss = 0;
    const Value golden = golden_of(name);
    REQUIRE(golden.find("sequences")->as_array().size() == 3);
    for (const Value& row : golden.find("sequences")->as_array()) {
      const Ids ids = ids_of(row, "ids");
      const std::vector<float> logits = logits_of(model, ids, false);
      largest = std::max(largest, largest_difference(logits, vocab, row));
      largest_decode = std::max(largest_decode, largest_difference(logits_of(model, ids, true), vocab, row));
      if (const Value* loss = row.find("loss"))
        largest_loss = std::max(largest_loss, std::abs(loss_of(logits, vocab, ids) - loss->as_number()));
    }
    MESSAGE(
        format("{}: largest difference of logits {:.1e} (prefill), {:.1e} (decode), bar {:.0e}; of losses {:.1e}, "
               "bar {:.0e}",
               name, largest, largest_decode, kLogitsBar, largest_loss, kLossBar));
    CHECK(largest <= kLogitsBar);
    CHECK(largest_decode <= kLogitsBar);
    CHECK(largest_loss <= kLossBar);
    CHECK(largest > 0);  // the golden file is rounded: none at all would mean that nothing was compared
  }
}

TEST_CASE("greedy answers to 20 prompts are theirs, with the cache and without") {
  for (const std::string name : kModels) {
    InferenceModel model = load_golden(name);
    const HfConfig config = load_model_config(golden_folder(name)).value();
    const Tokenizer tokenizer = Tokenizer::load(golden_folder(name) + "/tokenizer.json").value();
    const ComputeContext context(1);
    const auto vocab = static_cast<std::size_t>(model.shape().vocab_size);
    const Value golden = golden_of(name);
    const ValueArray& answers = golden.find("answers")->as_array();
    REQUIRE(answers.size() == 20);
    for (const Value& answer : answers) {
      CAPTURE(name);
      CAPTURE(answer.get_string("prompt"));
      const Ids prompt = tokenizer.encode(answer.get_string("prompt"), true).value(), expected = ids_of(answer, "ids");
      CHECK(prompt == ids_of(answer, "prompt_ids"));
      const auto ids = generate_greedy(context, model, prompt, kAnswerTokens, config.eos_token_ids);
      REQUIRE(ids.ok());
      CHECK(*ids == expected);
      CHECK(repair_utf8(tokenizer.decode(*ids, true)) == answer.get_string("text"));

      // Every token chosen anew from the whole text, as if there were no cache.
      Ids text = prompt;
      text.insert(text.end(), expected.begin(), expected.end());
      const std::vector<float> logits = logits_of(model, text, false);
      for (std::size_t t = prompt.size(); t < text.size(); ++t) {
        const auto row = logits.begin() + static_cast<std::ptrdiff_t>((t - 1) * vocab);
        CHECK(std::max_element(row, row + static_cast<std::ptrdiff_t>(vocab)) - row == text[t]);
      }
    }
  }
}

TEST_CASE("what is written of their model is their model: the same configuration, names, shapes and bits") {
  for (const std::string name : kModels) {
    CAPTURE(name);
    const HfConfig config = load_model_config(golden_folder(name)).value();
    const ComputeContext context(1);
    ParameterStore store(config.shape, DType::f32);
    REQUIRE(load_model_weights(context, golden_folder(name), store).ok());
    const testing::Scratch scratch;
    ModelFolderOptions options;
    options.config = config;
    REQUIRE(testing::write_model_folder(scratch.path(), store, options).ok());

    const HfConfig again = load_model_config(scratch.path()).value();
    CHECK(again.shape == config.shape);
    CHECK(again.eos_token_ids == config.eos_token_ids);
    CHECK(again.bos_token_id == config.bos_token_id);
    const SafetensorsFile theirs = SafetensorsFile::open(golden_folder(name) + "/model.safetensors").value();
    const SafetensorsFile ours = SafetensorsFile::open(scratch.file("model.safetensors")).value();
    CHECK(ours.metadata().at("format") == "pt");  // transformers reads no file without it
    REQUIRE(ours.tensors().size() == theirs.tensors().size());
    for (const auto& [tensor, view] : theirs.tensors()) {
      CAPTURE(tensor);
      const SafetensorView mine = ours.find(tensor).value();
      CHECK(mine.type == view.type);
      CHECK(mine.shape == view.shape);
      CHECK(mine.bytes == view.bytes);
    }
  }
}
