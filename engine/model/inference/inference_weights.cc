#include "engine/model/inference/inference_weights.h"

#include <algorithm>
#include <cstring>

#include "base/text/text.h"
#include "contracts/settings/training/feature_table.h"
#include "engine/core/device/device.h"
#include "engine/core/tensor/transfer.h"
#include "engine/interop/safetensors.h"
#include "engine/model/inference/stored_weights.h"
#include "engine/model/layers/parallel_linear.h"
#include "engine/model/store/model_folder.h"
#include "engine/ops/linear/weight_only.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/row_blocks.h"

namespace longhaul {

namespace {

Error wrong_shape(const std::string& name, const SafetensorView& tensor, const std::string& expected) {
  std::vector<std::string> dims;
  for (const std::int64_t dim : tensor.shape) dims.push_back(std::to_string(dim));
  return make_error(ErrorCode::invalid_input,
                    format("{} has shape [{}], config.json asks for {}", name, join(dims, ", "), expected),
                    "config.json and model.safetensors belong to different models");
}

class WeightReader {
 public:
  WeightReader(const SafetensorsModel& file, DType dtype, MemoryAccount* memory)
      : file_(file), dtype_(dtype), memory_(memory), device_(memory ? memory->device : nullptr) {}

  // Of the same file, into the host's memory, which nobody counts.
  WeightReader reader_on_host() const { return {file_, dtype_, nullptr}; }
  MemoryAccount* memory() const { return memory_; }

  Result<Tensor> vector(const std::string& name, std::int64_t elements) const {
    LH_TRY(const SafetensorView tensor, file_.find(name));
    if (tensor.shape != std::vector<std::int64_t>{elements}) return wrong_shape(name, tensor, format("[{}]", elements));
    Tensor out(dtype_, {elements}, memory_);
    LH_CHECK(convert(tensor, out.view()));
    return out;
  }

  Result<Tensor> prefix(const ModelShape& shape, int layer) const {
    const WeightReader on_host = reader_on_host();
    Tensor halves(dtype_, {2, shape.virtual_tokens, shape.kv_size()});
    std::int64_t half = 0;
    for (const std::string& name : {prefix_keys_name(shape, layer), prefix_values_name(shape, layer)}) {
      LH_TRY(const SafetensorView tensor, file_.find(name));
      if (tensor.shape != std::vector<std::int64_t>{shape.virtual_tokens, shape.kv_size()})
        return wrong_shape(name, tensor, format("[{}, {}]", shape.virtual_tokens, shape.kv_size()));
      LH_CHECK(on_host.convert(tensor, halves.view().rows(half, half + 1)));
      ++half;
    }
    return prefix_rows(shape, halves.view().rows(0, 1), halves.view().rows(1, 2), memory_);
  }

  // Of a half of a layer, where the model has one there.
  Result<BottleneckWeights> bottleneck(const ModelShape& shape, int layer, LayerHalf half) const {
    const BottleneckShape& b = shape.bottleneck;
    BottleneckWeights made;
    if (half == LayerHalf::attention ? !b.after_attention : !b.after_feed_forward) return made;
    const std::string prefix = bottleneck_prefix(shape, layer, half);
    LH_TRY(made.down, biased_matrix(prefix + "down", b.size, shape.hidden_size));
    LH_TRY(made.up, biased_matrix(prefix + "up", shape.hidden_size, b.size));
    return made;
  }

  // Several matrices of the same width, one below the other.
  Result<LinearWeights> matrix(const std::vector<std::pair<std::string, std::int64_t>>& parts,
                               std::int64_t columns) const {
    if (file_.find(parts.front().first + "_packed").ok()) return int4_matrix(parts, columns);
    std::vector<SafetensorView> tensors;
    std::int64_t rows = 0, int8_parts = 0, fp8_parts = 0;
    for (const auto& [name, part_rows] : parts) {
      LH_TRY(SafetensorView tensor, file_.find(name));
      if (tensor.shape != std::vector<std::int64_t>{part_rows, columns})
        return wrong_shape(name, tensor, format("[{}, {}]", part_rows, columns));
      int8_parts += tensor.type == SafetensorType::i8, fp8_parts += tensor.type == SafetensorType::f8_e4m3;
      rows += part_rows;
      tensors.push_back(std::move(tensor));
    }
    if (fp8_parts == static_cast<std::int64_t>(parts.size())) return fp8_matrix(parts, tensors, rows, columns);
    if (fp8_parts > 0)
      return make_error(ErrorCode::unsupported,
                        format("{}: fp8 beside other types in one fused matrix", parts.front().first));
    if (int8_parts == 0) {
      Tensor weight(dtype_, {rows, columns}, memory_);
      std::int64_t at = 0;
      for (const SafetensorView& tensor : tensors) {
        LH_CHECK(convert(tensor, weight.view().rows(at, at + tensor.shape[0])));
        at += tensor.shape[0];
      }
      return LinearWeights(DenseWeights{std::move(weight), {}});
    }
    if (int8_parts != static_cast<std::int64_t>(parts.size()))
      return make_error(ErrorCode::unsupported,
                        format("{}: int8 beside other types in one fused matrix", parts.front().first));
    Int8Weights int8{Tensor(DType::i8, {rows, columns}, memory_), Tensor(DType::f32, {rows}, memory_)};
    std::int64_t at = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::int64_t end = at + parts[i].second;
      put(tensors[i].bytes.data(), int8.q.view().rows(at, end));
      LH_CHECK(scales(parts[i].first, {parts[i].second}, int8.scales.view().rows(at, end)));
      at = end;
    }
    return LinearWeights(std::move(int8));
  }

 private:
  using Parts = std::vector<std::pair<std::string, std::int64_t>>;

  Result<LinearWeights> biased_matrix(const std::string& name, std::int64_t out, std::int64_t in) const {
    const std::string weight = name + ".weight";
    LH_TRY(const SafetensorView tensor, file_.find(weight));
    if (tensor.shape != std::vector<std::int64_t>{out, in})
      return wrong_shape(weight, tensor, format("[{}, {}]", out, in));
    Tensor matrix(dtype_, {out, in}, memory_);
    LH_CHECK(convert(tensor, matrix.view()));
    LH_TRY(Tensor bias, vector(name + ".bias", out));
    return LinearWeights(DenseWeights{std::move(matrix), std::move(bias)});
  }

  void put(const void* from, View to) const {
    if (device_ != nullptr)
      device_->copy_in(from, to.data(), to.bytes());
    else
      std::memcpy(to.data(), from, static_cast<std::size_t>(to.bytes()));
  }

  Result<LinearWeights> fp8_matrix(const Parts& parts, const std::vector<SafetensorView>& tensors, std::int64_t rows,
                                   std::int64_t columns) const {
    Fp8Weights fp8{Tensor(DType::u8, {rows, columns}, memory_), Tensor(DType::f32, {rows}, memory_)};
    std::int64_t at = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string_view codes = tensors[i].bytes;
      if (std::any_of(codes.begin(), codes.end(), [](char code) { return (code & 0x7F) == 0x7F; }))
        return make_error(ErrorCode::corrupt, parts[i].first + " has a weight that is not a number",
                          "quantize the model again");
      put(codes.data(), fp8.codes.view().rows(at, at + parts[i].second));
      LH_CHECK(scales(parts[i].first, {parts[i].second}, fp8.scales.view().rows(at, at + parts[i].second)));
      at += parts[i].second;
    }
    return LinearWeights(std::move(fp8));
  }

  // compressed-tensors, "pack-quantized": the words of a row hold its codes as weight_only.h has them.
  Result<LinearWeights> int4_matrix(const Parts& parts, std::int64_t columns) const {
    const std::int64_t words = int4_row_bytes(columns) / 4;
    LH_TRY(const SafetensorView first, file_.find(parts.front().first + "_scale"));
    const std::int64_t groups = first.shape.size() == 2 ? first.shape[1] : 0;
    // The largest groups first: a row shorter than a group has one as well.
    std::int64_t group = 0, rows = 0;
    for (const std::int64_t size : {128, 64, 32})
      if (group == 0 && int4_groups(columns, size) == groups) group = size;
    if (group == 0)
      return make_error(ErrorCode::unsupported,
                        format("{}_scale: {} scales for {} inputs", parts.front().first, groups, columns),
                        "groups of 128, 64 and 32 are read");
    for (const auto& part : parts) rows += part.second;
    Int4Weights int4{Tensor(DType::u8, {rows, words * 4}, memory_), Tensor(DType::f32, {rows, groups}, memory_),
                     columns, group};
    std::int64_t at = 0;
    for (const auto& [name, part_rows] : parts) {
      LH_TRY(const SafetensorView packed, file_.find(name + "_packed"));
      if (packed.type != SafetensorType::i32 || packed.shape != std::vector<std::int64_t>{part_rows, words})
        return wrong_shape(name + "_packed", packed, format("I32 [{}, {}]", part_rows, words));
      put(packed.bytes.data(), int4.packed.view().rows(at, at + part_rows));
      LH_CHECK(scales(name, {part_rows, groups}, int4.scales.view().rows(at, at + part_rows)));
      at += part_rows;
    }
    return LinearWeights(std::move(int4));
  }

  // "<name>_scale" into `out`, f32. A scale per row may stand in a column.
  Status scales(const std::string& name, const std::vector<std::int64_t>& shape, View out) const {
    const std::string scale_name = name + "_scale";
    LH_TRY(const SafetensorView scale, file_.find(scale_name));
    if (scale.elements() != out.size() || (shape.size() == 2 && scale.shape != shape))
      return wrong_shape(scale_name, scale, format("{} scales", out.size()));
    std::vector<float> values(static_cast<std::size_t>(out.size()));
    LH_CHECK(convert_to_f32(scale, values));
    put(values.data(), out);
    return {};
  }

  // A few megabytes at a time: that much is held twice.
  Status convert(const SafetensorView& tensor, View out) const {
    const std::int64_t count = tensor.elements(), piece = std::int64_t{1} << 20;
    const auto element = element_bytes(tensor.type);
    const View flat = out.reshaped({count});
    std::vector<float> wide(static_cast<std::size_t>(std::min(count, piece)));
    std::vector<bf16> narrow(dtype_ == DType::bf16 ? wide.size() : 0);
    for (std::int64_t at = 0; at < count; at += piece) {
      const std::int64_t n = std::min(piece, count - at);
      const auto size = static_cast<std::size_t>(n);
      const SafetensorView part{
          tensor.type, {n}, tensor.bytes.substr(static_cast<std::size_t>(at) * element, size * element)};
      LH_CHECK(convert_to_f32(part, std::span(wide).first(size)));
      if (dtype_ == DType::bf16)
        for (std::size_t i = 0; i < size; ++i) narrow[i] = bf16(wide[i]);
      put(dtype_ == DType::bf16 ? static_cast<const void*>(narrow.data()) : wide.data(), flat.rows(at, at + n));
    }
    return {};
  }

  const SafetensorsModel& file_;
  DType dtype_;
  MemoryAccount* memory_;
  Device* device_;
};

Result<ExpertWeights> read_experts(const WeightReader& reader, const ModelShape& s, const std::string& p) {
  const std::int64_t h = s.hidden_size, f = s.moe_intermediate_size, shared = s.shared_size();
  const WeightReader on_host = reader.reader_on_host();
  ExpertWeights made;
  // As exact as the other weights are, and then f32.
  LH_TRY(const LinearWeights router, on_host.matrix({{p + "gate.weight", s.num_local_experts}}, h));
  std::vector<std::pair<std::string, std::int64_t>> up, down;
  for (std::int64_t e = 0; e < s.num_local_experts; ++e) {
    const std::string expert = format("{}experts.{}.", p, e);
    up.emplace_back(expert + "w1.weight", f), up.emplace_back(expert + "w3.weight", f);
    down.emplace_back(expert + "w2.weight", h);
  }
  LH_TRY(made.gate_up, reader.matrix(up, h));
  LH_TRY(made.down, reader.matrix(down, f));
  if (router.is_quantized() || made.gate_up.is_quantized() || made.down.is_quantized())
    return make_error(ErrorCode::unsupported, p + "experts are quantized", "use the model that it was made from");
  const auto in_f32 = [&reader](ConstView from) {
    Tensor wide(DType::f32, from.shape());
    cast(ComputeContext(1), from, wide);
    return placed_copy(wide, reader.memory());
  };
  made.router = in_f32(router.dense()->weight);
  if (s.router_bias) {
    LH_TRY(const Tensor bias, on_host.vector(p + "gate.e_score_correction_bias", s.num_local_experts));
    made.bias = in_f32(bias);
  }
  if (shared == 0) return made;
  LH_TRY(made.shared_gate_up,
         reader.matrix({{p + "shared_experts.gate_proj.weight", shared}, {p + "shared_experts.up_proj.weight", shared}},
                       h));
  LH_TRY(made.shared_down, reader.matrix({{p + "shared_experts.down_proj.weight", h}}, shared));
  return made;
}

}  // namespace

Tensor prefix_rows(const ModelShape& shape, ConstView keys, ConstView values, MemoryAccount* memory) {
  const ComputeContext context(1);
  const std::int64_t n = shape.virtual_tokens, q = shape.q_size(), kv = shape.kv_size(), width = q + 2 * kv;
  Tensor rows(keys.dtype(), {n, width});
  fill(context, rows, 0.0F);
  copy_rows(context, {n, kv, kv, width}, keys, columns_of(rows, n, q, kv));
  copy_rows(context, {n, kv, kv, width}, values, columns_of(rows, n, q + kv, kv));
  return placed_copy(rows, memory);
}

std::int64_t InferenceWeights::bytes() const {
  std::int64_t sum = embedding.bytes() + final_norm.bytes() + (output.out() > 0 ? output.bytes() : 0) +
                     (positions.out() > 0 ? positions.bytes() : 0) + (prompt.out() > 0 ? prompt.bytes() : 0);
  for (const Block& b : blocks)
    sum += b.input_norm.bytes() + b.post_attention_norm.bytes() + b.qkv.bytes() + b.o.bytes() + b.gate_up.bytes() +
           b.down.bytes() + b.experts.bytes() + b.prefix.bytes() + b.attention_bottleneck.bytes() +
           b.feed_forward_bottleneck.bytes();
  return sum;
}

Result<InferenceWeights> load_inference_weights(const std::string& folder, const ModelShape& s, DType dtype,
                                                Device* device, MemoryAccount* whole) {
  InferenceWeights weights;
  weights.dtype = dtype;
  if (device != nullptr) {
    EngineCase asked;
    asked.kind = "deploy", asked.generates = true, asked.gpu = true, asked.shape = s;
    LH_CHECK(check_engine(asked));
    weights.memory = std::make_unique<MemoryAccount>();
    weights.memory->device = device, weights.memory->whole = whole;
  }
  if (s.is_gpt2()) {  // its file has tensors fused and transposed: read as training reads it, then cut
    const ComputeContext context(1);
    ParameterStore store(s, DType::f32);
    LH_CHECK(load_model_weights(context, folder, store));
    return inference_weights_of(context, store, std::move(weights));
  }
  LH_TRY(SafetensorsModel file, SafetensorsModel::open(folder));
  LH_CHECK(tie_embeddings(file, s).with_context(folder));
  const WeightReader reader(file, dtype, weights.memory.get());
  const std::int64_t h = s.hidden_size;
  LH_TRY(weights.embedding, reader.matrix({{"model.embed_tokens.weight", s.vocab_size}}, h));
  if (s.virtual_tokens > 0 && !s.virtual_keys) {
    LH_TRY(weights.prompt, reader.matrix({{prompt_name, s.virtual_tokens}}, h));
  }
  for (std::int64_t layer = 0; layer < s.num_hidden_layers; ++layer) {
    const std::string p = format("model.layers.{}.", layer);
    InferenceWeights::Block block;
    LH_TRY(block.input_norm.weight, reader.vector(p + "input_layernorm.weight", h));
    LH_TRY(block.post_attention_norm.weight, reader.vector(p + "post_attention_layernorm.weight", h));
    LH_TRY(block.qkv, reader.matrix({{p + "self_attn.q_proj.weight", s.q_size()},
                                     {p + "self_attn.k_proj.weight", s.kv_size()},
                                     {p + "self_attn.v_proj.weight", s.kv_size()}},
                                    h));
    LH_TRY(block.o, reader.matrix({{p + "self_attn.o_proj.weight", h}}, s.q_size()));
    if (s.virtual_keys) {
      LH_TRY(block.prefix, reader.prefix(s, static_cast<int>(layer)));
    }
    LH_TRY(block.attention_bottleneck, reader.bottleneck(s, static_cast<int>(layer), LayerHalf::attention));
    LH_TRY(block.feed_forward_bottleneck, reader.bottleneck(s, static_cast<int>(layer), LayerHalf::feed_forward));
    if (s.is_moe()) {
      LH_TRY(block.experts, read_experts(reader, s, p + "block_sparse_moe."));
      weights.blocks.push_back(std::move(block));
      continue;
    }
    LH_TRY(block.gate_up, reader.matrix({{p + "mlp.gate_proj.weight", s.intermediate_size},
                                         {p + "mlp.up_proj.weight", s.intermediate_size}},
                                        h));
    LH_TRY(block.down, reader.matrix({{p + "mlp.down_proj.weight", h}}, s.intermediate_size));
    weights.blocks.push_back(std::move(block));
  }
  LH_TRY(weights.final_norm.weight, reader.vector("model.norm.weight", h));
  if (!s.tie_word_embeddings) {
    LH_TRY(weights.output, reader.matrix({{"lm_head.weight", s.vocab_size}}, h));
  }
  return weights;
}

}  // namespace longhaul
