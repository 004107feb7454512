#include "engine/model/llama.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/model/experts/moe_layer.h"
#include "engine/model/layers/rope_of.h"
#include "engine/ops/pointwise/elementwise.h"

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

ContextShard context_shard_of(const LlamaOptions& options) {
  return options.mesh ? ContextShard(options.mesh->dims().cp, options.mesh->at().cp) : ContextShard();
}

DropoutMemory dropout_memory_of(const LlamaOptions& options, const Activations::Sizes& sizes) {
  DropoutMemory memory;
  MemoryAccount* const account = account_of(options.memory, MemoryCategory::activations);
  if (!options.training) return memory;
  if (options.dropout > 0) memory.masked = Tensor(sizes.dtype, Shape{sizes.rows_max, sizes.shape.hidden_size}, account);
  if (options.adapted && options.adapted->dropout().rate > 0)
    memory.of_adapter = std::make_unique<AdapterDropout>(*options.adapted, options.seed, context_shard_of(options),
                                                         sizes.dtype, sizes.tokens_max, account);
  return memory;
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

StageBatches::Options batches_of(const ParameterStore& parameters, const LlamaOptions& options,
                                 const TensorParallel& tensor, const PipelineLink& link, std::int64_t tokens_max) {
  StageBatches::Options batches;
  batches.slots = options.slots, batches.splits = tensor.splits(), batches.memory = options.memory;
  if (!link.first()) return batches;
  batches.tokens_max = tokens_max;
  batches.vocabulary = VocabularyPart(parameters, embedding_name(parameters.shape()));
  batches.vocabulary_size = parameters.shape().vocab_size;
  batches.positions = parameters.shape().is_gpt2();
  batches.prompt = parameters.shape().virtual_tokens > 0;
  return batches;
}

}  // namespace

Llama::Llama(const ParameterStore& parameters, const LlamaOptions& options)
    : parameters_(parameters),
      chunk_(options.chunk),
      rope_(positions_for(parameters.shape(), options), account_of(options.memory, MemoryCategory::activations)),
      tensor_(options.mesh ? TensorParallel(*options.mesh, options.overlap_tensor) : TensorParallel()),
      link_(options.mesh ? PipelineLink(*options.mesh, options.chunk, parameters.device()) : PipelineLink()),
      experts_(parameters.shape().is_moe()
                   ? std::make_unique<MoeState>(parameters.shape(), options.moe, options.mesh, options.slots,
                                                account_of(options.memory, MemoryCategory::experts))
                   : nullptr),
      activations_(sizes_of(parameters, options, tensor_), account_of(options.memory, MemoryCategory::activations)),
      batches_(batches_of(parameters, options, tensor_, link_, activations_.tokens_max())),
      low_precision_(low_precision_of(parameters, options, sizes_of(parameters, options, tensor_))),
      sequences_{make_context_attention(options.context_attention, options.mesh,
                                        attention_sizes_of(sizes_of(parameters, options, tensor_), options),
                                        account_of(options.memory, MemoryCategory::attention)),
                 ContextNumbers(options.mesh)},
      dropout_memory_(dropout_memory_of(options, sizes_of(parameters, options, tensor_))),
      dropout_{options.dropout, options.seed, dropout_memory_.masked, context_shard_of(options),
               dropout_memory_.of_adapter.get()} {
  link_.set_overlap(options.overlap);
  if (experts_) experts_->exchange().set_overlap(options.overlap_experts);
  if (link_.first()) embedding_.emplace(parameters, tensor_, activations_, batches_, link_.last());
  if (link_.last()) output_.emplace(parameters, tensor_, activations_, link_.first());
  const LayerRange layers = layers_here(parameters, options.chunk);
  for (int layer = layers.first; layer < layers.last; ++layer)
    blocks_.emplace_back(parameters, rope_.table, activations_, tensor_, dropout_, *sequences_.attention,
                         experts_.get(), low_precision_.get(), layer, layer - layers.first);
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
  LH_CHECK(sequences_.attention->status());
  LH_CHECK(sequences_.numbers.status());
  return link_.status();
}

std::pair<std::int64_t, std::int64_t> Llama::tied_gradient() const {
  if (!shape().tie_word_embeddings || link_.first() == link_.last()) return {0, 0};
  const VocabularyPart& table = link_.first() ? embedding_->table() : output_->table();
  return {table.begin, table.begin + table.rows * shape().hidden_size};
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
  if (link_.last()) take(output_->norm());
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
  if (batch.tokens() > activations_.tokens_max() || batch.tokens() <= 0 || batch.length > rope_.table.positions)
    return make_error(
        ErrorCode::invalid_input,
        format("micro-batch of {} sequences of {} tokens; the model was made for {} tokens and sequences of {}",
               batch.sequences, batch.length, activations_.tokens_max(), rope_.table.positions));
  if ((tensor_.sequence() || experts_) && batch.tokens() % tensor_.size() != 0)
    return make_error(
        ErrorCode::invalid_input,
        format("a micro-batch of {} tokens is not split evenly over tp = {} ranks", batch.tokens(), tensor_.size()),
        "pad the sequences, or set sp = false where the model has no experts");
  for (const std::int32_t position : batch.positions)
    if (position < 0 || position >= rope_.table.positions)
      return make_error(
          ErrorCode::invalid_input,
          format("a token at position {}; the model was made for sequences of {}", position, rope_.table.positions));
  for (const std::int32_t id : batch.ids)
    if (id < 0 || id >= shape().ids_end())
      return make_error(ErrorCode::invalid_input,
                        format("token {} is outside the model's vocabulary of {}", id, shape().vocab_size),
                        "data and model need the same tokenizer");
  return {};
}

// The output, or its gradient.
void Llama::drop_embedding(const ComputeContext& context, const MicroBatch& batch, View rows) {
  if (dropout_.drops(batch))
    dropout_.apply(context, batch, tensor_, ModelDropout::embedding_place(), shape().hidden_size, rows, rows);
}

void Llama::forward(const ComputeContext& context, int slot_index, const MicroBatch& batch) {
  ActivationSlot& slot = activations_.slot(slot_index);
  slot.batch = batches_.place(context, slot_index, batch);
  const std::int64_t r = tensor_.rows(batch.tokens());
  BlockOutput input{slot.x, slot.final_norm, slot.final_inv_rms, output_ ? &output_->norm() : nullptr};
  if (!blocks_.empty()) {
    const BlockActivations& first = slot.blocks.front();
    input = {first.x, first.input_norm, first.input_inv_rms, &blocks_.front().input_norm()};
  }
  if (link_.first()) {
    embedding_->forward(context, slot.batch, first_rows(input.x, r));
    drop_embedding(context, batch, first_rows(input.x, r));
  } else {
    link_.receive_activation(first_rows(input.x, r));
  }
  if (input.norm) input.norm->forward(context, r, first_rows(input.x, r), first_rows(input.normed, r), input.inv_rms);
  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    BlockOutput output{slot.x, slot.final_norm, slot.final_inv_rms, output_ ? &output_->norm() : nullptr};
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
  const PlacedLosses::Spans placed = batches_.losses().place(context, {}, loss);
  output_->losses(context, activations_.slot(slot_index), placed.losses);
  batches_.losses().take(context, placed, loss);
}

void Llama::whole_losses(std::int64_t pieces, std::span<const float> own, std::span<float> whole) {
  if (link_.last()) sequences_.numbers.gather(pieces, own, whole);
}

void Llama::logits(const ComputeContext& context, int slot_index, std::int64_t begin, std::int64_t end, View out) {
  LH_ASSERT(link_.last(), "logits of a stage that is not the last");
  output_->logits(context, activations_.slot(slot_index), begin, end, out);
}

// From the loss, or from what the next stage says of this one's output.
void Llama::backward_to_input(const ComputeContext& context, int slot_index, std::span<const float> weights,
                              std::span<float> loss, const GradientTarget& target) {
  if (link_.last()) return output_->backward(context, activations_.slot(slot_index), weights, loss, target);
  const std::int64_t t = activations_.slot(slot_index).batch.tokens();
  link_.receive_gradient(first_rows(activations_.workspace().dx, tensor_.rows(t)));
}

void Llama::backward(const ComputeContext& context, int slot_index, std::span<const float> weights,
                     std::span<float> loss, const GradientTarget& target) {
  const bool split = activations_.split_backward();
  weigh(weights);
  const PlacedLosses::Spans placed = batches_.losses().place(context, weights, loss);
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
      embedding_->backward_weight(context, slot.batch, activations_.workspace().dx, target);
  }
  if (link_.last())
    batches_.losses().take(context, placed, loss);  // once everything is asked for: a device is not kept waiting
}

void Llama::backward_weight(const ComputeContext& context, int slot_index, const GradientTarget& target) {
  LH_ASSERT(activations_.split_backward(), "made for joint backward");
  for (std::size_t l = blocks_.size(); l-- > 0;) blocks_[l].backward_weight(context, slot_index, target);
  if (!link_.first()) return;
  const ActivationSlot& slot = activations_.slot(slot_index);
  embedding_->backward_weight(context, slot.batch, slot.embedding_gradient, target);
}

}  // namespace longhaul
