#include "engine/model/inference/stored_weights.h"

#include "engine/core/device/device.h"
#include "engine/core/tensor/transfer.h"
#include "engine/model/inference/ranks/inference_ranks.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {

namespace {

class StoreReader {
 public:
  StoreReader(const ComputeContext& context, const ParameterStore& store, DType dtype, MemoryAccount* memory)
      : context_(context),
        store_(store),
        place_(store.layout().place()),
        shape_(part_of_model(store.shape(), place_.dims.tp, place_.at.tp,
                             static_cast<int>(store.shape().num_hidden_layers))),
        dtype_(dtype),
        memory_(memory),
        device_(memory ? memory->device : nullptr) {}

  // GPT-2's attention has biases, and so have its norms. Of a bias that is added to a sum over ranks the first has it.
  InferenceWeights gpt2(InferenceWeights weights) const {
    const std::int64_t h = shape_.hidden_size, f = shape_.intermediate_size, q = shape_.q_size();
    take_embedding("transformer.wte", weights);
    if (holds("transformer.wpe.weight"))
      weights.positions = linear("transformer.wpe", shape_.max_position_embeddings, h, Bias::none);
    for (int layer = 0; layer < static_cast<int>(shape_.num_hidden_layers); ++layer) {
      const std::string p = layer_prefix(shape_, layer);
      if (!holds(p + "ln_1.weight")) continue;
      InferenceWeights::Block block;
      block.input_norm = norm(p + "ln_1", true), block.post_attention_norm = norm(p + "ln_2", true);
      block.qkv = linear(p + "attn.q_proj", 3 * q, h, Bias::own);  // k and v follow q
      block.o = linear(p + "attn.c_proj", h, q, Bias::of_sum);
      take_prefix(layer, block);
      block.attention_bottleneck = bottleneck(layer, LayerHalf::attention, shape_.bottleneck.after_attention);
      block.feed_forward_bottleneck = bottleneck(layer, LayerHalf::feed_forward, shape_.bottleneck.after_feed_forward);
      block.gate_up = linear(p + "mlp.c_fc", f, h, Bias::own);
      block.down = linear(p + "mlp.c_proj", h, f, Bias::of_sum);
      weights.blocks.push_back(std::move(block));
    }
    if (holds("transformer.ln_f.weight")) weights.final_norm = norm("transformer.ln_f", true);
    take_output(weights);
    return weights;
  }

  // k and v follow q, and up follows gate (parameter_store.h); all experts' gates and ups stand before their downs.
  InferenceWeights llama(InferenceWeights weights) const {
    const std::int64_t h = shape_.hidden_size, f = shape_.intermediate_size;
    take_embedding("model.embed_tokens", weights);
    for (int layer = 0; layer < static_cast<int>(shape_.num_hidden_layers); ++layer) {
      const std::string p = layer_prefix(shape_, layer);
      if (!holds(p + "input_layernorm.weight")) continue;
      InferenceWeights::Block block;
      block.input_norm = norm(p + "input_layernorm", false);
      block.post_attention_norm = norm(p + "post_attention_layernorm", false);
      block.qkv = linear(p + "self_attn.q_proj", shape_.q_size() + 2 * shape_.kv_size(), h, Bias::none);
      block.o = linear(p + "self_attn.o_proj", h, shape_.q_size(), Bias::none);
      take_prefix(layer, block);
      block.attention_bottleneck = bottleneck(layer, LayerHalf::attention, shape_.bottleneck.after_attention);
      block.feed_forward_bottleneck = bottleneck(layer, LayerHalf::feed_forward, shape_.bottleneck.after_feed_forward);
      if (shape_.is_moe()) {
        block.experts = experts(p + "block_sparse_moe.");
      } else {
        block.gate_up = linear(p + "mlp.gate_proj", 2 * f, h, Bias::none);
        block.down = linear(p + "mlp.down_proj", h, f, Bias::none);
      }
      weights.blocks.push_back(std::move(block));
    }
    if (holds("model.norm.weight")) weights.final_norm = norm("model.norm", false);
    take_output(weights);
    return weights;
  }

 private:
  ExpertWeights experts(const std::string& p) const {
    const std::int64_t h = shape_.hidden_size, f = shape_.moe_intermediate_size, count = shape_.num_local_experts,
                       shared = shape_.shared_size();
    ExpertWeights made;
    made.router = copy_of(p + "gate.weight", {count, h}, DType::f32);
    if (shape_.router_bias) made.bias = copy_of(p + "gate.e_score_correction_bias", {count}, DType::f32);
    made.gate_up = linear(p + "experts.0.w1", count * 2 * f, h, Bias::none);
    made.down = linear(p + "experts.0.w2", count * h, f, Bias::none);
    if (shared == 0) return made;
    made.shared_gate_up = linear(p + "shared_experts.gate_proj", 2 * shared, h, Bias::none);
    made.shared_down = linear(p + "shared_experts.down_proj", h, shared, Bias::none);
    return made;
  }
  bool holds(const std::string& name) const { return names_.find_if_held(name) != nullptr; }
  // Where this rank's stage begins, or a tied output is: with what stands before a text.
  void take_embedding(const std::string& name, InferenceWeights& weights) const {
    const FlatParameter* const table = names_.find_if_held(name + ".weight");
    if (table != nullptr) {
      weights.first_id = table->box.offset[0];
      weights.embedding = linear(name, table->box.extent[0], shape_.hidden_size, Bias::none);
    }
    const Shape shape{shape_.virtual_tokens, shape_.hidden_size};
    if (shape_.virtual_tokens > 0 && !shape_.virtual_keys && holds(prompt_name))
      weights.prompt = LinearWeights(DenseWeights{copy_of(prompt_name, shape, dtype_), {}});
  }
  void take_output(InferenceWeights& weights) const {
    if (shape_.tie_word_embeddings) return;
    if (const FlatParameter* const table = names_.find_if_held("lm_head.weight"))
      weights.output = linear("lm_head", table->box.extent[0], shape_.hidden_size, Bias::none);
  }
  void take_prefix(int layer, InferenceWeights::Block& block) const {
    if (!shape_.virtual_keys) return;
    const Shape shape{shape_.virtual_tokens, shape_.kv_size()};
    block.prefix = prefix_rows(shape_, host_copy_of(prefix_keys_name(shape_, layer), shape),
                               host_copy_of(prefix_values_name(shape_, layer), shape), memory_);
  }
  BottleneckWeights bottleneck(int layer, LayerHalf half, bool is_there) const {
    BottleneckWeights made;
    if (!is_there) return made;
    const std::string prefix = bottleneck_prefix(shape_, layer, half);
    made.down = linear(prefix + "down", shape_.bottleneck.size, shape_.hidden_size, Bias::own);
    made.up = linear(prefix + "up", shape_.hidden_size, shape_.bottleneck.size, Bias::own);
    return made;
  }
  ConstView stored(const std::string& name, const Shape& shape) const {
    const FlatParameter* const found = names_.find_if_held(name);
    LH_ASSERT(found != nullptr, name);
    return store_.vector(found->begin, shape.size()).reshaped(shape);
  }
  Tensor host_copy_of(const std::string& name, const Shape& shape) const {
    Device* const from = store_.device();
    Tensor out(dtype_, shape, from ? memory_ : nullptr);
    cast(context_, stored(name, shape), out);
    if (from == nullptr) return out;
    Tensor here(dtype_, shape);
    from->copy_out(out.view().data(), here.view().data(), out.bytes());
    return here;
  }
  Tensor copy_of(const std::string& name, const Shape& shape, DType type) const {
    const bool there = device_ != nullptr && store_.device() == device_;
    Tensor out(type, shape, there ? memory_ : nullptr);
    cast(context_, stored(name, shape), out);
    if (device_ == nullptr || there) return out;
    return placed_copy(out, memory_);
  }
  // What an adapter makes lies in memory that the next block's weights take.
  bool in_place() const {
    return device_ != nullptr && store_.device() == device_ && store_.compute_dtype() == dtype_ && !store_.is_adapted();
  }
  WeightTensor weights_of(const std::string& name, const Shape& shape) const {
    if (in_place()) return WeightTensor::borrowed(stored(name, shape));
    return copy_of(name, shape, dtype_);
  }
  NormWeights norm(const std::string& name, bool biased) const {
    NormWeights made{weights_of(name + ".weight", {shape_.hidden_size}), {}};
    if (biased) made.bias = weights_of(name + ".bias", {shape_.hidden_size});
    return made;
  }
  enum class Bias { none, own, of_sum };
  LinearWeights linear(const std::string& name, std::int64_t out, std::int64_t in, Bias bias) const {
    DenseWeights dense{weights_of(name + ".weight", {out, in}), {}};
    const bool splits = bias == Bias::of_sum && place_.dims.tp > 1;
    if (bias != Bias::none && !splits) dense.bias = weights_of(name + ".bias", {out});
    if (splits && place_.at.tp == 0) dense.bias = copy_of(name + ".bias", {out}, DType::f32);  // as addends are
    return LinearWeights(std::move(dense));
  }

  const ComputeContext& context_;
  const ParameterStore& store_;
  const MeshPlace& place_;
  const ModelShape shape_;  // of what this rank has of each layer
  const ParameterNames names_{store_.layout()};
  DType dtype_;
  MemoryAccount* memory_;
  Device* device_;
};

}  // namespace

InferenceWeights weights_to_fill(DType dtype, Device* device, MemoryAccount* whole) {
  InferenceWeights empty;
  empty.dtype = dtype;
  if (device == nullptr) return empty;
  empty.memory = std::make_unique<MemoryAccount>();
  empty.memory->device = device, empty.memory->whole = whole;
  return empty;
}

Result<InferenceWeights> inference_weights_of(const ComputeContext& context, const ParameterStore& store,
                                              InferenceWeights weights) {
  const StoreReader reader(context, store, weights.dtype, weights.memory.get());
  return store.shape().is_gpt2() ? reader.gpt2(std::move(weights)) : reader.llama(std::move(weights));
}

}  // namespace longhaul
