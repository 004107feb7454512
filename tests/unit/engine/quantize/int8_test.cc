// int8 weights: error bounds, edge rows, and a whole folder written and read back.
#include "engine/quantize/int8.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/files.h"
#include "base/json.h"
#include "base/philox.h"
#include "contracts/parameter_list.h"
#include "engine/interop/hf_config.h"
#include "engine/interop/safetensors.h"
#include "engine/model/inference_model.h"
#include "engine/quantize/quantize.h"

namespace longhaul {
namespace {

ModelShape int8_shape(bool tied) {
  ModelShape shape;
  shape.vocab_size = 96;
  shape.hidden_size = 64;
  shape.num_hidden_layers = 2;
  shape.num_attention_heads = 4;
  shape.num_key_value_heads = 2;
  shape.max_position_embeddings = 64;
  shape.tie_word_embeddings = tied;
  return resolve_shape(shape).value();
}

// A random model of the shape in `folder`.
void write_int8_model(const std::string& folder, const ModelShape& shape) {
  REQUIRE(make_directories(folder).ok());
  HfConfig config;
  config.shape = shape;
  REQUIRE(write_file_atomic(folder + "/config.json", to_json_pretty(write_hf_config(config))).ok());
  std::vector<SafetensorInfo> infos;
  for (const ParameterSpec& p : parameter_list(shape)) infos.push_back({p.name, SafetensorType::f32, p.shape});
  auto writer = SafetensorsWriter::create(folder + "/model.safetensors", infos);
  REQUIRE(writer.ok());
  for (const ParameterSpec& p : parameter_list(shape)) {
    std::vector<float> values(static_cast<std::size_t>(p.elements()));
    const Philox philox{1, parameter_stream(p.name)};
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = p.init == ParameterSpec::Init::ones ? 1.0F : static_cast<float>(0.1 * philox.normal(i));
    }
    REQUIRE(writer->write(p.name, {reinterpret_cast<const char*>(values.data()), values.size() * 4}).ok());
  }
  REQUIRE(writer->finish().ok());
}

struct Int8Folder {
  Int8Folder() {
    char name[] = "/tmp/longhaul-int8-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Int8Folder() { (void)remove_tree(path); }
  std::string path;
};

}  // namespace

TEST_CASE("no weight is off by more than half a step, and the largest of a row is exact") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const Philox philox{seed, 0};
    const std::int64_t rows = 1 + static_cast<std::int64_t>(seed), columns = 33;
    std::vector<float> weight(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < weight.size(); ++i)
      weight[i] = static_cast<float>(std::pow(10, philox.normal(i)) * philox.normal(i + 9999));
    const Int8Matrix matrix = quantize_int8(weight, rows, columns).value();
    std::vector<float> back(weight.size());
    dequantize_int8(matrix, back);
    for (std::int64_t row = 0; row < rows; ++row) {
      float largest = 0;
      for (std::int64_t i = row * columns; i < (row + 1) * columns; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const float scale = matrix.scales[static_cast<std::size_t>(row)];
        CHECK(std::fabs(back[at] - weight[at]) <= 0.5001F * scale);
        CHECK(matrix.q[at] >= -127);
        largest = std::max(largest, std::fabs(weight[at]));
      }
      CHECK(matrix.scales[static_cast<std::size_t>(row)] == doctest::Approx(largest / 127));
    }
  }
}

TEST_CASE("rows of zeros, tiny rows and weights that are no numbers") {
  const Int8Matrix zeros = quantize_int8(std::vector<float>(8, 0.0F), 2, 4).value();
  CHECK(zeros.scales == std::vector<float>{1, 1});
  const Int8Matrix tiny = quantize_int8(std::vector<float>(4, 1e-42F), 1, 4).value();
  CHECK(tiny.q == std::vector<std::int8_t>(4, 0));
  CHECK_FALSE(quantize_int8(std::vector<float>{1, std::nanf("")}, 1, 2).ok());
  CHECK_FALSE(quantize_int8(std::vector<float>{1, std::numeric_limits<float>::infinity()}, 1, 2).ok());
}

TEST_CASE("a quantized folder loads, is smaller, and computes with the dequantized weights") {
  for (const bool tied : {true, false}) {
    for (const bool embedding : {false, true}) {
      CAPTURE(tied);
      CAPTURE(embedding);
      const Int8Folder folder;
      const std::string from = folder.path + "/f32", to = folder.path + "/int8", same = folder.path + "/same";
      const ModelShape shape = int8_shape(tied);
      write_int8_model(from, shape);
      const auto bytes = quantize_folder_int8(from, to, embedding);
      REQUIRE_MESSAGE(bytes.ok(), (bytes.ok() ? "" : bytes.error().message()));
      CHECK(bytes->after < bytes->before / 2);
      CHECK_FALSE(quantize_folder_int8(to, folder.path + "/again", embedding).ok());

      // The same values in f32: both must give the same logits.
      write_int8_model(same, shape);
      const auto source = SafetensorsModel::open(from).value();
      std::vector<SafetensorInfo> infos;
      for (const std::string& name : source.names())
        infos.push_back({name, SafetensorType::f32, source.find(name)->shape});
      auto writer = SafetensorsWriter::create(same + "/model.safetensors", infos);
      REQUIRE(writer.ok());
      for (const std::string& name : source.names()) {
        const SafetensorView view = source.find(name).value();
        std::vector<float> values(static_cast<std::size_t>(view.elements()));
        REQUIRE(convert_to_f32(view, values).ok());
        if (is_quantized_tensor(name, embedding))
          dequantize_int8(quantize_int8(values, view.shape[0], view.shape[1]).value(), values);
        REQUIRE(writer->write(name, {reinterpret_cast<const char*>(values.data()), values.size() * 4}).ok());
      }
      REQUIRE(writer->finish().ok());

      const ComputeContext context(1);
      const std::vector<std::int32_t> tokens = {1, 5, 9, 3, 90, 7, 33, 2, 64, 11, 12, 13};
      std::vector<std::vector<float>> logits;
      for (const std::string& path : {to, same}) {
        auto model = InferenceModel::load(path, DType::f32);
        REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().message()));
        KvCache cache = model->make_cache(32);
        logits.emplace_back(tokens.size() * static_cast<std::size_t>(shape.vocab_size));
        const SequenceStep step{&cache, tokens};
        REQUIRE(model->forward(context, {&step, 1}, LogitsWanted::all, logits.back()).ok());
      }
      for (std::size_t i = 0; i < logits[0].size(); ++i)
        REQUIRE(logits[0][i] == doctest::Approx(logits[1][i]).epsilon(1e-4));
    }
  }
}

TEST_CASE("perplexity: the same whatever the pieces, and the bar fails the stage") {
  const Int8Folder folder;
  write_int8_model(folder.path + "/m", int8_shape(true));
  QuantizeSettings settings;
  settings.perplexity_loss_max_pct = 1;
  const ComputeContext context(1);
  const auto go = [](double) { return Status(); };
  const auto refused = quantize_model({folder.path + "/m", "", folder.path + "/q"}, settings, context, go);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().what.find("held-out") != std::string::npos);
  settings.perplexity_loss_max_pct = 0;
  const auto figures = quantize_model({folder.path + "/m", "", folder.path + "/q"}, settings, context, go);
  REQUIRE(figures.ok());
  CHECK(figures->get_integer("bytes_after") < figures->get_integer("bytes_before"));

  InferenceModel model = InferenceModel::load(folder.path + "/m", DType::f32).value();
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 150; ++i) tokens.push_back(i * 7 % 96);
  const auto result = measure_perplexity(context, model, tokens, 64, go);
  REQUIRE(result.ok());
  CHECK(result->tokens == 63 + 63 + 21);  // a window's first token is not counted
  CHECK(result->perplexity() > 20);
  CHECK(result->perplexity() < 500);
  CHECK_FALSE(measure_perplexity(context, model, std::vector<std::int32_t>{1}, 64, go).ok());
}

}  // namespace longhaul
