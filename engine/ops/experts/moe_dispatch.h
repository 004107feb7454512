// Room engine/ops/experts
// The contracts of a mixture of experts on one rank: router, balance, sorting of rows, products.
// Read moe_router.h, moe_dispatch.h, moe_grouped_linear.h: the way of a token. moe_balance.h has the losses.
// It knows no other rank: engine/parallel/expert, which lies above, sends the rows.
//
// From tokens to rows sorted by expert, and back. Dropless, or with a capacity per expert (GShard, arXiv 2006.16668,
// section 2.2; Switch Transformer, arXiv 2101.03961, eq. 3). A slot is one of the top_k choices of a token, row(t, s)
// its row, w(t, s) its weight.
//   permute   rows[row(t, s)] = x[t]                          backward: dx[t] = sum over s of drows[row(t, s)]
//   combine   out[t] = sum over s of w(t, s) rows[row(t, s)]  backward: drows[row(t, s)] = w(t, s) dout[t]
//                                                                       dw(t, s) = dout[t] . rows[row(t, s)]
// Sums are f32 in the order of slots: the result depends neither on threads nor on how experts are spread over ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

// Where everything goes. Rows are sorted by expert, then by token; within a padded expert the padding comes last.
struct DispatchPlan {
  std::int64_t tokens = 0, top_k = 0, experts = 0;
  std::vector<std::int64_t> offsets;    // [experts + 1]: rows of expert e are [offsets[e], offsets[e + 1])
  std::vector<std::int32_t> row_slot;   // [rows]: token * top_k + slot, or -1: padding
  std::vector<std::int32_t> row_token;  // [rows]: token, or -1: padding
  std::vector<std::int32_t> slot_row;   // [tokens, top_k]: row, or -1: dropped
  std::int64_t dropped = 0;             // slots without a row
  std::int64_t rows() const { return static_cast<std::int64_t>(row_slot.size()); }
};

// Every slot gets a row. ids [tokens, top_k] in [0, experts), checked. A token may name an expert twice: two rows.
// real [tokens], or empty: all; slots of a token with 0 (padding) get no row and are not counted as dropped.
DispatchPlan moe_dispatch(std::int64_t tokens, std::int64_t top_k, std::int64_t experts,
                          std::span<const std::int32_t> ids, std::span<const std::uint8_t> real = {});

// Which slots an expert with more than `capacity` of them keeps: those with the largest weights (of equal ones the
// first tokens), or those of the first tokens. Weights of those that stay are not normalised again, as in Megatron.
enum class DropPolicy { probability, position };
struct CapacityRule {
  std::int64_t capacity = 0;  // rows per expert, moe_capacity() of the micro-batch's tokens
  DropPolicy policy = DropPolicy::probability;
  bool pad = false;  // give every expert exactly `capacity` rows
};
// ceil((tokens top_k / experts) factor), in f64 in this order as in Megatron; at least `minimum`.
std::int64_t moe_capacity(std::int64_t tokens, std::int64_t top_k, std::int64_t experts, double factor,
                          std::int64_t minimum = 0);

// weights [tokens, top_k]; may be empty with `position`. Capacity is defined over the tokens of a whole micro-batch:
// where they lie on several ranks, gather ids and weights first, and every rank finds the same plan.
DispatchPlan moe_dispatch_capacity(std::int64_t tokens, std::int64_t top_k, std::int64_t experts,
                                   std::span<const std::int32_t> ids, std::span<const float> weights,
                                   const CapacityRule& rule, std::span<const std::uint8_t> real = {});

// A plan as operations take it, borrowed: of the host, or in a device's memory. There the host knows of `rows` only how
// many there are at most; offsets say where they end, and rows behind that are padding.
struct DispatchView {
  DispatchView() = default;
  DispatchView(const DispatchPlan& plan)  // NOLINT: implicit on purpose
      : tokens(plan.tokens),
        top_k(plan.top_k),
        experts(plan.experts),
        rows(plan.rows()),
        offsets(plan.offsets),
        row_slot(plan.row_slot),
        row_token(plan.row_token),
        slot_row(plan.slot_row) {}

  std::int64_t tokens = 0, top_k = 0, experts = 0, rows = 0;
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> row_slot, row_token, slot_row;
};
// Where a plan is to be written: offsets [experts + 1], row_slot and row_token [rows], slot_row [tokens, top_k].
struct DispatchArrays {
  std::int64_t tokens = 0, top_k = 0, experts = 0, rows = 0;
  std::span<std::int64_t> offsets;
  std::span<std::int32_t> row_slot, row_token, slot_row;
  DispatchView view() const {
    DispatchView view;
    view.tokens = tokens, view.top_k = top_k, view.experts = experts, view.rows = rows;
    view.offsets = offsets, view.row_slot = row_slot, view.row_token = row_token, view.slot_row = slot_row;
    return view;
  }
};
// The plans of moe_dispatch and, with a rule, moe_dispatch_capacity, made where the arrays lie: on a device the host
// does not wait. As many rows as dispatch_rows_max() says; those behind the last expert's are padding. Ids are checked
// on processors.
std::int64_t dispatch_rows_max(std::int64_t tokens, std::int64_t top_k, std::int64_t experts, const CapacityRule* rule);
void moe_dispatch_into(const ComputeContext& context, std::span<const std::int32_t> ids, std::span<const float> weights,
                       const CapacityRule* rule, const DispatchArrays& plan);

// Of a plan over the tokens of several ranks the part of tokens [begin, begin + tokens), in the same order.
DispatchPlan moe_dispatch_part(const DispatchPlan& plan, std::int64_t begin, std::int64_t tokens);

// out[r] = x[index[r]], zeros where the index is -1; rows of `width` elements of any type. The indices are checked
// against the rows of x (on processors). Also what sorts rows again after they came from several ranks.
void gather_rows(const ComputeContext& context, std::int64_t width, ConstView x, std::span<const std::int32_t> index,
                 View out);

// x [tokens, hidden] -> rows [plan.rows, hidden], one type.
void moe_permute(const ComputeContext& context, const DispatchView& plan, std::int64_t hidden, ConstView x, View rows);

// dx = gradient, or dx += gradient; one type (f32 or bf16).
void moe_permute_backward(const ComputeContext& context, const DispatchView& plan, std::int64_t hidden, ConstView drows,
                          View dx, bool accumulate = false);

// out [tokens, hidden] from rows [plan.rows, hidden], one type (f32 or bf16), or out += with accumulate (shared
// experts, residual). weights [tokens, top_k] f32. A token whose slots were all dropped gets 0.
void moe_combine(const ComputeContext& context, const DispatchView& plan, std::int64_t hidden, ConstView rows,
                 std::span<const float> weights, View out, bool accumulate = false);

// drows may be `rows` (each row is read before it is written). Padding rows get 0; dweights of dropped slots is 0. Dot
// products are f32, in an order that does not depend on threads.
void moe_combine_backward(const ComputeContext& context, const DispatchView& plan, std::int64_t hidden, ConstView dout,
                          ConstView rows, std::span<const float> weights, View drows, std::span<float> dweights);

}  // namespace longhaul
