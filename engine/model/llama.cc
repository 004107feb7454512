#include "engine/model/llama.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/model/experts/moe_layer.h"
#include "engine/model/layers/rope_of.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/loss/cross_entropy.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/embedding.h"

namespace longhaul {

namespace {
// Learned positions end where their table does, and nothing is rotated.
RopeTable positions_for(const ModelShape& shape, const LlamaOptions& options) {
  const std::int64_t longest = options.length_max > 0 ? options.length_max : shape.max_position_embeddings;
  if (!shape.is_gpt2()) return rope_table_of(shape, longest);
  RopeTable none;
  none.positions = std::min(longest, shape.max_position_embeddings);
  return none;
}
}  // namespace

namespace {

LayerRange layers_here(const ParameterStore& parameters, int chunk) {
  const MeshPlace& place = parameters.layout().place();
  return layers_of_chunk(place.stages, place.at.pp, chunk);
}

// The model as far as one rank of a replica computes it.
Activations::Sizes sizes_of(const ParameterStore& parameters, const LlamaOptions& options,
                            const TensorParallel& tensor) {
  Activations::Sizes sizes;
  sizes.shape = parameters.shape();
  sizes.shape.num_attention_heads /= tensor.size();
  sizes.shape.num_key_value_heads /= tensor.size();
  sizes.shape.intermediate_size = sizes.shape.is_moe() ? 0 : sizes.shape.intermediate_size / tensor.size();
  sizes.shape.num_hidden_layers = layers_here(parameters, options.chunk).count();
  sizes.dtype = parameters.compute_dtype();
  sizes.slots = options.slots;
  sizes.tokens_max = options.tokens_max / (options.mesh ? options.mesh->dims().cp : 1);
  sizes.rows_max = tensor.rows(sizes.tokens_max);
  sizes.splits = tensor.splits();
  sizes.split_backward = options.split_backward;
  sizes.recompute = options.recompute;
  sizes.training = options.training;
  return sizes;
}

// Its operands are tokens' rows of the widest activation, or a matrix.
std::unique_ptr<LowPrecisionState> low_precision_of(const ParameterStore& parameters, const LlamaOptions& options,
                                                    const Activations::Sizes& sizes) {
  if (!options.low_precision.on()) return nullptr;
  const ModelShape& s = sizes.shape;
  const std::int64_t qkv = s.q_size() + 2 * s.kv_size();
  const std::int64_t rows = sizes.tokens_max * std::max({s.hidden_size, qkv, s.mlp_width(), s.intermediate_size});
  return std::make_unique<LowPrecisionState>(options.low_precision, parameters.shape().num_hidden_layers, sizes.dtype,
                                             rows, s.hidden_size * std::max(qkv, s.mlp_width()),
                                             account_of(options.memory, MemoryCategory::activations));
}

ContextAttentionSizes attention_sizes_of(const Activations::Sizes& model, const LlamaOptions& options) {
  ContextAttentionSizes sizes;
  sizes.heads = model.shape.num_attention_heads, sizes.kv_heads = model.shape.num_key_value_heads;
  sizes.head_dim = model.shape.head_dim;
  sizes.tokens_max = model.tokens_max, sizes.dtype = model.dtype, sizes.training = model.training;
  sizes.overlap = options.overlap_context;
  sizes.window = model.shape.sliding_window;
  return sizes;
}

}  // namespace

Llama::Llama(const ParameterStore& parameters, const LlamaOptions& options)
    : parameters_(parameters),
      chunk_(options.chunk),
      rope_(positions_for(parameters.shape(), options)),
      tensor_(options.mesh ? TensorParallel(*options.mesh, options.overlap_tensor) : TensorParallel()),
      link_(options.mesh ? PipelineLink(*options.mesh, options.chunk, parameters.device()) : PipelineLink()),
      experts_(parameters.shape().is_moe()
                   ? std::make_unique<MoeState>(parameters.shape(), options.moe, options.mesh, options.slots,
                                                account_of(options.memory, MemoryCategory::experts))
                   : nullptr),
      activations_(sizes_of(parameters, options, tensor_), account_of(options.memory, MemoryCategory::activations)),
      losses_(account_of(options.memory, MemoryCategory::batches)),
      low_precision_(low_precision_of(parameters, options, sizes_of(parameters, options, tensor_))),
      attention_(make_context_attention(options.context_attention, options.mesh,
                                        attention_sizes_of(sizes_of(parameters, options, tensor_), options),
                                        account_of(options.memory, MemoryCategory::attention))),
      masked_(options.dropout > 0 && options.training
                  ? Tensor(parameters.compute_dtype(),
                           Shape{tensor_.rows(activations_.tokens_max()), shape().hidden_size},
                           account_of(options.memory, MemoryCategory::activations))
                  : Tensor()),
      dropout_{options.dropout, options.seed, masked_,
               options.mesh ? ContextShard(options.mesh->dims().cp, options.mesh->at().cp) : ContextShard()},
      tables_(account_of(options.memory, MemoryCategory::activations)) {
  link_.set_overlap(options.overlap);
  if (experts_) experts_->exchange().set_overlap(options.overlap_experts);
  const ParameterLayout& layout = parameters.layout();
  const auto table = [&](const std::string& name) {
    const FlatParameter& found = layout.find(name);
    first_id_ = found.box.offset[0], ids_ = found.box.extent[0];
    return found.begin;
  };
  if (link_.first()) embedding_ = table(embedding_name(shape()));
  if (link_.first() && shape().is_gpt2()) positions_ = layout.find("transformer.wpe.weight").begin;
  if (link_.last()) {
    final_norm_ = Norm(parameters, shape().is_gpt2() ? "transformer.ln_f" : "model.norm");
    output_ = table(shape().tie_word_embeddings ? embedding_name(shape()) : "lm_head.weight");
  }
  const LayerRange layers = layers_here(parameters, options.chunk);
  for (int layer = layers.first; layer < layers.last; ++layer)
    blocks_.emplace_back(parameters, rope_, activations_, tensor_, dropout_, *attention_, experts_.get(),
                         low_precision_.get(), layer, layer - layers.first);
  for (int slot = 0; slot < options.slots; ++slot)
    batches_.emplace_back(account_of(options.memory, MemoryCategory::batches));
  if (link_.first() && tensor_.splits()) local_ids_.reserve(static_cast<std::size_t>(activations_.tokens_max()));
  tables_.set(bytes_of_vector(rope_.cosines) + bytes_of_vector(rope_.sines) + bytes_of_vector(local_ids_));
}

std::int64_t Llama::expert_bytes() const {
  std::int64_t bytes = experts_ ? experts_->bytes() : 0;
  for (const Block& block : blocks_)
    if (experts_) bytes += static_cast<const MoeLayer&>(block.feed_forward()).bytes();
  return bytes;
}

void Llama::expect(std::int64_t tokens, bool forward) {
  link_.expect(tensor_.rows(tokens) * shape().hidden_size * dtype_bytes(parameters_.compute_dtype()), forward);
}

void Llama::poll() {
  link_.poll();
  tensor_.poll();
  if (experts_) experts_->exchange().poll();
}

Status Llama::status() const {
  LH_CHECK(parameters_.status());
  LH_CHECK(tensor_.status());
  if (experts_) LH_CHECK(experts_->exchange().status());
  LH_CHECK(attention_->status());
  return link_.status();
}

std::pair<std::int64_t, std::int64_t> Llama::tied_gradient() const {
  if (!shape().tie_word_embeddings || link_.first() == link_.last()) return {0, 0};
  const std::int64_t begin = link_.first() ? embedding_ : output_;
  return {begin, begin + ids_ * shape().hidden_size};
}

std::vector<std::pair<std::int64_t, std::int64_t>> Llama::partial_gradients() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  if (experts_ && tensor_.splits())
    for (const Block& block : blocks_)
      ranges.push_back(static_cast<const MoeLayer&>(block.feed_forward()).partial_gradient());
  if (!tensor_.sequence()) return ranges;
  const auto take = [&](const Norm& norm) {
    for (const auto& range : norm.ranges()) ranges.push_back(range);
  };
  for (const Block& block : blocks_) take(block.input_norm()), take(block.post_norm());
  if (link_.last()) take(final_norm_);
  return ranges;
}

std::int64_t Llama::router_bias_begin(int layer) const {
  const LayerRange here = layers_here(parameters_, chunk_);
  if (!experts_ || layer < here.first || layer >= here.last) return -1;
  const Block& block = blocks_[static_cast<std::size_t>(layer - here.first)];
  return static_cast<const MoeLayer&>(block.feed_forward()).bias_begin();
}

void Llama::weigh(std::span<const float> weights) {
  if (!experts_) return;
  double sum = 0;
  for (const float weight : weights) sum += static_cast<double>(weight);
  experts_->weight = static_cast<float>(sum);
  // Its tokens may lie on several ranks, of each of which tp have the same.
  ExpertExchange& ranks = experts_->exchange();
  if (ranks.micro_batch_ranks() == tensor_.size()) return;
  ranks.sum_over_micro_batch({&experts_->weight, 1});
  experts_->weight /= static_cast<float>(tensor_.size());
}

Status Llama::check(const MicroBatch& batch) const {
  if (batch.tokens() > activations_.tokens_max() || batch.tokens() <= 0 || batch.length > rope_.positions)
    return make_error(
        ErrorCode::invalid_input,
        format("micro-batch of {} sequences of {} tokens; the model was made for {} tokens and sequences of {}",
               batch.sequences, batch.length, activations_.tokens_max(), rope_.positions));
  if ((tensor_.sequence() || experts_) && batch.tokens() % tensor_.size() != 0)
    return make_error(
        ErrorCode::invalid_input,
        format("a micro-batch of {} tokens is not dealt evenly to tp = {} ranks", batch.tokens(), tensor_.size()),
        "pad the sequences, or set sp = false where the model has no experts");
  for (const std::int32_t position : batch.positions)
    if (position < 0 || position >= rope_.positions)
      return make_error(
          ErrorCode::invalid_input,
          format("a token at position {}; the model was made for sequences of {}", position, rope_.positions));
  for (const std::int32_t id : batch.ids)
    if (id < 0 || id >= shape().vocab_size)
      return make_error(ErrorCode::invalid_input,
                        format("token {} is outside the model's vocabulary of {}", id, shape().vocab_size),
                        "data and model need the same tokenizer");
  return {};
}

ConstView Llama::output_weight() const {
  return parameters_.weight(output_, ids_, shape().hidden_size);
}

// What the host changes or counts is done before the batch goes to a device.
MicroBatch Llama::place(const ComputeContext& context, int slot, const MicroBatch& batch) {
  if (context.device() == nullptr) return batch;
  MicroBatch local = batch;
  local.ids = local_ids(batch);
  if (positions_ >= 0) local.positions = positions_of(batch);
  return batches_[static_cast<std::size_t>(slot)].place(context, local);
}

std::span<const std::int32_t> Llama::local_ids(const MicroBatch& batch) {
  if (!tensor_.splits()) return batch.ids;
  local_ids_.assign(batch.ids.begin(), batch.ids.end());
  for (std::int32_t& id : local_ids_) {
    const std::int64_t local = id - first_id_;
    id = local >= 0 && local < ids_ ? static_cast<std::int32_t>(local) : -1;
  }
  return local_ids_;
}

View Llama::all_rows(View rows, std::int64_t tokens) {
  if (!tensor_.sequence()) return first_rows(rows, tokens);
  const View all = first_rows(activations_.workspace().full, tokens);
  tensor_.gather_rows(rows, tokens, shape().hidden_size, all);
  return all;
}

VocabShard Llama::vocab_shard(std::int64_t tokens) const {
  VocabShard shard;
  shard.tokens = tokens, shard.hidden = shape().hidden_size;
  shard.first = first_id_, shard.rows = ids_;
  return shard;
}

// Of split tables one rank has a token's row, the others zeros: the sum is exact.
void Llama::embed_tokens(const ComputeContext& context, const MicroBatch& batch, View out) {
  const std::int64_t t = batch.tokens(), h = shape().hidden_size;
  const ConstView table = parameters_.weight(embedding_, ids_, h);
  if (!tensor_.splits()) return embedding_forward(context, {t, ids_, h}, batch.ids, table, out);
  const View found = first_rows(activations_.workspace().full, t);
  const View partial = first_rows(activations_.workspace().partial, t);
  embedding_forward(context, {t, ids_, h}, context.device() ? batch.ids : local_ids(batch), table, found);
  cast(context, found, partial);
  tensor_.sum_rows(context, partial, activations_.workspace().landing, t, h, out);
}

std::span<const std::int32_t> Llama::positions_of(const MicroBatch& batch) {
  if (!batch.positions.empty()) return batch.positions;
  counted_.resize(static_cast<std::size_t>(batch.tokens()));
  tables_.set(bytes_of_vector(local_ids_) + bytes_of_vector(counted_));  // nothing is rotated beside learned positions
  for (std::size_t t = 0; t < counted_.size(); ++t)
    counted_[t] = static_cast<std::int32_t>(static_cast<std::int64_t>(t) % batch.length);
  return counted_;
}

void Llama::embed(const ComputeContext& context, const MicroBatch& batch, View out) {
  embed_tokens(context, batch, out);
  if (positions_ < 0) return;
  const std::int64_t t = batch.tokens(), r = tensor_.rows(t), h = shape().hidden_size;
  const std::int64_t places = shape().max_position_embeddings;
  const View found = first_rows(activations_.workspace().branch, r);
  embedding_forward(
      context, {r, places, h},
      positions_of(batch).subspan(static_cast<std::size_t>(tensor_.first_row(t)), static_cast<std::size_t>(r)),
      parameters_.weight(positions_, places, h), found);
  add(context, out, found, out);
}

// The output, or its gradient.
void Llama::drop_embedding(const ComputeContext& context, const MicroBatch& batch, View rows) {
  if (dropout_.drops(batch))
    dropout_.apply(context, batch, tensor_, ModelDropout::embedding_place(), shape().hidden_size, rows, rows);
}

void Llama::forward(const ComputeContext& context, int slot_index, const MicroBatch& batch) {
  ActivationSlot& slot = activations_.slot(slot_index);
  slot.batch = place(context, slot_index, batch);
  const std::int64_t r = tensor_.rows(batch.tokens());
  BlockOutput input{slot.x, slot.final_norm, slot.final_inv_rms, link_.last() ? &final_norm_ : nullptr};
  if (!blocks_.empty()) {
    const BlockActivations& first = slot.blocks.front();
    input = {first.x, first.input_norm, first.input_inv_rms, &blocks_.front().input_norm()};
  }
  if (link_.first()) {
    embed(context, slot.batch, first_rows(input.x, r));
    drop_embedding(context, batch, first_rows(input.x, r));
  } else {
    link_.receive_activation(first_rows(input.x, r));
  }
  if (input.norm) input.norm->forward(context, r, first_rows(input.x, r), first_rows(input.normed, r), input.inv_rms);
  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    BlockOutput output{slot.x, slot.final_norm, slot.final_inv_rms, link_.last() ? &final_norm_ : nullptr};
    if (l + 1 < blocks_.size()) {
      const BlockActivations& next = slot.blocks[l + 1];
      output = {next.x, next.input_norm, next.input_inv_rms, &blocks_[l + 1].input_norm()};
    }
    blocks_[l].forward(context, slot_index, output);
  }
  if (!link_.last()) link_.send_activation(slot_index, first_rows(slot.x, r));
}

void Llama::token_losses(const ComputeContext& context, int slot_index, std::span<float> loss) {
  if (!link_.last()) return;
  const ActivationSlot& slot = activations_.slot(slot_index);
  const std::int64_t t = slot.batch.tokens();
  const PlacedLosses::Spans placed = losses_.place(context, {}, loss);
  if (tensor_.splits())
    vocab_parallel_loss(context, tensor_, vocab_shard(t), all_rows(slot.final_norm, t), output_weight(),
                        slot.batch.targets, {}, placed.losses, {}, {}, {});
  else
    lm_head_loss(context, {t, shape().hidden_size, shape().vocab_size}, first_rows(slot.final_norm, t), output_weight(),
                 slot.batch.targets, {}, placed.losses, {}, {});
  losses_.take(context, placed, loss);
}

void Llama::logits(const ComputeContext& context, int slot_index, std::int64_t begin, std::int64_t end, View out) {
  LH_ASSERT(!tensor_.splits() && link_.last(), "logits of a split vocabulary");
  const ActivationSlot& slot = activations_.slot(slot_index);
  linear_forward(context, {end - begin, shape().hidden_size, shape().vocab_size}, slot.final_norm.rows(begin, end),
                 output_weight(), out);
}

void Llama::output_backward(const ComputeContext& context, int slot_index, std::span<const float> weights,
                            std::span<float> loss, const GradientTarget& target) {
  const TraceSpan span(context.trace(), "output and loss");
  LH_ASSERT(activations_.training(), "a model made without training memory has no backward");
  const ActivationSlot& slot = activations_.slot(slot_index);
  Workspace& w = activations_.workspace();
  const std::int64_t t = slot.batch.tokens(), r = tensor_.rows(t), h = shape().hidden_size, v = ids_;
  const View branch = first_rows(w.branch, r);
  if (target.overwrite) {
    final_norm_.clear(context, target);
    if (link_.first()) clear_tables(context, target, output_ != embedding_);
  }
  const View dweight = target.wants(output_) ? target.matrix(output_, v, h) : View();
  if (tensor_.splits()) {
    const View partial = first_rows(w.partial, t);
    VocabShard shard = vocab_shard(t);
    shard.accumulate = !target.overwrite;
    // The input's gradient is summed while the last of the weights' is computed.
    tensor_.start_sum(partial, w.landing, t, h, branch);
    const auto give_all = [&] {
      for (std::size_t piece = tensor_.pieces(t).size(); piece > 0; --piece) tensor_.sum_under_way().give();
    };
    vocab_parallel_loss(context, tensor_, shard, all_rows(slot.final_norm, t), output_weight(), slot.batch.targets,
                        weights, loss, partial, dweight, give_all);
    tensor_.sum_under_way().finish(context);
  } else {
    LmHeadShape head{t, h, v};
    head.accumulate = !target.overwrite;
    lm_head_loss(context, head, first_rows(slot.final_norm, t), output_weight(), slot.batch.targets, weights, loss,
                 branch, dweight);
  }
  final_norm_.backward(context, r, branch, first_rows(slot.x, r), slot.final_inv_rms, first_rows(w.dx, r), target,
                       false);
  final_norm_.say_ready(target);
  if (!link_.first() || output_ != embedding_) target.say_ready(output_, output_ + v * h);
}

void Llama::embedding_weight_backward(const ComputeContext& context, int slot_index, View dx,
                                      const GradientTarget& target) {
  if (!target.wants(embedding_)) return;
  const MicroBatch& batch = activations_.slot(slot_index).batch;
  const std::int64_t h = shape().hidden_size, places = shape().max_position_embeddings;
  const View all = all_rows(dx, batch.tokens());
  embedding_backward(context, {batch.tokens(), ids_, h}, context.device() ? batch.ids : local_ids(batch), all,
                     target.vector(embedding_, ids_ * h));
  if (positions_ >= 0) {
    embedding_backward(context, {batch.tokens(), places, h}, positions_of(batch), all,
                       target.vector(positions_, places * h));
    target.say_ready(positions_, positions_ + places * h);
  }
  target.say_ready(embedding_, embedding_ + ids_ * h);
}

void Llama::clear_tables(const ComputeContext& context, const GradientTarget& target, bool tokens) const {
  const std::int64_t h = shape().hidden_size;
  if (tokens) target.clear(context, embedding_, embedding_ + ids_ * h);
  if (positions_ >= 0) target.clear(context, positions_, positions_ + shape().max_position_embeddings * h);
}

// From the loss, or from what the next stage says of this one's output.
void Llama::backward_to_input(const ComputeContext& context, int slot_index, std::span<const float> weights,
                              std::span<float> loss, const GradientTarget& target) {
  if (link_.last()) return output_backward(context, slot_index, weights, loss, target);
  const std::int64_t t = activations_.slot(slot_index).batch.tokens();
  if (target.overwrite && link_.first() && !activations_.split_backward()) clear_tables(context, target, true);
  link_.receive_gradient(first_rows(activations_.workspace().dx, tensor_.rows(t)));
}

void Llama::backward(const ComputeContext& context, int slot_index, std::span<const float> weights,
                     std::span<float> loss, const GradientTarget& target) {
  const bool split = activations_.split_backward();
  weigh(weights);
  const PlacedLosses::Spans placed = losses_.place(context, weights, loss);
  backward_to_input(context, slot_index, placed.weights, placed.losses, target);
  for (std::size_t l = blocks_.size(); l-- > 0;) blocks_[l].backward(context, slot_index, target);
  ActivationSlot& slot = activations_.slot(slot_index);
  const View dx = first_rows(activations_.workspace().dx, tensor_.rows(slot.batch.tokens()));
  if (!link_.first()) {
    link_.send_gradient(dx);
  } else {
    drop_embedding(context, slot.batch, dx);
    if (split)
      cast(context, dx, first_rows(slot.embedding_gradient, dx.shape()[0]));
    else
      embedding_weight_backward(context, slot_index, activations_.workspace().dx, target);
  }
  if (link_.last()) losses_.take(context, placed, loss);  // once everything is asked for: a device is not kept waiting
}

void Llama::backward_weight(const ComputeContext& context, int slot_index, const GradientTarget& target) {
  LH_ASSERT(activations_.split_backward(), "made for joint backward");
  for (std::size_t l = blocks_.size(); l-- > 0;) blocks_[l].backward_weight(context, slot_index, target);
  if (!link_.first()) return;
  // Where the output is here, too, its backward has cleared the embedding and may have added to it.
  if (target.overwrite && !link_.last()) clear_tables(context, target, true);
  embedding_weight_backward(context, slot_index, activations_.slot(slot_index).embedding_gradient, target);
}

}  // namespace longhaul
