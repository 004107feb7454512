#include "engine/model/experts/routed_experts.h"

#include "base/text/text.h"
#include "engine/ops/experts/moe_grouped_linear.h"
#include "engine/ops/pointwise/swiglu.h"

namespace longhaul {

RoutedExperts::RoutedExperts(const ParameterStore& parameters, MoeState& state, const Recompute& again, int layer)
    : parameters_(parameters), state_(state), again_(again), dtype_(parameters.compute_dtype()) {
  const ModelShape& s = parameters.shape();
  const ParallelDims& dims = parameters.layout().place().dims;
  hidden_ = s.hidden_size, local_ = s.num_local_experts / dims.ep, width_ = s.moe_intermediate_size / dims.etp;
  const std::int64_t first = expert_coordinates_of(dims, parameters.layout().place().at).ep * local_;
  const auto find = [&](const char* name) {
    return parameters.layout()
        .find(format("model.layers.{}.block_sparse_moe.experts.{}.{}.weight", layer, first, name))
        .begin;
  };
  w13_ = find("w1"), w2_ = find("w2");
}

View RoutedExperts::received(const RoutedRows& rows, ExpertActivations& kept) {
  return (again_.block ? state_.again : kept).received.take(dtype_, {rows.rows(), hidden_});
}
View RoutedExperts::gate_up(const RoutedRows& rows, ExpertActivations& kept) {
  return (again_.feed_forward ? state_.again : kept).gate_up.take(dtype_, {rows.rows(), 2 * width_});
}
View RoutedExperts::activated(const RoutedRows& rows, ExpertActivations& kept) {
  return (again_.activation ? state_.again : kept).activated.take(dtype_, {rows.rows(), width_});
}
View RoutedExperts::outputs(const RoutedRows& rows, ExpertActivations& kept) {
  return (again_.block ? state_.again : kept).outputs.take(dtype_, {rows.plan().rows, hidden_});
}
// Parts of an expert's width add up on the way back: in f32.
View RoutedExperts::answers(const RoutedRows& rows, ExpertActivations& kept) {
  if (!travels()) return outputs(rows, kept);
  const DType type = width_ < parameters_.shape().moe_intermediate_size ? DType::f32 : dtype_;
  return state_.scratch.answers.take(type, {rows.rows(), hidden_});
}

void RoutedExperts::activate(const ComputeContext& context, const RoutedRows& rows, ExpertActivations& kept, int rank,
                             ConstView w13) {
  const RoutedRows::Source from = rows.from(rank);
  if (from.rows() == 0) return;
  const View both = gate_up(rows, kept).rows(from.begin, from.end);
  if (!w13.empty())
    grouped_linear_forward(context, {local_, hidden_, 2 * width_}, from.offsets,
                           received(rows, kept).rows(from.begin, from.end), w13, both);
  swiglu_forward(context, both, activated(rows, kept).rows(from.begin, from.end));
}

void RoutedExperts::start(const ComputeContext& context, const RoutedRows& rows, ExpertActivations& kept, View x) {
  const View here = received(rows, kept), back = outputs(rows, kept);
  const View sent = travels() ? state_.scratch.rows.take(dtype_, {rows.plan().rows, hidden_}) : here;
  const View answered = answers(rows, kept);
  moe_permute(context, rows.plan(), hidden_, x, sent);
  if (!travels()) return;
  state_.exchange().start_dispatch(context, rows.route(), hidden_, sent, here);
  state_.exchange().start_collect(rows.route(), hidden_, answered, back);
}

void RoutedExperts::finish(const ComputeContext& context, const RoutedRows& rows, ExpertActivations& kept) {
  ExpertExchange& exchange = state_.exchange();
  const View answered = answers(rows, kept);
  const ConstView w13 = weight_in(), w2 = weight_out();
  for (int turn = 0; turn < exchange.ranks(); ++turn) {
    const int rank = exchange.rank_of(turn);
    exchange.wait_for(rank);
    const TraceSpan span(context.trace(), "experts, rows of a rank");
    const RoutedRows::Source from = rows.from(rank);
    activate(context, rows, kept, rank, w13);
    if (from.rows() > 0)
      grouped_linear_forward(context, {local_, width_, hidden_}, from.offsets,
                             activated(rows, kept).rows(from.begin, from.end), w2, answered.rows(from.begin, from.end));
    exchange.give(context, rank);
  }
  if (travels()) exchange.finish_collect(context);
}

void RoutedExperts::activate_again(const ComputeContext& context, const RoutedRows& rows, ExpertActivations& kept,
                                   bool inputs) {
  const ConstView w13 = inputs ? weight_in() : ConstView();
  for (int rank = 0; rank < state_.exchange().ranks(); ++rank) activate(context, rows, kept, rank, w13);
}

void RoutedExperts::start_backward(const ComputeContext& context, const RoutedRows& rows, ExpertActivations& kept,
                                   MoeGradients& g, std::span<const float> weights, View dy) {
  const View back = outputs(rows, kept);
  const View dreceived = g.received.take(dtype_, {rows.rows(), hidden_});
  const View sent = travels() ? state_.scratch.rows.take(dtype_, {rows.plan().rows, hidden_}) : dreceived;
  const View answered = answers(rows, kept);
  moe_combine_backward(context, rows.plan(), hidden_, dy, back, weights, sent,
                       state_.scratch.dweights.take(static_cast<std::int64_t>(weights.size())));
  if (!travels()) return;
  state_.exchange().start_dispatch(context, rows.route(), hidden_, sent, dreceived);
  state_.exchange().start_collect(rows.route(), hidden_, answered, back);
}

void RoutedExperts::backward(const ComputeContext& context, const RoutedRows& rows, ExpertActivations& kept,
                             MoeGradients& g) {
  ExpertExchange& exchange = state_.exchange();
  const std::int64_t all = rows.rows();
  const View dreceived = g.received.take(dtype_, {all, hidden_}), answered = answers(rows, kept);
  const View all_gate_up = gate_up(rows, kept), dgate_up = g.gate_up.take(dtype_, {all, 2 * width_});
  const View dactivated = state_.scratch.activated.take(dtype_, {all, width_});
  const ConstView w13 = weight_in(), w2 = weight_out();
  for (int turn = 0; turn < exchange.ranks(); ++turn) {
    const int rank = exchange.rank_of(turn);
    exchange.wait_for(rank);
    const TraceSpan span(context.trace(), "experts' backward, rows of a rank");
    const RoutedRows::Source from = rows.from(rank);
    if (from.rows() > 0) {
      const View both = all_gate_up.rows(from.begin, from.end), dboth = dgate_up.rows(from.begin, from.end);
      const View dact = dactivated.rows(from.begin, from.end);
      grouped_linear_backward_input(context, {local_, width_, hidden_}, from.offsets,
                                    dreceived.rows(from.begin, from.end), w2, dact);
      swiglu_backward(context, dact, both, dboth);
      grouped_linear_backward_input(context, {local_, hidden_, 2 * width_}, from.offsets, dboth, w13,
                                    answered.rows(from.begin, from.end));
    }
    exchange.give(context, rank);
  }
}

void RoutedExperts::finish_backward(const ComputeContext& context, const RoutedRows& rows, ExpertActivations& kept,
                                    View dx) {
  if (travels()) state_.exchange().finish_collect(context);
  moe_permute_backward(context, rows.plan(), hidden_, outputs(rows, kept), dx);
}

void RoutedExperts::backward_weight(const ComputeContext& context, const RoutedRows& rows, ExpertActivations& kept,
                                    MoeGradients& g, const GradientTarget& target) {
  const std::int64_t all = rows.rows();
  const View rows_here = received(rows, kept), dreceived = g.received.take(dtype_, {all, hidden_});
  const View act = activated(rows, kept), dgate_up = g.gate_up.take(dtype_, {all, 2 * width_});
  const std::int64_t end = w2_ + local_ * hidden_ * width_;
  const bool wants_in = target.wants(w13_, w2_), wants_out = target.wants(w2_, end);
  const ExpertExchange& exchange = state_.exchange();
  // Micro-batches that meet here are kept apart, or added up in their order.
  const auto batch_of = [&](int rank) { return target.locate_batch ? exchange.batch_of(rank) : 0; };
  for (int rank = 0; (wants_in || wants_out) && rank < exchange.ranks(); ++rank) {
    const RoutedRows::Source from = rows.from(rank);
    const int batch = batch_of(rank);
    const bool accumulate = !target.overwrite || (rank > 0 && batch_of(rank - 1) == batch);
    const auto gradient = [&](std::int64_t begin, std::int64_t height, std::int64_t columns) {
      return target.locate_batch ? View(target.locate_batch(begin, batch), Shape{height, columns})
                                 : target.matrix(begin, height, columns);
    };
    if (wants_out)
      grouped_linear_backward_weight(context, {local_, width_, hidden_}, from.offsets,
                                     dreceived.rows(from.begin, from.end), act.rows(from.begin, from.end),
                                     gradient(w2_, local_ * hidden_, width_), accumulate);
    if (wants_in)
      grouped_linear_backward_weight(context, {local_, hidden_, 2 * width_}, from.offsets,
                                     dgate_up.rows(from.begin, from.end), rows_here.rows(from.begin, from.end),
                                     gradient(w13_, local_ * 2 * width_, hidden_), accumulate);
    if (target.locate_batch && (rank + 1 == exchange.ranks() || batch_of(rank + 1) != batch))
      target.say_batch_ready(w13_, end, batch);
  }
  target.say_ready(w13_, end);
}

}  // namespace longhaul
