#include "engine/ops/experts/moe_dispatch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/text/text.h"
#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

using cpu::Index;
constexpr Index kGrain = 16;  // rows

// The slots of every expert in the order of tokens: slots [first[e], first[e + 1]) of `order`.
struct SlotsByExpert {
  std::vector<std::int64_t> first;
  std::vector<std::int32_t> order;
};

SlotsByExpert sort_slots(Index tokens, Index top_k, Index experts, std::span<const std::int32_t> ids,
                         std::span<const std::uint8_t> real = {}) {
  LH_ASSERT(tokens >= 0 && top_k > 0 && experts > 0, format("tokens={} top_k={} experts={}", tokens, top_k, experts));
  const Index slots = tokens * top_k;
  LH_ASSERT(slots <= std::numeric_limits<std::int32_t>::max(), format("{} slots", slots));
  cpu::check_size(ids.size(), slots, "ids");
  if (!real.empty()) cpu::check_size(real.size(), tokens, "real");
  const auto is_real = [&](Index slot) { return real.empty() || real[static_cast<std::size_t>(slot / top_k)] != 0; };
  SlotsByExpert result{std::vector<std::int64_t>(static_cast<std::size_t>(experts + 1), 0), {}};
  for (Index i = 0; i < slots; ++i) {
    const std::int32_t id = ids[static_cast<std::size_t>(i)];
    LH_ASSERT(id >= 0 && id < experts, format("token {} has expert {} of {}", i / top_k, id, experts));
    if (is_real(i)) ++result.first[static_cast<std::size_t>(id) + 1];
  }
  for (std::size_t e = 0; e < static_cast<std::size_t>(experts); ++e) result.first[e + 1] += result.first[e];
  std::vector<std::int64_t> next = result.first;
  result.order.resize(static_cast<std::size_t>(result.first.back()));
  for (Index i = 0; i < slots; ++i) {
    if (!is_real(i)) continue;
    const auto e = static_cast<std::size_t>(ids[static_cast<std::size_t>(i)]);
    result.order[static_cast<std::size_t>(next[e]++)] = static_cast<std::int32_t>(i);
  }
  return result;
}

DispatchPlan empty_plan(Index tokens, Index top_k, Index experts) {
  DispatchPlan plan;
  plan.tokens = tokens;
  plan.top_k = top_k;
  plan.experts = experts;
  plan.offsets.reserve(static_cast<std::size_t>(experts + 1));
  plan.offsets.push_back(0);
  plan.slot_row.assign(static_cast<std::size_t>(tokens * top_k), -1);
  return plan;
}

void add_row(DispatchPlan& plan, std::int32_t slot) {
  plan.slot_row[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(plan.rows());
  plan.row_slot.push_back(slot);
  plan.row_token.push_back(slot / static_cast<std::int32_t>(plan.top_k));
}

}  // namespace

DispatchPlan moe_dispatch(std::int64_t tokens, std::int64_t top_k, std::int64_t experts,
                          std::span<const std::int32_t> ids, std::span<const std::uint8_t> real) {
  const SlotsByExpert slots = sort_slots(tokens, top_k, experts, ids, real);
  DispatchPlan plan = empty_plan(tokens, top_k, experts);
  plan.row_slot.reserve(slots.order.size());
  plan.row_token.reserve(slots.order.size());
  for (std::int32_t slot : slots.order) add_row(plan, slot);
  plan.offsets = slots.first;
  return plan;
}

std::int64_t moe_capacity(std::int64_t tokens, std::int64_t top_k, std::int64_t experts, double factor,
                          std::int64_t minimum) {
  LH_ASSERT(experts > 0 && factor > 0.0, format("experts={} factor={}", experts, factor));
  const double share = static_cast<double>(tokens * top_k) / static_cast<double>(experts) * factor;
  return std::max(static_cast<std::int64_t>(std::ceil(share)), minimum);
}

DispatchPlan moe_dispatch_capacity(std::int64_t tokens, std::int64_t top_k, std::int64_t experts,
                                   std::span<const std::int32_t> ids, std::span<const float> weights,
                                   const CapacityRule& rule, std::span<const std::uint8_t> real) {
  SlotsByExpert slots = sort_slots(tokens, top_k, experts, ids, real);
  LH_ASSERT(rule.capacity >= 0, std::to_string(rule.capacity));
  if (rule.policy == DropPolicy::probability) cpu::check_size(weights.size(), tokens * top_k, "weights");
  const auto key = [&](std::int32_t slot) {  // NaN first, so that it shows
    const float w = weights[static_cast<std::size_t>(slot)];
    return std::isnan(w) ? std::numeric_limits<float>::infinity() : w;
  };
  DispatchPlan plan = empty_plan(tokens, top_k, experts);
  for (std::size_t e = 0; e < static_cast<std::size_t>(experts); ++e) {
    const auto begin = slots.order.begin() + slots.first[e], end = slots.order.begin() + slots.first[e + 1];
    const Index kept = std::min<Index>(end - begin, rule.capacity);
    if (rule.policy == DropPolicy::probability && kept < end - begin) {
      std::sort(begin, end, [&](std::int32_t a, std::int32_t b) {
        const float wa = key(a), wb = key(b);
        return wa != wb ? wa > wb : a < b;
      });
      std::sort(begin, begin + kept);
    }
    for (auto slot = begin; slot != begin + kept; ++slot) add_row(plan, *slot);
    plan.dropped += (end - begin) - kept;
    if (rule.pad) {
      plan.row_slot.resize(static_cast<std::size_t>((static_cast<Index>(e) + 1) * rule.capacity), -1);
      plan.row_token.resize(plan.row_slot.size(), -1);
    }
    plan.offsets.push_back(plan.rows());
  }
  return plan;
}

DispatchPlan moe_dispatch_part(const DispatchPlan& plan, std::int64_t begin, std::int64_t tokens) {
  LH_ASSERT(begin >= 0 && tokens >= 0 && begin + tokens <= plan.tokens,
            format("tokens {} .. {} of {}", begin, begin + tokens, plan.tokens));
  DispatchPlan part = empty_plan(tokens, plan.top_k, plan.experts);
  const auto first_slot = static_cast<std::int32_t>(begin * plan.top_k);
  for (std::size_t e = 0; e < static_cast<std::size_t>(plan.experts); ++e) {
    for (Index row = plan.offsets[e]; row < plan.offsets[e + 1]; ++row) {
      const Index token = plan.row_token[static_cast<std::size_t>(row)];
      if (token < begin || token >= begin + tokens) continue;
      add_row(part, plan.row_slot[static_cast<std::size_t>(row)] - first_slot);
    }
    part.offsets.push_back(part.rows());
  }
  part.dropped = tokens * plan.top_k - part.rows();
  return part;
}

std::int64_t dispatch_rows_max(std::int64_t tokens, std::int64_t top_k, std::int64_t experts,
                               const CapacityRule* rule) {
  if (rule == nullptr) return tokens * top_k;
  return rule->pad ? experts * rule->capacity : std::min(tokens * top_k, experts * rule->capacity);
}

void moe_dispatch_into(const ComputeContext& context, std::span<const std::int32_t> ids, std::span<const float> weights,
                       const CapacityRule* rule, const DispatchArrays& to) {
  const std::int64_t slots = to.tokens * to.top_k;
  LH_ASSERT(slots <= std::numeric_limits<std::int32_t>::max(), format("{} slots", slots));
  LH_ASSERT(to.rows == dispatch_rows_max(to.tokens, to.top_k, to.experts, rule), format("{} rows", to.rows));
  cpu::check_size(ids.size(), slots, "ids");
  if (rule && rule->policy == DropPolicy::probability) cpu::check_size(weights.size(), slots, "weights");
  cpu::check_size(to.offsets.size(), to.experts + 1, "offsets"), cpu::check_size(to.slot_row.size(), slots, "slot_row");
  cpu::check_size(to.row_slot.size(), to.rows, "row_slot"), cpu::check_size(to.row_token.size(), to.rows, "row_token");
  if (const DeviceOps* device = context.device_ops()) return device->moe_dispatch(ids, weights, rule, to);
  const DispatchPlan plan = rule ? moe_dispatch_capacity(to.tokens, to.top_k, to.experts, ids, weights, *rule)
                                 : moe_dispatch(to.tokens, to.top_k, to.experts, ids);
  const auto write = [](const auto& from, auto span, auto rest) {
    std::fill(std::copy(from.begin(), from.end(), span.begin()), span.end(), rest);
  };
  write(plan.offsets, to.offsets, plan.rows());
  write(plan.row_slot, to.row_slot, -1), write(plan.row_token, to.row_token, -1);
  write(plan.slot_row, to.slot_row, -1);
}

void gather_rows(const ComputeContext& context, std::int64_t width, ConstView x, std::span<const std::int32_t> index,
                 View out) {
  const auto rows = static_cast<Index>(index.size());
  LH_ASSERT(width > 0 && x.dtype() == out.dtype() && out.size() >= rows * width,
            format("width={} x {} {} out {} {} for {} rows", width, dtype_name(x.dtype()), x.shape().text(),
                   dtype_name(out.dtype()), out.shape().text(), rows));
  if (const DeviceOps* device = context.device_ops()) return device->gather_rows(width, x, index, out);
  const Index rows_of_x = x.size() / width, bytes = width * dtype_bytes(x.dtype());
  const auto* from = static_cast<const std::byte*>(x.data());
  auto* to = static_cast<std::byte*>(out.data());
  parallel_for(context, rows, kGrain, [&](Index begin, Index end) {
    for (Index r = begin; r < end; ++r) {
      const Index source = index[static_cast<std::size_t>(r)];
      LH_ASSERT(source >= -1 && source < rows_of_x, format("row {} of {} rows", source, rows_of_x));
      if (source < 0) {
        std::memset(to + r * bytes, 0, static_cast<std::size_t>(bytes));
      } else {
        std::memcpy(to + r * bytes, from + source * bytes, static_cast<std::size_t>(bytes));
      }
    }
  });
}

void moe_permute(const ComputeContext& context, const DispatchView& plan, std::int64_t hidden, ConstView x, View rows) {
  LH_ASSERT(x.size() >= plan.tokens * hidden, x.shape().text());
  gather_rows(context, hidden, x, plan.row_token, rows);
}

namespace {

// out[t] (+)= sum over slots of weight * rows[row of slot]; without weights they are 1.
void sum_slots(const ComputeContext& context, const DispatchView& plan, Index hidden, ConstView rows,
               const float* weights, View out, bool accumulate) {
  cpu::with_float_type(out.dtype(), "moe combine", [&](auto type) {
    using T = decltype(type);
    const T* from = cpu::elements<T>(rows, plan.rows * hidden, "rows");
    T* to = cpu::elements<T>(out, plan.tokens * hidden, "out");
    const cpu::Kernels& kernels = cpu::kernels(context);
    parallel_for(context, plan.tokens, kGrain, [&](Index begin, Index end) {
      std::vector<float> sum(static_cast<std::size_t>(hidden)), wide(sum.size());
      for (Index t = begin; t < end; ++t) {
        if (accumulate) {
          kernels.of<T>().to_f32(to + t * hidden, sum.data(), hidden);
        } else {
          std::fill(sum.begin(), sum.end(), 0.0F);
        }
        for (Index slot = t * plan.top_k; slot < (t + 1) * plan.top_k; ++slot) {
          const Index row = plan.slot_row[static_cast<std::size_t>(slot)];
          if (row < 0) continue;
          const float weight = weights == nullptr ? 1.0F : weights[slot];
          if constexpr (std::is_same_v<T, float>) {
            kernels.axpy(weight, from + row * hidden, sum.data(), hidden);
          } else {
            kernels.of<T>().to_f32(from + row * hidden, wide.data(), hidden);
            kernels.axpy(weight, wide.data(), sum.data(), hidden);
          }
        }
        kernels.of<T>().from_f32(sum.data(), to + t * hidden, hidden);
      }
    });
  });
}

// Sixteen sums side by side, added up at the end: an order that the compiler may vectorize.
float dot(const float* a, const float* b, Index n) {
  constexpr Index lanes = 16;
  float sums[lanes] = {};
  Index i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (Index l = 0; l < lanes; ++l) sums[l] += a[i + l] * b[i + l];
  }
  for (Index l = 0; i < n; ++i, ++l) sums[l] += a[i] * b[i];
  for (Index half = lanes / 2; half > 0; half /= 2) {
    for (Index l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sums[0];
}

}  // namespace

void moe_permute_backward(const ComputeContext& context, const DispatchView& plan, std::int64_t hidden, ConstView drows,
                          View dx, bool accumulate) {
  if (const DeviceOps* device = context.device_ops())
    return device->moe_combine(plan, hidden, drows, {}, dx, accumulate);
  sum_slots(context, plan, hidden, drows, nullptr, dx, accumulate);
}

void moe_combine(const ComputeContext& context, const DispatchView& plan, std::int64_t hidden, ConstView rows,
                 std::span<const float> weights, View out, bool accumulate) {
  cpu::check_size(weights.size(), plan.tokens * plan.top_k, "weights");
  if (const DeviceOps* device = context.device_ops())
    return device->moe_combine(plan, hidden, rows, weights, out, accumulate);
  sum_slots(context, plan, hidden, rows, weights.data(), out, accumulate);
}

void moe_combine_backward(const ComputeContext& context, const DispatchView& plan, std::int64_t hidden, ConstView dout,
                          ConstView rows, std::span<const float> weights, View drows, std::span<float> dweights) {
  cpu::check_size(weights.size(), plan.tokens * plan.top_k, "weights");
  cpu::check_size(dweights.size(), plan.tokens * plan.top_k, "dweights");
  if (const DeviceOps* device = context.device_ops())
    return device->moe_combine_backward(plan, hidden, dout, rows, weights, drows, dweights);
  cpu::with_float_type(dout.dtype(), "moe combine", [&](auto type) {
    using T = decltype(type);
    const T* pd = cpu::elements<T>(dout, plan.tokens * hidden, "dout");
    const T* from = cpu::elements<T>(rows, plan.rows * hidden, "rows");
    T* to = cpu::elements<T>(drows, plan.rows * hidden, "drows");
    const cpu::Kernels& kernels = cpu::kernels(context);
    parallel_for(context, plan.rows, kGrain, [&](Index begin, Index end) {
      std::vector<float> gradient(static_cast<std::size_t>(hidden)), wide(gradient.size());
      for (Index r = begin; r < end; ++r) {
        const Index slot = plan.row_slot[static_cast<std::size_t>(r)];
        if (slot < 0) {
          std::fill_n(to + r * hidden, hidden, T(0.0F));
          continue;
        }
        kernels.of<T>().to_f32(pd + slot / plan.top_k * hidden, gradient.data(), hidden);
        kernels.of<T>().to_f32(from + r * hidden, wide.data(), hidden);
        dweights[static_cast<std::size_t>(slot)] = dot(gradient.data(), wide.data(), hidden);
        kernels.scale(weights[static_cast<std::size_t>(slot)], gradient.data(), hidden);
        kernels.of<T>().from_f32(gradient.data(), to + r * hidden, hidden);
      }
    });
  });
  for (std::size_t slot = 0; slot < plan.slot_row.size(); ++slot) {
    if (plan.slot_row[slot] < 0) dweights[slot] = 0.0F;
  }
}

}  // namespace longhaul
