#include "engine/model/experts/moe_layer.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/core/tensor/transfer.h"
#include "engine/model/experts/router_of.h"
#include "engine/ops/experts/moe_grouped_linear.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/swiglu.h"

namespace longhaul {
namespace {

template <class T>
std::vector<T> on_host(const ComputeContext& context, std::span<const T> values) {
  std::vector<T> copy(values.size());
  copy_out(context, ConstView(values), View(std::span(copy)));
  return copy;
}

}  // namespace

MoeLayer::MoeLayer(const ParameterStore& parameters, Activations& activations, TensorParallel& tensor, MoeState& state,
                   int layer, int index)
    : parameters_(parameters),
      activations_(activations),
      tensor_(tensor),
      state_(state),
      layer_(layer),
      index_(index),
      dtype_(parameters.compute_dtype()) {
  const ModelShape& s = parameters.shape();
  const ParallelDims& dims = parameters.layout().place().dims;
  hidden_ = s.hidden_size, experts_ = s.num_local_experts, top_k_ = s.num_experts_per_tok;
  local_ = experts_ / dims.ep, ffn_ = s.moe_intermediate_size / dims.etp, shared_ = s.shared_size();
  const std::string prefix = format("model.layers.{}.block_sparse_moe.", layer);
  const auto find = [&](const std::string& name) {
    const FlatParameter& found = parameters.layout().find(prefix + name);
    dense_end_ = found.end;
    return found.begin;
  };
  const std::int64_t first = expert_coordinates_of(dims, parameters.layout().place().at).ep * local_;
  w13_ = find(format("experts.{}.w1.weight", first)), w2_ = find(format("experts.{}.w2.weight", first));
  gate_ = find("gate.weight");
  if (s.router_bias) bias_ = find("gate.e_score_correction_bias");
  if (shared_ > 0) {
    shared_gate_up_ = find("shared_experts.gate_proj.weight");
    shared_down_ = find("shared_experts.down_proj.weight");
  }
  again_ = activations.recompute(index);
  for (int i = 0; i < activations.slots(); ++i) slots_.emplace_back(state.account());
}

std::int64_t MoeLayer::bytes() const {
  std::int64_t bytes = 0;
  for (const Slot& s : slots_)
    bytes += s.logits.host_bytes() + s.ids.host_bytes() + s.weights.host_bytes() + s.rows.host_bytes() +
             s.gradients.logits.host_bytes();
  return bytes;
}

View MoeLayer::own_of(View rows, std::int64_t tokens) const {
  const std::int64_t m = own_rows(tokens), first = tensor_.sequence() ? 0 : tensor_.rank() * m;
  return rows.rows(first, first + m);
}

View MoeLayer::own_target(View rows, std::int64_t tokens) {
  if (tensor_.sequence() || !tensor_.splits()) return first_rows(rows, own_rows(tokens));
  return state_.own.take(dtype_, {own_rows(tokens), hidden_});
}

void MoeLayer::done(View own, View rows, std::int64_t tokens) {
  if (tensor_.splits() && !tensor_.sequence()) tensor_.gather_parts(own, tokens, hidden_, rows);
}

RouterShape MoeLayer::router_shape(std::int64_t tokens) const {
  return router_of(parameters_.shape(), tokens);
}

ConstView MoeLayer::router_weight(const ComputeContext& context) {
  const ConstView weight = parameters_.weight(gate_, experts_, hidden_);
  if (dtype_ == DType::f32) return weight;
  const View wide = state_.router.take(DType::f32, {experts_, hidden_});
  cast(context, weight, wide);
  return wide;
}

std::span<const float> MoeLayer::bias(const ComputeContext& context) {
  if (bias_ < 0) return {};
  const View wide = state_.bias.take(DType::f32, {experts_});
  cast(context, parameters_.vector(bias_, experts_), wide);
  return wide.span<float>();
}

ConstView MoeLayer::in_f32(const ComputeContext& context, View rows, std::int64_t tokens) {
  if (rows.dtype() == DType::f32) return rows;
  const View wide = state_.x32.take(DType::f32, {tokens, hidden_});
  cast(context, rows, wide);
  return wide;
}

// Sinkhorn sees all tokens of the micro-batch; every rank finds the same.
void MoeLayer::select(const ComputeContext& context, Slot& s, std::int64_t tokens) {
  const std::span<std::int32_t> chosen = s.ids.take(tokens * top_k_);
  ExpertExchange& ranks = state_.exchange();
  LH_ASSERT(!state_.watch || context.device() == nullptr, "who watches a selection looks at memory of the host");
  if (state_.watch) state_.watch(s.logits.span(), bias(context));
  if (state_.settings().balance != "sinkhorn" || state_.evaluates)
    return moe_select(context, router_shape(tokens), s.logits.span(), bias(context), chosen);
  if (ranks.micro_batch_ranks() == 1)
    return moe_select_sinkhorn(context, router_shape(tokens), s.logits.span(), {}, chosen);
  const std::int64_t all = tokens * ranks.micro_batch_ranks(), own = tokens * top_k_;
  const std::span<float> logits = state_.all_logits.take(all * experts_);
  const std::span<std::int32_t> ids = state_.all_ids.take(all * top_k_);
  ranks.gather_over_micro_batch(s.logits.span(), logits);
  moe_select_sinkhorn(context, router_shape(all), logits, {}, ids);
  const auto first = static_cast<std::size_t>(ranks.micro_batch_rank() * own);
  copy_within(context, ConstView(ids.subspan(first, static_cast<std::size_t>(own))), View(chosen));
}

// Padding is routed like any token, but counts for nothing and reaches no expert.
void MoeLayer::count(const ComputeContext& context, Slot& s, std::int64_t tokens, std::span<const std::uint8_t> real) {
  // The loss looks at the scores alone where the selection does not.
  const bool other_selection = bias_ >= 0 || parameters_.shape().n_group > 1;
  const std::span<float> both = s.tally.take(3 * experts_ + 2);
  const std::span<const std::uint8_t> mask = place_mask(context, s, real);
  moe_router_statistics(context, router_shape(tokens), s.logits.span(),
                        other_selection ? std::span<const std::int32_t>() : s.ids.span(), statistics(s), mask);
  if (mask.empty()) {
    moe_count(context, s.ids.span(), counts(s));
  } else {
    const std::span<float> selected = state_.selected.take(2 * experts_ + 2);
    moe_router_statistics(context, router_shape(tokens), s.logits.span(), s.ids.span(), selected, mask);
    copy_within(context, ConstView(selected.first(static_cast<std::size_t>(experts_))), View(counts(s)));
  }
  if (state_.exchange().micro_batch_ranks() > 1) state_.exchange().sum_over_micro_batch(both);
}

std::span<const std::uint8_t> MoeLayer::place_mask(const ComputeContext& context, Slot& s,
                                                   std::span<const std::uint8_t> real) {
  const std::span<std::uint8_t> placed = s.mask.take(static_cast<std::int64_t>(real.size()));
  if (!real.empty()) copy_in(context, ConstView(real), View(placed));
  return placed;
}

std::span<const std::uint8_t> MoeLayer::own_real(const MicroBatch& batch) const {
  if (batch.real.empty()) return {};
  const auto m = static_cast<std::size_t>(own_rows(batch.tokens()));
  return batch.real.subspan(static_cast<std::size_t>(tensor_.rank()) * m, m);
}

// Capacity is one of the micro-batch: all its ranks find the same plan of all tokens, and take their part of it.
// Padding takes no room of it.
void MoeLayer::plan(const ComputeContext& context, Slot& s, std::int64_t tokens, std::span<const std::uint8_t> real) {
  const double factor = state_.evaluates ? 0 : state_.settings().capacity_factor;
  ExpertExchange& ranks = state_.exchange();
  const std::int64_t all = tokens * ranks.micro_batch_ranks();
  CapacityRule rule;
  rule.policy = state_.settings().drop_policy == "position" ? DropPolicy::position : DropPolicy::probability;
  if (context.device() != nullptr && ranks.ranks() == 1 && ranks.micro_batch_ranks() == 1 && real.empty()) {
    if (factor != 0) rule.capacity = moe_capacity(all, top_k_, experts_, factor);
    return s.rows.make_there(context, tokens, top_k_, experts_, s.ids.span(), s.weights.span(),
                             factor == 0 ? nullptr : &rule);
  }
  // Which rank gets how many rows the host has to know.
  const std::vector<std::int32_t> chosen = on_host<std::int32_t>(context, s.ids.span());
  if (factor == 0) return s.rows.set(context, moe_dispatch(tokens, top_k_, experts_, chosen, real), ranks);
  const auto all_slots = static_cast<std::size_t>(all * top_k_);
  const std::vector<float> narrow(chosen.begin(), chosen.end()), own = on_host<float>(context, s.weights.span());
  std::vector<float> wide(all_slots), weights(all_slots), wide_real(static_cast<std::size_t>(all));
  std::vector<float> own_real(static_cast<std::size_t>(tokens), 1.0F);
  if (!real.empty()) std::ranges::copy(real, own_real.begin());
  ranks.gather_over_micro_batch(narrow, wide);
  ranks.gather_over_micro_batch(own, weights);
  ranks.gather_over_micro_batch(own_real, wide_real);
  const std::vector<std::int32_t> ids(wide.begin(), wide.end());
  const std::vector<std::uint8_t> all_real(wide_real.begin(), wide_real.end());
  rule.capacity = moe_capacity(std::ranges::count(all_real, std::uint8_t{1}), top_k_, experts_, factor);
  s.rows.set(context,
             moe_dispatch_part(moe_dispatch_capacity(all, top_k_, experts_, ids, weights, rule, all_real),
                               ranks.micro_batch_rank() * tokens, tokens),
             ranks);
}

View MoeLayer::received(Slot& s) {
  return memory(s, again_.block).received.take(dtype_, {s.rows.rows(), hidden_});
}
View MoeLayer::gate_up(Slot& s) {
  return memory(s, again_.feed_forward).gate_up.take(dtype_, {s.rows.rows(), 2 * ffn_});
}
View MoeLayer::activated(Slot& s) {
  return memory(s, again_.activation).activated.take(dtype_, {s.rows.rows(), ffn_});
}
View MoeLayer::outputs(Slot& s) {
  return memory(s, again_.block).outputs.take(dtype_, {s.rows.plan().rows, hidden_});
}
View MoeLayer::shared_gate_up(Slot& s, std::int64_t tokens) {
  return memory(s, again_.feed_forward).shared_gate_up.take(dtype_, {tokens, 2 * shared_});
}
View MoeLayer::shared_activated(Slot& s, std::int64_t tokens) {
  return memory(s, again_.activation).shared_activated.take(dtype_, {tokens, shared_});
}

ConstView MoeLayer::weight_in() const {
  return parameters_.weight(w13_, local_ * 2 * ffn_, hidden_);
}
ConstView MoeLayer::weight_out() const {
  return parameters_.weight(w2_, local_ * hidden_, ffn_);
}

void MoeLayer::activate(const ComputeContext& context, Slot& s, int rank, ConstView w13) {
  const RoutedRows::Source from = s.rows.from(rank);
  if (from.rows() == 0) return;
  const View both = gate_up(s).rows(from.begin, from.end);
  if (!w13.empty())
    grouped_linear_forward(context, {local_, hidden_, 2 * ffn_}, from.offsets, received(s).rows(from.begin, from.end),
                           w13, both);
  swiglu_forward(context, {from.rows(), ffn_, 2 * ffn_}, columns_of(both, from.rows(), 0, ffn_),
                 columns_of(both, from.rows(), ffn_, ffn_), activated(s).rows(from.begin, from.end));
}

void MoeLayer::shared_activate(const ComputeContext& context, Slot& s, View x, bool inputs) {
  const std::int64_t m = x.shape()[0];
  const View both = shared_gate_up(s, m);
  if (inputs)
    linear_forward(context, {m, hidden_, 2 * shared_}, x, parameters_.weight(shared_gate_up_, 2 * shared_, hidden_),
                   both);
  swiglu_forward(context, {m, shared_, 2 * shared_}, columns_of(both, m, 0, shared_),
                 columns_of(both, m, shared_, shared_), shared_activated(s, m));
}

void MoeLayer::through_experts(const ComputeContext& context, Slot& s, View x, View shared_y) {
  ExpertExchange& exchange = state_.exchange();
  const std::int64_t m = x.shape()[0];
  const View here = received(s), back = outputs(s);
  const View rows = travels() ? state_.rows.take(dtype_, {s.rows.plan().rows, hidden_}) : here;
  const View answers = travels() ? state_.answers.take(answer_type(), {s.rows.rows(), hidden_}) : back;
  moe_permute(context, s.rows.plan(), hidden_, x, rows);
  if (travels()) {
    exchange.start_dispatch(context, s.rows.route(), hidden_, rows, here);
    exchange.start_collect(s.rows.route(), hidden_, answers, back);
  }
  if (shared_ > 0) shared_activate(context, s, x, true);
  if (!shared_y.empty())
    linear_forward(context, {m, shared_, hidden_}, shared_activated(s, m),
                   parameters_.weight(shared_down_, hidden_, shared_), shared_y);
  const ConstView w13 = weight_in(), w2 = weight_out();
  for (int turn = 0; turn < exchange.ranks(); ++turn) {
    const int rank = exchange.rank_of(turn);
    exchange.wait_for(rank);
    const TraceSpan span(context.trace(), "experts, rows of a rank");
    const RoutedRows::Source from = s.rows.from(rank);
    activate(context, s, rank, w13);
    if (from.rows() > 0)
      grouped_linear_forward(context, {local_, ffn_, hidden_}, from.offsets, activated(s).rows(from.begin, from.end),
                             w2, answers.rows(from.begin, from.end));
    exchange.give(context, rank);
  }
  if (travels()) exchange.finish_collect(context);
}

void MoeLayer::forward(const ComputeContext& context, int slot_index, View y) {
  ActivationSlot& slot = activations_.slot(slot_index);
  Slot& s = slots_[static_cast<std::size_t>(slot_index)];
  const std::int64_t t = slot.batch.tokens(), m = own_rows(t);
  const View x = own_of(slot.blocks[static_cast<std::size_t>(index_)].post_norm, t);

  const std::span<float> logits = s.logits.take(m * experts_), weights = s.weights.take(m * top_k_);
  linear_forward(context, {m, hidden_, experts_}, in_f32(context, x, m), router_weight(context), logits);
  select(context, s, m);
  moe_gate_forward(context, router_shape(m), logits, s.ids.span(), weights);
  count(context, s, m, own_real(slot.batch));
  if (index_ == 0) fill(context, state_.pooled(slot_index), 0.0F);
  if (state_.pools()) axpy(context, 1.0F, statistics(s), state_.pooled(slot_index));
  plan(context, s, m, own_real(slot.batch));

  const View own = own_target(y, t);
  through_experts(context, s, x, shared_ > 0 ? own : View());
  moe_combine(context, s.rows.plan(), hidden_, outputs(s), weights, own, shared_ > 0);
  done(own, y, t);
}

void MoeLayer::restore(const ComputeContext& context, int slot_index, bool inputs) {
  const ActivationSlot& slot = activations_.slot(slot_index);
  Slot& s = slots_[static_cast<std::size_t>(slot_index)];
  const View x = own_of(slot.blocks[static_cast<std::size_t>(index_)].post_norm, slot.batch.tokens());
  if (again_.block) return through_experts(context, s, x, {});
  const ConstView w13 = inputs ? weight_in() : ConstView();
  for (int rank = 0; rank < state_.exchange().ranks(); ++rank) activate(context, s, rank, w13);
  if (shared_ > 0) shared_activate(context, s, x, inputs);
}

void MoeLayer::experts_backward(const ComputeContext& context, Slot& s, View dreceived, View answers) {
  MoeGradients& g = gradients(s);
  ExpertExchange& exchange = state_.exchange();
  const std::int64_t all = s.rows.rows();
  const View all_gate_up = gate_up(s), dgate_up = g.gate_up.take(dtype_, {all, 2 * ffn_});
  const View dactivated = state_.activated.take(dtype_, {all, ffn_});
  const ConstView w13 = weight_in(), w2 = weight_out();
  for (int turn = 0; turn < exchange.ranks(); ++turn) {
    const int rank = exchange.rank_of(turn);
    exchange.wait_for(rank);
    const TraceSpan span(context.trace(), "experts' backward, rows of a rank");
    const RoutedRows::Source from = s.rows.from(rank);
    if (const std::int64_t n = from.rows(); n > 0) {
      const View both = all_gate_up.rows(from.begin, from.end), dboth = dgate_up.rows(from.begin, from.end);
      const View dact = dactivated.rows(from.begin, from.end);
      grouped_linear_backward_input(context, {local_, ffn_, hidden_}, from.offsets,
                                    dreceived.rows(from.begin, from.end), w2, dact);
      swiglu_backward(context, {n, ffn_, 2 * ffn_}, dact, columns_of(both, n, 0, ffn_), columns_of(both, n, ffn_, ffn_),
                      columns_of(dboth, n, 0, ffn_), columns_of(dboth, n, ffn_, ffn_));
      grouped_linear_backward_input(context, {local_, hidden_, 2 * ffn_}, from.offsets, dboth, w13,
                                    answers.rows(from.begin, from.end));
    }
    exchange.give(context, rank);
  }
}

void MoeLayer::shared_backward(const ComputeContext& context, Slot& s, View dy) {
  MoeGradients& g = gradients(s);
  const std::int64_t m = dy.shape()[0];
  const View kept = g.shared.take(dtype_, {m, hidden_}), dboth = g.shared_gate_up.take(dtype_, {m, 2 * shared_});
  const View both = shared_gate_up(s, m);
  const View dactivated = state_.activated.take(dtype_, {m, shared_});
  cast(context, dy, kept);
  linear_backward_input(context, {m, shared_, hidden_}, kept, parameters_.weight(shared_down_, hidden_, shared_),
                        dactivated);
  swiglu_backward(context, {m, shared_, 2 * shared_}, dactivated, columns_of(both, m, 0, shared_),
                  columns_of(both, m, shared_, shared_), columns_of(dboth, m, 0, shared_),
                  columns_of(dboth, m, shared_, shared_));
}

void MoeLayer::shared_backward_input(const ComputeContext& context, Slot& s, View dx) {
  const std::int64_t m = dx.shape()[0];
  linear_backward_input(context, {m, hidden_, 2 * shared_}, gradients(s).shared_gate_up.take(dtype_, {m, 2 * shared_}),
                        parameters_.weight(shared_gate_up_, 2 * shared_, hidden_), dx, true);
}

void MoeLayer::router_backward(const ComputeContext& context, Slot& s, int slot_index) {
  const std::int64_t m = s.logits.size() / experts_;
  const std::span<float> dlogits = gradients(s).logits.take(m * experts_), totals = state_.totals(layer_);
  moe_gate_backward(context, router_shape(m), s.logits.span(), s.ids.span(), state_.dweights.span(), dlogits);
  const auto experts = static_cast<std::size_t>(experts_);
  axpy(context, 1.0F, counts(s), totals.first(experts));
  if (!state_.has_losses()) return;
  const std::span<float> slopes = state_.slopes.take(experts_ + 3);
  moe_router_losses(context, state_.losses(), state_.pools() ? state_.pooled(slot_index) : statistics(s), statistics(s),
                    slopes);
  moe_statistics_backward(context, router_shape(m), s.logits.span(), slopes, state_.weight, dlogits, s.mask.span());
  // A pooled loss is one of all layers.
  const std::size_t first = state_.pools() && index_ != 0 ? 1 : 0;
  axpy(context, state_.weight, slopes.subspan(experts + 1 + first), totals.subspan(experts + first));
}

void MoeLayer::router_backward_input(const ComputeContext& context, Slot& s, View dx) {
  const ConstView dlogits = gradients(s).logits.span();
  const std::int64_t m = dx.shape()[0];
  if (dtype_ == DType::f32)
    return linear_backward_input(context, {m, hidden_, experts_}, dlogits, router_weight(context), dx, true);
  const View wide = state_.x32.take(DType::f32, {m, hidden_});
  const View narrow = state_.dlogits_x.take(dtype_, {m, hidden_});
  linear_backward_input(context, {m, hidden_, experts_}, dlogits, router_weight(context), wide);
  cast(context, wide, narrow);
  add(context, dx, narrow, dx);
}

// The answers' memory takes what comes back: nobody needs them any more.
void MoeLayer::backward_input(const ComputeContext& context, int slot_index, View dy, View dn) {
  Slot& s = slots_[static_cast<std::size_t>(slot_index)];
  ExpertExchange& exchange = state_.exchange();
  const View dout = own_of(dy, activations_.slot(slot_index).batch.tokens()), back = outputs(s);
  dn_ = dn;

  const View dreceived = gradients(s).received.take(dtype_, {s.rows.rows(), hidden_});
  const View rows = travels() ? state_.rows.take(dtype_, {s.rows.plan().rows, hidden_}) : dreceived;
  const View answers = travels() ? state_.answers.take(answer_type(), {s.rows.rows(), hidden_}) : back;
  moe_combine_backward(context, s.rows.plan(), hidden_, dout, back, s.weights.span(), rows,
                       state_.dweights.take(s.weights.size()));
  if (travels()) {
    exchange.start_dispatch(context, s.rows.route(), hidden_, rows, dreceived);
    exchange.start_collect(s.rows.route(), hidden_, answers, back);
  }
  router_backward(context, s, slot_index);
  if (shared_ > 0) shared_backward(context, s, dout);
  experts_backward(context, s, dreceived, answers);
}

void MoeLayer::finish_input(const ComputeContext& context, int slot_index) {
  Slot& s = slots_[static_cast<std::size_t>(slot_index)];
  const std::int64_t t = activations_.slot(slot_index).batch.tokens();
  if (travels()) state_.exchange().finish_collect(context);
  const View dx = own_target(dn_, t);
  moe_permute_backward(context, s.rows.plan(), hidden_, outputs(s), dx);
  router_backward_input(context, s, dx);
  if (shared_ > 0) shared_backward_input(context, s, dx);
  done(dx, dn_, t);
}

void MoeLayer::backward_weight(const ComputeContext& context, int slot_index, const GradientTarget& target) {
  const ActivationSlot& slot = activations_.slot(slot_index);
  Slot& s = slots_[static_cast<std::size_t>(slot_index)];
  MoeGradients& g = gradients(s);
  const std::int64_t t = slot.batch.tokens(), m = own_rows(t), all = s.rows.rows();
  const View x = own_of(slot.blocks[static_cast<std::size_t>(index_)].post_norm, t);
  const View rows_here = received(s), dreceived = g.received.take(dtype_, {all, hidden_});
  const View act = activated(s), dgate_up = g.gate_up.take(dtype_, {all, 2 * ffn_});
  int batch_before = -1;
  for (int rank = 0; target.wants(w13_) && rank < state_.exchange().ranks(); ++rank) {
    const RoutedRows::Source from = s.rows.from(rank);
    // Micro-batches that meet here are kept apart, or added up in their order.
    const int batch = target.locate_batch ? state_.exchange().batch_of(rank) : 0;
    const bool accumulate = !target.overwrite || batch == batch_before;
    batch_before = batch;
    const auto gradient = [&](std::int64_t begin, std::int64_t rows, std::int64_t columns) {
      return target.locate_batch ? View(target.locate_batch(begin, batch), Shape{rows, columns})
                                 : target.matrix(begin, rows, columns);
    };
    grouped_linear_backward_weight(context, {local_, ffn_, hidden_}, from.offsets, dreceived.rows(from.begin, from.end),
                                   act.rows(from.begin, from.end), gradient(w2_, local_ * hidden_, ffn_), accumulate);
    grouped_linear_backward_weight(context, {local_, hidden_, 2 * ffn_}, from.offsets,
                                   dgate_up.rows(from.begin, from.end), rows_here.rows(from.begin, from.end),
                                   gradient(w13_, local_ * 2 * ffn_, hidden_), accumulate);
  }
  target.say_ready(w13_, w2_ + local_ * hidden_ * ffn_);
  const bool accumulate = !target.overwrite;
  linear_backward_weight(context, {m, hidden_, experts_}, ConstView(g.logits.span()), in_f32(context, x, m),
                         target.matrix(gate_, experts_, hidden_), {}, accumulate);
  if (bias_ >= 0 && target.overwrite) target.clear(context, bias_, bias_ + experts_);
  if (shared_ > 0) {
    linear_backward_weight(context, {m, shared_, hidden_}, g.shared.take(dtype_, {m, hidden_}), shared_activated(s, m),
                           target.matrix(shared_down_, hidden_, shared_), {}, accumulate);
    linear_backward_weight(context, {m, hidden_, 2 * shared_}, g.shared_gate_up.take(dtype_, {m, 2 * shared_}), x,
                           target.matrix(shared_gate_up_, 2 * shared_, hidden_), {}, accumulate);
  }
  target.say_ready(gate_, dense_end_);
}

}  // namespace longhaul
