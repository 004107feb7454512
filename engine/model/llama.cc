#include "engine/model/llama.h"

#include "base/text.h"
#include "engine/model/rope_of.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/embedding.h"
#include "engine/ops/gemm.h"
#include "engine/ops/rmsnorm.h"

namespace longhaul {

namespace {
std::int64_t length_max_of(const ModelShape& shape, const LlamaOptions& options) {
  return options.length_max > 0 ? options.length_max : shape.max_position_embeddings;
}
float eps_of(const ModelShape& shape) {
  return static_cast<float>(shape.rms_norm_eps);
}
}  // namespace

Llama::Llama(const ParameterStore& parameters, const LlamaOptions& options)
    : parameters_(parameters),
      rope_(rope_table_of(parameters.shape(), length_max_of(parameters.shape(), options))),
      activations_(parameters.shape(), parameters.compute_dtype(), options.slots, options.tokens_max,
                   options.split_backward, options.training, options.account) {
  const ParameterLayout& layout = parameters.layout();
  embedding_ = layout.find("model.embed_tokens.weight").begin;
  final_norm_ = layout.find("model.norm.weight").begin;
  output_ = shape().tie_word_embeddings ? embedding_ : layout.find("lm_head.weight").begin;
  for (int layer = 0; layer < static_cast<int>(shape().num_hidden_layers); ++layer)
    blocks_.emplace_back(parameters, rope_, activations_, layer);
}

Status Llama::check(const MicroBatch& batch) const {
  if (batch.tokens() > activations_.tokens_max() || batch.tokens() <= 0 || batch.length > rope_.positions)
    return make_error(
        ErrorCode::invalid_input,
        format("micro-batch of {} sequences of {} tokens; the model was made for {} tokens and sequences of {}",
               batch.sequences, batch.length, activations_.tokens_max(), rope_.positions));
  for (const std::int32_t id : batch.ids)
    if (id < 0 || id >= shape().vocab_size)
      return make_error(ErrorCode::invalid_input,
                        format("token {} is outside the model's vocabulary of {}", id, shape().vocab_size),
                        "data and model need the same tokenizer");
  return {};
}

ConstView Llama::output_weight() const {
  return parameters_.weight(output_, shape().vocab_size, shape().hidden_size);
}

void Llama::forward(const ComputeContext& context, int slot_index, const MicroBatch& batch) {
  ActivationSlot& slot = activations_.slot(slot_index);
  slot.batch = batch;
  const std::int64_t t = batch.tokens(), h = shape().hidden_size;
  BlockActivations& first = slot.blocks.front();
  embedding_forward(context, {t, shape().vocab_size, h}, batch.ids,
                    parameters_.weight(embedding_, shape().vocab_size, h), first_rows(first.x, t));
  rmsnorm_forward(context, {t, h, eps_of(shape())}, first_rows(first.x, t),
                  parameters_.vector(blocks_.front().input_norm_begin(), h), first_rows(first.input_norm, t),
                  first_floats(first.input_inv_rms, t));
  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    BlockOutput output{slot.x, slot.final_norm, slot.final_inv_rms, final_norm_};
    if (l + 1 < blocks_.size()) {
      const BlockActivations& next = slot.blocks[l + 1];
      output = {next.x, next.input_norm, next.input_inv_rms, blocks_[l + 1].input_norm_begin()};
    }
    blocks_[l].forward(context, slot_index, output);
  }
}

void Llama::token_losses(const ComputeContext& context, int slot_index, std::span<float> loss) {
  const ActivationSlot& slot = activations_.slot(slot_index);
  const std::int64_t t = slot.batch.tokens();
  lm_head_loss(context, {t, shape().hidden_size, shape().vocab_size}, first_rows(slot.final_norm, t), output_weight(),
               slot.batch.targets, {}, loss, {}, {});
}

void Llama::logits(const ComputeContext& context, int slot_index, std::int64_t begin, std::int64_t end, View out) {
  const ActivationSlot& slot = activations_.slot(slot_index);
  linear_forward(context, {end - begin, shape().hidden_size, shape().vocab_size}, slot.final_norm.rows(begin, end),
                 output_weight(), out);
}

void Llama::output_backward(const ComputeContext& context, int slot_index, std::span<const float> weights,
                            std::span<float> loss, const GradientTarget& target) {
  LH_ASSERT(activations_.training(), "a model made without training memory has no backward");
  const ActivationSlot& slot = activations_.slot(slot_index);
  const std::int64_t t = slot.batch.tokens(), h = shape().hidden_size, v = shape().vocab_size;
  const View branch = first_rows(activations_.workspace().branch, t);
  if (target.overwrite) {
    target.clear(final_norm_, final_norm_ + h);
    target.clear(output_, output_ + v * h);
    if (output_ != embedding_) target.clear(embedding_, embedding_ + v * h);
  }
  lm_head_loss(context, {t, h, v}, first_rows(slot.final_norm, t), output_weight(), slot.batch.targets, weights, loss,
               branch, target.matrix(output_, v, h));
  rmsnorm_backward(context, {t, h, eps_of(shape())}, branch, first_rows(slot.x, t), parameters_.vector(final_norm_, h),
                   first_floats(slot.final_inv_rms, t), first_rows(activations_.workspace().dx, t),
                   target.vector(final_norm_, h));
  target.say_ready(final_norm_, final_norm_ + h);
  if (output_ != embedding_) target.say_ready(output_, output_ + v * h);
}

void Llama::embedding_weight_backward(const ComputeContext& context, int slot_index, View dx,
                                      const GradientTarget& target) {
  const MicroBatch& batch = activations_.slot(slot_index).batch;
  const std::int64_t h = shape().hidden_size, v = shape().vocab_size;
  embedding_backward(context, {batch.tokens(), v, h}, batch.ids, first_rows(dx, batch.tokens()),
                     target.vector(embedding_, v * h));
  target.say_ready(embedding_, embedding_ + v * h);
}

void Llama::backward_input(const ComputeContext& context, int slot_index, std::span<const float> weights,
                           std::span<float> loss, const GradientTarget& target) {
  LH_ASSERT(activations_.split_backward(), "made for joint backward");
  output_backward(context, slot_index, weights, loss, target);
  for (std::size_t l = blocks_.size(); l-- > 0;) blocks_[l].backward_input(context, slot_index, target);
  const std::int64_t t = activations_.slot(slot_index).batch.tokens();
  cast(context, first_rows(activations_.workspace().dx, t),
       first_rows(activations_.slot(slot_index).embedding_gradient, t));
}

void Llama::backward_weight(const ComputeContext& context, int slot_index, const GradientTarget& target) {
  for (std::size_t l = blocks_.size(); l-- > 0;) blocks_[l].backward_weight(context, slot_index, target);
  embedding_weight_backward(context, slot_index, activations_.slot(slot_index).embedding_gradient, target);
}

void Llama::backward(const ComputeContext& context, int slot_index, std::span<const float> weights,
                     std::span<float> loss, const GradientTarget& target) {
  if (activations_.split_backward()) {
    backward_input(context, slot_index, weights, loss, target);
    backward_weight(context, slot_index, target);
    return;
  }
  output_backward(context, slot_index, weights, loss, target);
  for (std::size_t l = blocks_.size(); l-- > 0;) {
    blocks_[l].backward_input(context, slot_index, target);
    blocks_[l].backward_weight(context, slot_index, target);
  }
  embedding_weight_backward(context, slot_index, activations_.workspace().dx, target);
}

}  // namespace longhaul
