#include "engine/model/output_layer.h"

#include "engine/model/layers/scalar_head.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/loss/cross_entropy.h"

namespace longhaul {

OutputLayer::OutputLayer(const ParameterStore& parameters, TensorParallel& tensor, Activations& activations,
                         bool embedding_here)
    : parameters_(parameters),
      tensor_(tensor),
      activations_(activations),
      norm_(parameters, parameters.shape().is_gpt2() ? "transformer.ln_f" : "model.norm"),
      table_(parameters, output_name(parameters.shape())),
      shares_embedding_(embedding_here && parameters.shape().tie_word_embeddings),
      is_scalar_(parameters.shape().scalar_head),
      hidden_(parameters.shape().hidden_size) {
  LH_ASSERT(!is_scalar_ || table_.rows <= hidden_, "more labels than a token has numbers");
}

VocabShard OutputLayer::shard(std::int64_t tokens) const {
  VocabShard shard;
  shard.tokens = tokens, shard.hidden = hidden_;
  shard.first = table_.first_id, shard.rows = table_.rows;
  return shard;
}

void OutputLayer::losses(const ComputeContext& context, const ActivationSlot& slot, std::span<float> loss) {
  const std::int64_t t = slot.batch.tokens();
  if (is_scalar_)
    scalar_head_forward(context, {t, hidden_, table_.rows},
                        all_rows(tensor_, activations_, slot.final_norm, t, hidden_), weight(), loss);
  else if (tensor_.splits())
    vocab_parallel_loss(context, tensor_, shard(t), all_rows(tensor_, activations_, slot.final_norm, t, hidden_),
                        weight(), slot.batch.targets, {}, loss, {}, {}, {});
  else
    lm_head_loss(context, {t, hidden_, table_.rows}, first_rows(slot.final_norm, t), weight(), slot.batch.targets, {},
                 loss, {}, {});
}

void OutputLayer::logits(const ComputeContext& context, const ActivationSlot& slot, std::int64_t begin,
                         std::int64_t end, View out) const {
  LH_ASSERT(!tensor_.splits() && !is_scalar_, "logits of a split vocabulary, or of none");
  linear_forward(context, {end - begin, hidden_, table_.rows}, slot.final_norm.rows(begin, end), weight(), out);
}

void OutputLayer::backward(const ComputeContext& context, const ActivationSlot& slot, std::span<const float> weights,
                           std::span<float> loss, const GradientTarget& target) {
  const TraceSpan span(context.trace(), "output and loss");
  LH_ASSERT(activations_.training(), "a model made without training memory has no backward");
  Workspace& w = activations_.workspace();
  const std::int64_t t = slot.batch.tokens(), r = tensor_.rows(t);
  const View branch = first_rows(w.branch, r);
  if (target.overwrite) norm_.clear(context, target);
  const bool wanted = target.wants(table_.begin, table_.begin + table_.rows * hidden_);
  const View dweight = wanted ? target.matrix(table_.begin, table_.rows, hidden_) : View();
  if (is_scalar_) {
    scalar_backward(context, slot, weights, loss, dweight, !target.overwrite, branch);
  } else if (tensor_.splits()) {
    split_backward(context, slot, weights, loss, dweight, !target.overwrite, branch);
  } else {
    LmHeadShape head{t, hidden_, table_.rows};
    head.accumulate = !target.overwrite;
    lm_head_loss(context, head, first_rows(slot.final_norm, t), weight(), slot.batch.targets, weights, loss, branch,
                 dweight);
  }
  norm_.backward(context, r, branch, first_rows(slot.x, r), slot.final_inv_rms, first_rows(w.dx, r), target, false);
  norm_.say_ready(target);
  if (!shares_embedding_) target.say_ready(table_.begin, table_.begin + table_.rows * hidden_);
}

// Nothing is summed over the ranks: each has the matrix, and brings the tokens' rows together where it holds some.
void OutputLayer::scalar_backward(const ComputeContext& context, const ActivationSlot& slot,
                                  std::span<const float> weights, std::span<float> loss, View dweight, bool accumulate,
                                  View dx) {
  const Workspace& w = activations_.workspace();
  const std::int64_t t = slot.batch.tokens();
  const ConstView normed = all_rows(tensor_, activations_, slot.final_norm, t, hidden_);
  const ScalarHeadShape head{t, hidden_, table_.rows, accumulate, tensor_.first_row(t)};
  scalar_head_forward(context, head, normed, weight(), loss);
  scalar_head_backward(context, head, normed, weight(), weights, tensor_.splits() ? w.partial : w.dx, dx, dweight);
}

// The input's gradient is summed while the last of the weights' is computed.
void OutputLayer::split_backward(const ComputeContext& context, const ActivationSlot& slot,
                                 std::span<const float> weights, std::span<float> loss, View dweight, bool accumulate,
                                 View dx) {
  Workspace& w = activations_.workspace();
  const std::int64_t t = slot.batch.tokens();
  const View partial = first_rows(w.partial, t);
  VocabShard part = shard(t);
  part.accumulate = accumulate;
  tensor_.start_sum(partial, w.landing, t, hidden_, dx);
  const auto give_all = [&] {
    for (std::size_t piece = tensor_.pieces(t).size(); piece > 0; --piece) tensor_.sum_under_way().give();
  };
  vocab_parallel_loss(context, tensor_, part, all_rows(tensor_, activations_, slot.final_norm, t, hidden_), weight(),
                      slot.batch.targets, weights, loss, partial, dweight, give_all);
  tensor_.sum_under_way().finish(context);
}

}  // namespace longhaul
