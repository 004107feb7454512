#include "engine/ops/experts/moe_dispatch.h"

#include <algorithm>
#include <cmath>

#include "tests/unit/engine/ops/moe_check.h"

using namespace longhaul;
using namespace longhaul::op_check;
using namespace longhaul::moe_check;

namespace {

// Slots of a plan by its definition: sorted by expert, then by token; slot_row is the inverse.
void check_plan(const DispatchPlan& plan, const reference::Ids& ids, const reference::Ids& kept) {
  REQUIRE(plan.offsets.size() == static_cast<std::size_t>(plan.experts + 1));
  CHECK(plan.offsets.back() == plan.rows());
  std::int64_t dropped = 0;
  for (std::size_t slot = 0; slot < ids.size(); ++slot) {
    const std::int32_t row = plan.slot_row[slot];
    CHECK((row >= 0) == (kept[slot] == 1));
    if (row < 0) {
      ++dropped;
      continue;
    }
    CHECK(plan.row_slot[static_cast<std::size_t>(row)] == static_cast<std::int32_t>(slot));
    CHECK(row >= plan.offsets[static_cast<std::size_t>(ids[slot])]);
    CHECK(row < plan.offsets[static_cast<std::size_t>(ids[slot]) + 1]);
  }
  CHECK(plan.dropped == dropped);
  for (std::size_t e = 0; e < static_cast<std::size_t>(plan.experts); ++e) {
    for (std::int64_t row = plan.offsets[e]; row < plan.offsets[e + 1]; ++row) {
      const auto r = static_cast<std::size_t>(row);
      const std::int32_t slot = plan.row_slot[r];
      CHECK(plan.row_token[r] == (slot < 0 ? -1 : slot / plan.top_k));
      if (row > plan.offsets[e] && slot >= 0) CHECK(plan.row_slot[r - 1] < slot);  // stable, padding last
      if (row > plan.offsets[e] && plan.row_slot[r - 1] < 0) CHECK(slot < 0);
    }
  }
}

struct DispatchCase {
  Index tokens, top_k, experts, hidden;
  reference::Ids ids;
  Floats weights;
  DispatchPlan plan;
};
DispatchCase dispatch_case(std::uint64_t seed) {
  PhiloxSequence draw(seed);
  DispatchCase c;
  c.tokens = static_cast<Index>(draw.next_below(60));
  c.top_k = 1 + static_cast<Index>(draw.next_below(4));
  c.experts = c.top_k + static_cast<Index>(draw.next_below(9));
  c.hidden = 1 + static_cast<Index>(draw.next_below(70));
  c.ids = random_ids(c.tokens * c.top_k, c.experts, seed + 1);
  c.weights = random_floats(c.tokens * c.top_k, seed + 2);
  for (float& w : c.weights.f32) w = std::round(w * 8.0F) / 8.0F;  // with ties
  c.weights.exact = exact(c.weights.f32);
  CapacityRule rule;
  rule.capacity = static_cast<Index>(draw.next_below(12));
  rule.policy = draw.next_below(2) == 0 ? DropPolicy::probability : DropPolicy::position;
  rule.pad = draw.next_below(2) == 0;
  c.plan = draw.next_below(2) == 0 ? moe_dispatch(c.tokens, c.top_k, c.experts, c.ids)
                                   : moe_dispatch_capacity(c.tokens, c.top_k, c.experts, c.ids, c.weights.f32, rule);
  return c;
}

}  // namespace

TEST_CASE("a dropless plan sorts slots by expert and token and loses none") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    const DispatchCase c = dispatch_case(seed);
    const DispatchPlan plan = moe_dispatch(c.tokens, c.top_k, c.experts, c.ids);
    check_plan(plan, c.ids, reference::Ids(c.ids.size(), 1));
    CHECK(plan.rows() == c.tokens * c.top_k);
  }
  const DispatchPlan plan = moe_dispatch(3, 2, 4, reference::Ids{3, 0, 0, 3, 1, 3});
  CHECK(plan.offsets == std::vector<std::int64_t>{0, 2, 3, 3, 6});
  CHECK(plan.row_token == std::vector<std::int32_t>{0, 1, 2, 0, 1, 2});
  CHECK(plan.slot_row == std::vector<std::int32_t>{3, 0, 1, 4, 2, 5});
}

TEST_CASE("capacity: who stays by probability or by position, with and without padding") {
  for (std::uint64_t seed = 100; seed < 140; ++seed) {
    CAPTURE(seed);
    const DispatchCase c = dispatch_case(seed);
    for (Index capacity : {0, 1, 3, 8, 1000}) {
      for (DropPolicy policy : {DropPolicy::probability, DropPolicy::position}) {
        const reference::Ids kept = reference::moe_kept(c.experts, c.top_k, c.ids, c.weights.exact, capacity,
                                                        policy == DropPolicy::probability);
        check_plan(moe_dispatch_capacity(c.tokens, c.top_k, c.experts, c.ids, c.weights.f32,
                                         {.capacity = capacity, .policy = policy}),
                   c.ids, kept);
        const DispatchPlan padded = moe_dispatch_capacity(c.tokens, c.top_k, c.experts, c.ids, c.weights.f32,
                                                          {.capacity = capacity, .policy = policy, .pad = true});
        check_plan(padded, c.ids, kept);
        for (std::size_t e = 0; e <= static_cast<std::size_t>(c.experts); ++e) {
          CHECK(padded.offsets[e] == static_cast<std::int64_t>(e) * capacity);
        }
      }
    }
  }
  CHECK(moe_capacity(100, 2, 8, 1.0) == 25);
  CHECK(moe_capacity(100, 2, 8, 1.25) == 32);
  CHECK(moe_capacity(3, 1, 8, 1.0, 4) == 4);
  const DispatchPlan worst =
      moe_dispatch_capacity(3, 1, 2, reference::Ids{1, 1, 1}, std::vector<float>{0.2F, 0.9F, 0.5F}, {.capacity = 2});
  CHECK(worst.row_token == std::vector<std::int32_t>{1, 2});
  CHECK(worst.dropped == 1);
}

TEST_CASE("a plan made where the arrays lie is the host's, with room for all rows that there may be") {
  for (const Backend& on : kBackends) {
    const OpContext context(1, on);
    for (std::uint64_t seed = 150; seed < (on.gpu ? 162 : 170); ++seed) {
      CAPTURE(seed);
      CAPTURE(on.gpu);
      DispatchCase c = dispatch_case(seed);
      if (seed % 4 == 0) {  // several blocks of slots
        c.tokens = 301, c.ids = random_ids(c.tokens * c.top_k, c.experts, seed);
        c.weights = random_floats(c.tokens * c.top_k, seed);
      }
      if (seed % 3 == 0 && !c.weights.f32.empty()) c.weights.f32.front() = std::nanf("");
      for (const DropPolicy policy : {DropPolicy::probability, DropPolicy::position})
        for (const Index capacity : {-1, 0, 2, 7, 1000})
          for (const bool pad : {false, true}) {
            CAPTURE(capacity);
            CAPTURE(pad);
            const CapacityRule rule{.capacity = capacity, .policy = policy, .pad = pad};
            const CapacityRule* const with = capacity < 0 ? nullptr : &rule;
            const DispatchPlan want =
                with ? moe_dispatch_capacity(c.tokens, c.top_k, c.experts, c.ids, c.weights.f32, rule)
                     : moe_dispatch(c.tokens, c.top_k, c.experts, c.ids);
            DispatchArrays to;
            to.tokens = c.tokens, to.top_k = c.top_k, to.experts = c.experts;
            to.rows = dispatch_rows_max(c.tokens, c.top_k, c.experts, with);
            REQUIRE(to.rows >= want.rows());
            const auto rows = static_cast<std::size_t>(to.rows);
            std::vector<std::int64_t> offsets(static_cast<std::size_t>(c.experts + 1), 77);
            std::vector<std::int32_t> row_slot(rows, 77), row_token(rows, 77), slot_row(c.ids.size(), 77);
            to.offsets = offsets, to.row_slot = row_slot, to.row_token = row_token, to.slot_row = slot_row;
            moe_dispatch_into(context, c.ids, c.weights.f32, with, to);
            CHECK(offsets == want.offsets);
            CHECK(slot_row == want.slot_row);
            std::vector<std::int32_t> want_slots = want.row_slot, want_tokens = want.row_token;
            want_slots.resize(rows, -1), want_tokens.resize(rows, -1);
            CHECK(row_slot == want_slots);
            CHECK(row_token == want_tokens);
          }
    }
  }
}

TEST_CASE("permute and combine, forward and backward, follow the definition") {
  for (std::uint64_t seed = 200; seed < 230; ++seed) {
    for (DType dtype : kTypes) {
      for (const Backend& on : kBackends) {
        if (on.gpu && seed >= 210) continue;
        const OpContext context(seed % 9 == 0 ? 2 : 1, on);
        DispatchCase c = dispatch_case(seed);
        if (seed % 2 == 0) c.hidden = (c.hidden + 7) / 8 * 8;  // rows at multiples of 16 bytes
        INFO(case_text(format("dispatch tokens={} top_k={} experts={} hidden={} rows={}", c.tokens, c.top_k, c.experts,
                              c.hidden, c.plan.rows()),
                       dtype, on, seed));
        const Index h = c.hidden, rows = c.plan.rows();
        const Values x = random_values(dtype, c.tokens * h, seed), dout = random_values(dtype, c.tokens * h, seed + 1);
        const Values y = random_values(dtype, rows * h, seed + 2), start = random_values(dtype, c.tokens * h, seed + 3);
        Values out = random_values(dtype, c.tokens * h, seed + 3), dx = random_values(dtype, c.tokens * h, seed + 3);
        Values dy = random_values(dtype, rows * h, seed + 2);
        Tensor permuted(dtype, {rows, h}), fresh(dtype, {c.tokens, h});
        Vector want_permuted(static_cast<std::size_t>(rows * h), 0.0), want_dy(want_permuted),
            want_out = start.exact, want_dx = start.exact, want_fresh(start.exact.size(), 0.0),
            want_dw(c.ids.size(), 0.0);
        for (Index t = 0; t < c.tokens; ++t) {
          for (Index j = 0; j < c.top_k; ++j) {
            const auto slot = static_cast<std::size_t>(t * c.top_k + j);
            const Index row = c.plan.slot_row[slot];
            for (Index i = 0; i < h && row >= 0; ++i) {
              const auto at_row = static_cast<std::size_t>(row * h + i), at_token = static_cast<std::size_t>(t * h + i);
              want_permuted[at_row] = x.exact[at_token];
              want_out[at_token] += c.weights.exact[slot] * y.exact[at_row];
              want_fresh[at_token] += c.weights.exact[slot] * y.exact[at_row];
              want_dx[at_token] += y.exact[at_row];
              want_dy[at_row] = c.weights.exact[slot] * dout.exact[at_token];
              want_dw[slot] += dout.exact[at_token] * y.exact[at_row];
            }
          }
        }
        moe_permute(context, c.plan, h, x, permuted);
        CHECK(exact_of(permuted) == want_permuted);
        moe_combine(context, c.plan, h, y, c.weights.f32, out, true);
        check_close("combine accumulated", out.tensor, want_out, tolerance(dtype));
        moe_combine(context, c.plan, h, y, c.weights.f32, fresh);
        check_close("combine", fresh, want_fresh, tolerance(dtype));
        moe_permute_backward(context, c.plan, h, y, dx, true);
        check_close("dx", dx.tensor, want_dx, tolerance(dtype));
        std::vector<float> dw(c.ids.size(), 7.0F);
        moe_combine_backward(context, c.plan, h, dout, dy, c.weights.f32, dy, dw);  // in place
        check_close("drows", dy.tensor, want_dy, tolerance(dtype));
        check_close("dweights", ConstView(dw), want_dw, tolerance(DType::f32));
      }
    }
  }
}

TEST_CASE("gathering with the inverse order gives the rows back; combine has the same bits for every thread count") {
  const ComputeContext one(1), three(3);
  const DispatchPlan plan = moe_dispatch(300, 2, 7, random_ids(600, 7, 5));
  const Values x = random_values(DType::bf16, 600 * 33, 6);
  Tensor there(DType::bf16, {600, 33}), back(DType::bf16, {600, 33});
  gather_rows(three, 33, x, plan.row_slot, there);
  gather_rows(three, 33, there, plan.slot_row, back);
  CHECK(exact_of(back) == x.exact);
  const Floats w = random_floats(600, 8);
  Tensor a(DType::bf16, {300, 33}), b(DType::bf16, {300, 33});
  moe_combine(one, plan, 33, x, w.f32, a);
  moe_combine(three, plan, 33, x, w.f32, b);
  CHECK(exact_of(a) == exact_of(b));
}
