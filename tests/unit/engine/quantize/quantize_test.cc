// Weights of few bits: error bounds, edge rows, and whole folders written and read back.
#include "engine/quantize/quantize.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/digest/philox.h"
#include "base/files/files.h"
#include "base/value/json.h"
#include "contracts/model/hf_config.h"
#include "contracts/model/parameter_list.h"
#include "engine/interop/safetensors.h"
#include "engine/model/inference/inference_model.h"
#include "engine/ops/linear/weight_only.h"
#include "engine/quantize/int8.h"
#include "engine/quantize/weight_format.h"

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

void dequantize_int8(const Int8Matrix& matrix, std::span<float> out) {
  for (std::int64_t i = 0; i < matrix.rows * matrix.columns; ++i) {
    const auto at = static_cast<std::size_t>(i);
    out[at] = matrix.scales[static_cast<std::size_t>(i / matrix.columns)] * static_cast<float>(matrix.q[at]);
  }
}

// What the weights of a matrix become and mean.
std::vector<float> quantized_and_back(WeightCodes codes, std::span<const float> weight, std::int64_t rows,
                                      std::int64_t columns) {
  const ComputeContext context(1);
  std::vector<float> back(weight.size());
  const View out(back.data(), Shape{rows, columns});
  if (codes == WeightCodes::int8) {
    dequantize_int8(quantize_int8(weight, rows, columns).value(), back);
  } else if (codes == WeightCodes::fp8) {
    std::vector<std::uint8_t> bytes(weight.size());
    std::vector<float> scales(static_cast<std::size_t>(rows));
    REQUIRE(quantize_fp8(rows, columns, weight, bytes, scales));
    unpack_fp8(context, columns, ConstView(bytes), scales, 0, rows, out);
  } else {
    std::vector<std::uint8_t> packed(static_cast<std::size_t>(rows * int4_row_bytes(columns)));
    std::vector<bf16> scales(static_cast<std::size_t>(rows * int4_groups(columns, kInt4Group)));
    REQUIRE(quantize_int4(rows, columns, kInt4Group, weight, packed, scales));
    const ConstView of_scales(scales.data(), Shape{static_cast<std::int64_t>(scales.size())});
    unpack_int4(context, columns, {ConstView(packed), of_scales, {}, kInt4Group}, 0, rows, out);
  }
  return back;
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
  for (const WeightCodes codes : {WeightCodes::int8, WeightCodes::fp8, WeightCodes::int4}) {
    for (const bool tied : {true, false}) {
      const bool embedding = codes == WeightCodes::int8 && tied;  // the others leave it alone
      INFO("codes ", std::string(name_of(codes)));
      CAPTURE(tied);
      const Int8Folder folder;
      const std::string from = folder.path + "/f32", to = folder.path + "/few", same = folder.path + "/same";
      const ModelShape shape = int8_shape(tied);
      write_int8_model(from, shape);
      const auto bytes = quantize_folder(from, to, codes, embedding);
      REQUIRE_MESSAGE(bytes.ok(), (bytes.ok() ? "" : bytes.error().message()));
      CHECK(bytes->after < bytes->before / 2);
      CHECK_FALSE(quantize_folder(to, folder.path + "/again", codes, embedding).ok());

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
          values = quantized_and_back(codes, values, view.shape[0], view.shape[1]);
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

TEST_CASE("a folder whose codes and scales do not belong together is refused by name") {
  const Int8Folder folder;
  const std::string from = folder.path + "/f32";
  write_int8_model(from, int8_shape(true));
  const auto broken = [&](WeightCodes codes, const std::string& spoiled, const auto& spoil) {
    const std::string good = folder.path + "/good-" + std::string(name_of(codes)), bad = good + "-bad";
    REQUIRE(quantize_folder(from, good, codes, false).ok());
    REQUIRE(make_directories(bad).ok());
    REQUIRE(write_file_atomic(bad + "/config.json", read_file(good + "/config.json").value()).ok());
    const auto source = SafetensorsModel::open(good).value();
    std::vector<SafetensorInfo> infos;
    std::vector<std::string> bytes;
    for (const std::string& name : source.names()) {
      const SafetensorView view = source.find(name).value();
      infos.push_back({name, view.type, view.shape});
      bytes.emplace_back(view.bytes);
      if (name == spoiled) spoil(infos.back(), bytes.back());
    }
    auto writer = SafetensorsWriter::create(bad + "/model.safetensors", infos);
    REQUIRE(writer.ok());
    for (std::size_t i = 0; i < infos.size(); ++i) REQUIRE(writer->write(infos[i].name, bytes[i]).ok());
    REQUIRE(writer->finish().ok());
    const auto model = InferenceModel::load(bad, DType::f32);
    REQUIRE_FALSE(model.ok());
    CHECK_MESSAGE(model.error().message().find(spoiled) != std::string::npos, model.error().message());
  };
  const std::string o = "model.layers.1.self_attn.o_proj.weight";
  broken(WeightCodes::fp8, o, [](SafetensorInfo&, std::string& bytes) { bytes[5] = '\x7F'; });  // NaN
  broken(WeightCodes::fp8, o + "_scale",
         [](SafetensorInfo& info, std::string& bytes) { info.shape[0] /= 2, bytes.resize(bytes.size() / 2); });
  broken(WeightCodes::int4, o + "_scale", [](SafetensorInfo& info, std::string& bytes) {  // of five groups
    info.shape[1] = 5, bytes = bytes + bytes + bytes + bytes + bytes;
  });
  broken(WeightCodes::int4, o + "_packed",
         [](SafetensorInfo& info, std::string& bytes) { info.shape[1] /= 2, bytes.resize(bytes.size() / 2); });
}

TEST_CASE("the stage writes fp8 and int4; their embedding is refused") {
  const Int8Folder folder;
  write_int8_model(folder.path + "/m", int8_shape(true));
  const ComputeContext context(1);
  const auto go = [](double) { return Status(); };
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  for (const char* method : {"int8", "int4"}) {
    QuantizeSettings settings;
    settings.method = method;
    const auto figures = quantize_model({folder.path + "/m", "", folder.path + "/" + method}, settings, context, go);
    REQUIRE(figures.ok());
    CHECK(figures->get_integer("bytes_after") < before);
    before = figures->get_integer("bytes_after");
  }
  QuantizeSettings settings;
  settings.method = "fp8", settings.embedding = true;
  const auto refused = quantize_model({folder.path + "/m", "", folder.path + "/refused"}, settings, context, go);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message().find("embedding") != std::string::npos);
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
