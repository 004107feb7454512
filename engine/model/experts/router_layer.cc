#include "engine/model/experts/router_layer.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/text/text.h"
#include "engine/core/tensor/transfer.h"
#include "engine/model/experts/router_of.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {
namespace {

template <class T>
std::vector<T> on_host(const ComputeContext& context, std::span<const T> values) {
  std::vector<T> copy(values.size());
  copy_out(context, ConstView(values), View(std::span(copy)));
  return copy;
}

std::span<const std::uint8_t> place_mask(const ComputeContext& context, PlacedArray<std::uint8_t>& mask,
                                         std::span<const std::uint8_t> real) {
  const std::span<std::uint8_t> placed = mask.take(static_cast<std::int64_t>(real.size()));
  if (!real.empty()) copy_in(context, ConstView(real), View(placed));
  return placed;
}

// Of rows of `width` those that are padding.
void fill_padding(const ComputeContext& context, std::span<float> rows, std::int64_t width,
                  std::span<const std::uint8_t> real, float value) {
  for (auto first = std::ranges::find(real, 0); first != real.end();) {
    const auto end = std::find(first, real.end(), 1);
    fill(context,
         rows.subspan(static_cast<std::size_t>((first - real.begin()) * width),
                      static_cast<std::size_t>((end - first) * width)),
         value);
    first = std::find(end, real.end(), 0);
  }
}

}  // namespace

RouterLayer::RouterLayer(const ParameterStore& parameters, MoeState& state, int layer, int index)
    : parameters_(parameters), state_(state), layer_(layer), index_(index), dtype_(parameters.compute_dtype()) {
  const ModelShape& s = parameters.shape();
  hidden_ = s.hidden_size, experts_ = s.num_local_experts, top_k_ = s.num_experts_per_tok;
  const auto find = [&](const char* name) {
    const FlatParameter& found =
        parameters.layout().find(format("model.layers.{}.block_sparse_moe.gate.{}", layer, name));
    end_ = found.end;
    return found.begin;
  };
  gate_ = find("weight");
  if (s.router_bias) bias_ = find("e_score_correction_bias");
}

void RouterLayer::forward(const ComputeContext& context, Routing& s, int slot, View x,
                          std::span<const std::uint8_t> real) {
  const std::int64_t m = x.shape()[0];
  const std::span<float> logits = s.logits.take(m * experts_), weights = s.weights.take(m * top_k_);
  linear_forward(context, {m, hidden_, experts_}, in_f32(context, x, m), weight(context), logits);
  select(context, s, m, real);
  moe_gate_forward(context, shape(m), logits, s.ids.span(), weights);
  count(context, s, m, real);
  if (index_ == 0) fill(context, state_.pooled(slot), 0.0F);
  if (state_.pools()) axpy(context, 1.0F, statistics(s), state_.pooled(slot));
  plan(context, s, m, real);
}

RouterShape RouterLayer::shape(std::int64_t tokens) const {
  return router_of(parameters_.shape(), tokens);
}

ConstView RouterLayer::weight(const ComputeContext& context) {
  const ConstView weight = parameters_.weight(gate_, experts_, hidden_);
  if (dtype_ == DType::f32) return weight;
  const View wide = state_.scratch.router.take(DType::f32, {experts_, hidden_});
  cast(context, weight, wide);
  return wide;
}

std::span<const float> RouterLayer::bias(const ComputeContext& context) {
  if (bias_ < 0) return {};
  const View wide = state_.scratch.bias.take(DType::f32, {experts_});
  cast(context, parameters_.vector(bias_, experts_), wide);
  return wide.span<float>();
}

ConstView RouterLayer::in_f32(const ComputeContext& context, View rows, std::int64_t tokens) {
  if (rows.dtype() == DType::f32) return rows;
  const View wide = state_.scratch.x32.take(DType::f32, {tokens, hidden_});
  cast(context, rows, wide);
  return wide;
}

// Sinkhorn sees all tokens of the micro-batch but its padding, and every rank finds the same. What is padding stands in
// the logits themselves, so that ranks with and without any do the same; afterwards they are of no account and finite.
void RouterLayer::select(const ComputeContext& context, Routing& s, std::int64_t tokens,
                         std::span<const std::uint8_t> real) {
  const std::span<std::int32_t> chosen = s.ids.take(tokens * top_k_);
  ExpertExchange& ranks = state_.exchange();
  LH_ASSERT(!state_.watch || context.device() == nullptr, "who watches a selection looks at memory of the host");
  if (state_.watch) state_.watch(s.logits.span(), bias(context));
  if (state_.settings().balance != "sinkhorn" || state_.evaluates)
    return moe_select(context, shape(tokens), s.logits.span(), bias(context), chosen);
  fill_padding(context, s.logits.span(), experts_, real, -std::numeric_limits<float>::infinity());
  if (ranks.micro_batch_ranks() == 1)
    moe_select_sinkhorn(context, shape(tokens), s.logits.span(), {}, chosen);
  else
    select_together(context, s, tokens, chosen);
  fill_padding(context, s.logits.span(), experts_, real, 0.0F);
}

void RouterLayer::select_together(const ComputeContext& context, Routing& s, std::int64_t tokens,
                                  std::span<std::int32_t> chosen) {
  ExpertExchange& ranks = state_.exchange();
  const std::int64_t all = tokens * ranks.micro_batch_ranks(), own = tokens * top_k_;
  const std::span<float> logits = state_.scratch.all_logits.take(all * experts_);
  const std::span<std::int32_t> ids = state_.scratch.all_ids.take(all * top_k_);
  ranks.gather_over_micro_batch(s.logits.span(), logits);
  moe_select_sinkhorn(context, shape(all), logits, {}, ids);
  const auto first = static_cast<std::size_t>(ranks.micro_batch_rank() * own);
  copy_within(context, ConstView(ids.subspan(first, static_cast<std::size_t>(own))), View(chosen));
}

// Padding is routed like any token, but counts for nothing and reaches no expert.
void RouterLayer::count(const ComputeContext& context, Routing& s, std::int64_t tokens,
                        std::span<const std::uint8_t> real) {
  // The loss looks at the scores alone where the selection does not.
  const bool other_selection = bias_ >= 0 || parameters_.shape().n_group > 1;
  const std::span<float> both = s.tally.take(3 * experts_ + 2);
  const std::span<const std::uint8_t> mask = place_mask(context, s.mask, real);
  moe_router_statistics(context, shape(tokens), s.logits.span(),
                        other_selection ? std::span<const std::int32_t>() : s.ids.span(), statistics(s), mask);
  if (mask.empty()) {
    moe_count(context, s.ids.span(), counts(s));
  } else {
    const std::span<float> selected = state_.scratch.selected.take(2 * experts_ + 2);
    moe_router_statistics(context, shape(tokens), s.logits.span(), s.ids.span(), selected, mask);
    copy_within(context, ConstView(selected.first(static_cast<std::size_t>(experts_))), View(counts(s)));
  }
  if (state_.exchange().micro_batch_ranks() > 1) state_.exchange().sum_over_micro_batch(both);
}

// Capacity is one of the micro-batch: all its ranks find the same plan of all tokens, and take their part of it.
// Padding takes no room of it.
void RouterLayer::plan(const ComputeContext& context, Routing& s, std::int64_t tokens,
                       std::span<const std::uint8_t> real) {
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

void RouterLayer::backward(const ComputeContext& context, Routing& s, int slot_index, std::span<float> dlogits) {
  const std::int64_t m = s.logits.size() / experts_;
  const std::span<float> totals = state_.totals(layer_);
  moe_gate_backward(context, shape(m), s.logits.span(), s.ids.span(), state_.scratch.dweights.span(), dlogits);
  const auto experts = static_cast<std::size_t>(experts_);
  axpy(context, 1.0F, counts(s), totals.first(experts));
  if (!state_.has_losses()) return;
  const std::span<float> slopes = state_.scratch.slopes.take(experts_ + 3);
  moe_router_losses(context, state_.losses(), state_.pools() ? state_.pooled(slot_index) : statistics(s), statistics(s),
                    slopes);
  moe_statistics_backward(context, shape(m), s.logits.span(), slopes, state_.weight, dlogits, s.mask.span());
  // A pooled loss is one of all layers.
  const std::size_t first = state_.pools() && index_ != 0 ? 1 : 0;
  axpy(context, state_.weight, slopes.subspan(experts + 1 + first), totals.subspan(experts + first));
}

void RouterLayer::backward_input(const ComputeContext& context, std::span<const float> dlogits, View dx) {
  const std::int64_t m = dx.shape()[0];
  if (dtype_ == DType::f32)
    return linear_backward_input(context, {m, hidden_, experts_}, ConstView(dlogits), weight(context), dx, true);
  const View wide = state_.scratch.x32.take(DType::f32, {m, hidden_});
  const View narrow = state_.scratch.dlogits_x.take(dtype_, {m, hidden_});
  linear_backward_input(context, {m, hidden_, experts_}, ConstView(dlogits), weight(context), wide);
  cast(context, wide, narrow);
  add(context, dx, narrow, dx);
}

void RouterLayer::backward_weight(const ComputeContext& context, std::span<const float> dlogits, View x,
                                  const GradientTarget& target) {
  const std::int64_t m = x.shape()[0];
  linear_backward_weight(context, {m, hidden_, experts_}, ConstView(dlogits), in_f32(context, x, m),
                         target.matrix(gate_, experts_, hidden_), {}, !target.overwrite);
  if (bias_ >= 0 && target.overwrite) target.clear(context, bias_, bias_ + experts_);
}

}  // namespace longhaul
