#include "engine/ops/experts/moe_router.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/text/text.h"
#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/experts/moe_rows.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

using cpu::Index;
constexpr Index kGrain = 64;  // tokens

std::string text_of(const RouterShape& s) {
  return format("router tokens={} experts={} top_k={} groups={} groups_kept={} group_best={}", s.tokens, s.experts,
                s.top_k, s.groups, s.groups_kept, s.group_best);
}

void check(const RouterShape& s, std::span<const float> logits) {
  LH_ASSERT(s.tokens >= 0 && s.experts > 0 && s.top_k > 0 && s.top_k <= s.experts, text_of(s));
  cpu::check_size(logits.size(), s.tokens * s.experts, "logits");
}

void check_ids(const RouterShape& s, std::span<const std::int32_t> ids) {
  for (Index i = 0; i < s.tokens * s.top_k; ++i) {
    const std::int32_t id = ids[static_cast<std::size_t>(i)];
    LH_ASSERT(id >= 0 && id < s.experts, format("{}: slot {} has expert {}", text_of(s), i, id));
  }
}

void check_groups(const RouterShape& s) {
  LH_ASSERT(s.groups > 0 && s.experts % s.groups == 0, text_of(s));
  if (s.groups == 1) return;
  LH_ASSERT(s.groups_kept > 0 && s.groups_kept <= s.groups && s.group_best > 0, text_of(s));
  LH_ASSERT(s.groups_kept * (s.experts / s.groups) >= s.top_k, text_of(s) + ": the kept groups hold too few experts");
}

// The value that selects, without the bias.
void selection_row(const cpu::Kernels& kernels, const RouterShape& s, const float* z, float* value) {
  switch (s.score) {
    case RouterScore::softmax_selected: std::copy_n(z, s.experts, value); break;
    case RouterScore::softmax_all: cpu::softmax_row(kernels, z, s.experts, value); break;
    case RouterScore::sigmoid: cpu::sigmoid_row(kernels, z, s.experts, value); break;
  }
}

// Memory for the selection of one token.
struct GroupScratch {
  explicit GroupScratch(const RouterShape& s)
      : best(static_cast<std::size_t>(s.experts)),
        sums(static_cast<std::size_t>(s.groups)),
        kept(static_cast<std::size_t>(s.groups_kept)),
        values(static_cast<std::size_t>(s.experts)) {}
  std::vector<std::int32_t> best;
  std::vector<float> sums;
  std::vector<std::int32_t> kept;
  std::vector<float> values;
};

// The experts of the kept groups are put side by side, in order, so that ties still go to the lower index.
void select_in_groups(const RouterShape& s, const float* value, GroupScratch& scratch, std::int32_t* ids) {
  const Index size = s.experts / s.groups, best = std::min(s.group_best, size);
  for (Index g = 0; g < s.groups; ++g) {
    cpu::top_k_indices(value + g * size, size, best, scratch.best.data());
    float sum = 0.0F;
    for (Index i = 0; i < best; ++i) sum += value[g * size + scratch.best[static_cast<std::size_t>(i)]];
    scratch.sums[static_cast<std::size_t>(g)] = sum;
  }
  cpu::top_k_indices(scratch.sums.data(), s.groups, s.groups_kept, scratch.kept.data());
  std::sort(scratch.kept.begin(), scratch.kept.end());
  for (Index i = 0; i < s.groups_kept; ++i) {
    std::copy_n(value + scratch.kept[static_cast<std::size_t>(i)] * size, size, scratch.values.data() + i * size);
  }
  cpu::top_k_indices(scratch.values.data(), s.groups_kept * size, s.top_k, ids);
  for (Index i = 0; i < s.top_k; ++i) {
    const Index group = scratch.kept[static_cast<std::size_t>(ids[i] / size)];
    ids[i] = static_cast<std::int32_t>(group * size + ids[i] % size);
  }
}

}  // namespace

void moe_select(const ComputeContext& context, const RouterShape& shape, std::span<const float> logits,
                std::span<const float> bias, std::span<std::int32_t> ids) {
  check(shape, logits);
  check_groups(shape);
  cpu::check_size(ids.size(), shape.tokens * shape.top_k, "ids");
  if (!bias.empty()) cpu::check_size(bias.size(), shape.experts, "bias");
  if (const DeviceOps* device = context.device_ops()) return device->moe_select(shape, logits, bias, ids);
  const cpu::Kernels& kernels = cpu::kernels(context);
  parallel_for(context, shape.tokens, kGrain, [&](Index begin, Index end) {
    std::vector<float> value(static_cast<std::size_t>(shape.experts));
    GroupScratch scratch(shape);
    for (Index t = begin; t < end; ++t) {
      selection_row(kernels, shape, logits.data() + t * shape.experts, value.data());
      for (std::size_t e = 0; e < bias.size() && e < value.size(); ++e) value[e] += bias[e];
      std::int32_t* row = ids.data() + t * shape.top_k;
      if (shape.groups == 1) {
        cpu::top_k_indices(value.data(), shape.experts, shape.top_k, row);
      } else {
        select_in_groups(shape, value.data(), scratch, row);
      }
    }
  });
}

void moe_select_sinkhorn(const ComputeContext& context, const RouterShape& shape, std::span<const float> logits,
                         const SinkhornOptions& options, std::span<std::int32_t> ids, SinkhornReport* report_to) {
  check(shape, logits);
  cpu::check_size(ids.size(), shape.tokens * shape.top_k, "ids");
  if (report_to) *report_to = {};
  if (shape.tokens == 0) return;
  if (const DeviceOps* device = context.device_ops())
    return device->moe_select_sinkhorn(shape, logits, options, ids, report_to);
  constexpr Index chunk = 256;  // tokens
  const Index experts = shape.experts, chunks = (shape.tokens + chunk - 1) / chunk;
  const auto column_share = 1.0 / static_cast<double>(experts);
  auto* cost =
      reinterpret_cast<double*>(context.scratch(0, shape.tokens * experts * static_cast<std::int64_t>(sizeof(double))));
  std::vector<double> d1(static_cast<std::size_t>(experts), 1.0), parts(static_cast<std::size_t>(chunks * experts));
  std::vector<Index> real(static_cast<std::size_t>(chunks));
  parallel_chunks(context, shape.tokens, chunk, [&](Index begin, Index end) {
    for (Index t = begin; t < end; ++t) {
      const float* z = logits.data() + t * experts;
      const double top = static_cast<double>(*std::max_element(z, z + experts));
      const bool is_padding = top == -std::numeric_limits<double>::infinity();
      if (!is_padding) ++real[static_cast<std::size_t>(begin / chunk)];
      for (Index e = 0; e < experts; ++e)
        cost[t * experts + e] = is_padding ? 0.0 : std::exp(static_cast<double>(z[e]) - top);
    }
  });
  const Index all_real = std::accumulate(real.begin(), real.end(), Index{0});
  const auto row_share = 1.0 / static_cast<double>(std::max<Index>(1, all_real));
  SinkhornReport report;
  do {
    parallel_chunks(context, shape.tokens, chunk, [&](Index begin, Index end) {
      double* part = parts.data() + begin / chunk * experts;
      std::fill_n(part, experts, 0.0);
      for (Index t = begin; t < end; ++t) {
        const double* row = cost + t * experts;
        double sum = options.eps;
        for (Index e = 0; e < experts; ++e) sum += d1[static_cast<std::size_t>(e)] * row[e];
        const double d0 = row_share / sum;
        for (Index e = 0; e < experts; ++e) part[e] += d0 * row[e];
      }
    });
    report.change = 0.0;
    for (Index e = 0; e < experts; ++e) {
      double sum = options.eps;
      for (Index i = 0; i < chunks; ++i) sum += parts[static_cast<std::size_t>(i * experts + e)];
      double& d = d1[static_cast<std::size_t>(e)];
      report.change += std::abs(d - column_share / sum) * column_share;
      d = column_share / sum;
    }
    ++report.iterations;
  } while (report.change > options.tolerance && report.iterations < options.iterations_max);
  parallel_for(context, shape.tokens, kGrain, [&](Index begin, Index end) {
    std::vector<double> value(static_cast<std::size_t>(experts));
    for (Index t = begin; t < end; ++t) {  // d0 is one positive factor per row: the order is the same without it
      for (std::size_t e = 0; e < value.size(); ++e) value[e] = cost[t * experts + static_cast<Index>(e)] * d1[e];
      cpu::top_k_indices(value.data(), experts, shape.top_k, ids.data() + t * shape.top_k);
    }
  });
  if (report_to) *report_to = report;
}

void moe_count(const ComputeContext& context, std::span<const std::int32_t> ids, std::span<float> counts) {
  if (const DeviceOps* device = context.device_ops()) return device->moe_count(ids, counts);
  std::fill(counts.begin(), counts.end(), 0.0F);
  for (const std::int32_t id : ids) {
    LH_ASSERT(id >= 0 && static_cast<std::size_t>(id) < counts.size(), format("expert {} of {}", id, counts.size()));
    counts[static_cast<std::size_t>(id)] += 1.0F;
  }
}

namespace {

// Softmax over a few values.
void softmax_few(const float* z, const std::int32_t* ids, Index k, float* p) {
  float top = z[ids[0]];
  for (Index j = 1; j < k; ++j) top = std::max(top, z[ids[j]]);
  float total = 0.0F;
  for (Index j = 0; j < k; ++j) total += p[j] = std::exp(z[ids[j]] - top);
  for (Index j = 0; j < k; ++j) p[j] /= total;
}

float sigmoid(float z) {
  return 1.0F / (1.0F + std::exp(-z));
}

// The weights of one token without `scaling`; `all` [experts] holds the softmax over all where the score needs it.
void gate_row(const cpu::Kernels& kernels, const RouterShape& s, const float* z, const std::int32_t* ids, float* w,
              float* all) {
  switch (s.score) {
    case RouterScore::softmax_selected: softmax_few(z, ids, s.top_k, w); break;
    case RouterScore::softmax_all:
      cpu::softmax_row(kernels, z, s.experts, all);
      for (Index j = 0; j < s.top_k; ++j) w[j] = all[ids[j]];
      break;
    case RouterScore::sigmoid: {
      float sum = cpu::kSigmoidSumEps;
      for (Index j = 0; j < s.top_k; ++j) sum += w[j] = sigmoid(z[ids[j]]);
      if (s.top_k > 1) {
        for (Index j = 0; j < s.top_k; ++j) w[j] /= sum;
      }
      break;
    }
  }
}

// dz += gradient of one token, g = dweights * scaling.
void gate_row_backward(const cpu::Kernels& kernels, const RouterShape& s, const float* z, const std::int32_t* ids,
                       const float* g, float* w, float* all, float* dz) {
  gate_row(kernels, s, z, ids, w, all);
  float mean = 0.0F;  // sum over the selected of g w
  for (Index j = 0; j < s.top_k; ++j) mean += g[j] * w[j];
  switch (s.score) {
    case RouterScore::softmax_selected:
      for (Index j = 0; j < s.top_k; ++j) dz[ids[j]] += w[j] * (g[j] - mean);
      break;
    case RouterScore::softmax_all:
      for (Index e = 0; e < s.experts; ++e) dz[e] -= all[e] * mean;
      for (Index j = 0; j < s.top_k; ++j) dz[ids[j]] += w[j] * g[j];
      break;
    case RouterScore::sigmoid: {
      float sum = cpu::kSigmoidSumEps;
      for (Index j = 0; j < s.top_k; ++j) sum += sigmoid(z[ids[j]]);
      for (Index j = 0; j < s.top_k; ++j) {
        const float score = sigmoid(z[ids[j]]), dscore = s.top_k > 1 ? (g[j] - mean) / sum : g[j];
        dz[ids[j]] += dscore * score * (1.0F - score);
      }
      break;
    }
  }
}

}  // namespace

void moe_gate_forward(const ComputeContext& context, const RouterShape& shape, std::span<const float> logits,
                      std::span<const std::int32_t> ids, std::span<float> weights) {
  check(shape, logits);
  cpu::check_size(ids.size(), shape.tokens * shape.top_k, "ids");
  cpu::check_size(weights.size(), shape.tokens * shape.top_k, "weights");
  if (const DeviceOps* device = context.device_ops()) return device->moe_gate_forward(shape, logits, ids, weights);
  check_ids(shape, ids);
  const cpu::Kernels& kernels = cpu::kernels(context);
  parallel_for(context, shape.tokens, kGrain, [&](Index begin, Index end) {
    std::vector<float> all(static_cast<std::size_t>(shape.experts));
    for (Index t = begin; t < end; ++t) {
      float* w = weights.data() + t * shape.top_k;
      gate_row(kernels, shape, logits.data() + t * shape.experts, ids.data() + t * shape.top_k, w, all.data());
      for (Index j = 0; j < shape.top_k; ++j) w[j] *= shape.scaling;
    }
  });
}

void moe_gate_backward(const ComputeContext& context, const RouterShape& shape, std::span<const float> logits,
                       std::span<const std::int32_t> ids, std::span<const float> dweights, std::span<float> dlogits,
                       bool accumulate) {
  check(shape, logits);
  cpu::check_size(ids.size(), shape.tokens * shape.top_k, "ids");
  cpu::check_size(dweights.size(), shape.tokens * shape.top_k, "dweights");
  cpu::check_size(dlogits.size(), shape.tokens * shape.experts, "dlogits");
  if (const DeviceOps* device = context.device_ops())
    return device->moe_gate_backward(shape, logits, ids, dweights, dlogits, accumulate);
  check_ids(shape, ids);
  const cpu::Kernels& kernels = cpu::kernels(context);
  parallel_for(context, shape.tokens, kGrain, [&](Index begin, Index end) {
    std::vector<float> all(static_cast<std::size_t>(shape.experts)), w(static_cast<std::size_t>(shape.top_k)),
        g(w.size());
    for (Index t = begin; t < end; ++t) {
      float* dz = dlogits.data() + t * shape.experts;
      if (!accumulate) std::fill_n(dz, shape.experts, 0.0F);
      for (Index j = 0; j < shape.top_k; ++j) {
        g[static_cast<std::size_t>(j)] = dweights[static_cast<std::size_t>(t * shape.top_k + j)] * shape.scaling;
      }
      gate_row_backward(kernels, shape, logits.data() + t * shape.experts, ids.data() + t * shape.top_k, g.data(),
                        w.data(), all.data(), dz);
    }
  });
}

void moe_bias_update(float rate, std::span<const float> counts, std::span<float> bias) {
  LH_ASSERT(counts.size() == bias.size() && !bias.empty(), format("{} counts, {} biases", counts.size(), bias.size()));
  double mean = 0.0;
  for (float count : counts) mean += static_cast<double>(count);
  mean /= static_cast<double>(counts.size());
  for (std::size_t e = 0; e < bias.size(); ++e) {
    const double below = mean - static_cast<double>(counts[e]);
    bias[e] += rate * static_cast<float>((below > 0.0) - (below < 0.0));
  }
}

}  // namespace longhaul
