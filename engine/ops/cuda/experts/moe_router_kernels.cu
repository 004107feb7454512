#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/experts/moe_router_kernels.h"
#include "engine/ops/cuda/experts/router_row.h"

namespace longhaul::cuda {
namespace {

using router::Best;
using router::best_of;
using router::RowSoftmax;
using router::sigmoid_of;

// A warp for each token.
constexpr int token_warps = 4, token_threads = token_warps * warp_size;
__device__ inline int warp_here() {
  return static_cast<int>(threadIdx.x) / warp_size;
}
__device__ inline Index token_here() {
  return static_cast<Index>(blockIdx.x) * token_warps + warp_here();
}

struct Select {
  RouterShape shape;
  const float *logits, *bias;
  std::int32_t* ids;
};
// Of each warp in shared memory: a value and a mark of each expert, then of each group.
std::size_t select_bytes(const RouterShape& s) {
  return static_cast<std::size_t>(token_warps * 2 * (s.experts + s.groups)) * sizeof(float);
}

// Leaves unmarked the experts of the groups whose best values sum to most.
__device__ inline void mark_other_groups(const RouterShape& s, const float* value, int* taken, float* sums,
                                         int* taken_groups) {
  const int experts = static_cast<int>(s.experts), groups = static_cast<int>(s.groups), size = experts / groups;
  const int best = s.group_best < size ? static_cast<int>(s.group_best) : size;
  for (int g = 0; g < groups; ++g) {
    float sum = 0.0F;
    for (int i = 0; i < best; ++i) {
      const Best found = best_of(value, taken, g * size, (g + 1) * size);
      sum += found.value;
      if (lane_here() == 0) taken[found.index] = 1;
      sync_warp();
    }
    if (lane_here() == 0) sums[g] = sum, taken_groups[g] = 0;
  }
  for (int e = lane_here(); e < experts; e += warp_size) taken[e] = 1;
  sync_warp();
  for (int i = 0; i < static_cast<int>(s.groups_kept); ++i) {
    const int group = best_of(sums, taken_groups, 0, groups).index;
    if (lane_here() == 0) taken_groups[group] = 1;
    for (int e = lane_here(); e < size; e += warp_size) taken[group * size + e] = 0;
    sync_warp();
  }
}

__global__ void __launch_bounds__(token_threads) select_kernel(Select p) {
  const RouterShape& s = p.shape;
  const Index token = token_here();
  if (token >= s.tokens) return;
  const int experts = static_cast<int>(s.experts), groups = static_cast<int>(s.groups), lane = lane_here();
  auto* const value = reinterpret_cast<float*>(shared_memory()) + warp_here() * 2 * (experts + groups);
  auto* const taken = reinterpret_cast<int*>(value + experts);
  auto* const sums = reinterpret_cast<float*>(taken + experts);
  auto* const taken_groups = reinterpret_cast<int*>(sums + groups);
  const float* const z = p.logits + token * experts;
  RowSoftmax all{};
  if (s.score == RouterScore::softmax_all) all = router::softmax_of(z, experts);
  for (int e = lane; e < experts; e += warp_size) {
    float v = z[e];
    if (s.score == RouterScore::softmax_all) v = all.of(v);
    if (s.score == RouterScore::sigmoid) v = sigmoid_of(v);
    value[e] = p.bias == nullptr ? v : v + p.bias[e];
    taken[e] = 0;
  }
  sync_warp();
  if (groups > 1) mark_other_groups(s, value, taken, sums, taken_groups);
  router::take_best(value, taken, experts, static_cast<int>(s.top_k), p.ids + token * s.top_k);
}

struct Gate {
  RouterShape shape;
  const float* logits;
  const std::int32_t* ids;
  const float* dweights;
  float* out;  // weights, or dlogits
  bool accumulate;
};

// What the weights of a token need of it beside the logit of the expert: w_j = scaled value / sum.
struct GateRow {
  RouterScore score;
  bool one;  // top_k = 1
  RowSoftmax softmax;
  float scores;
  __device__ float weight(float z) const {
    if (score != RouterScore::sigmoid) return softmax.of(z);
    return one ? sigmoid_of(z) : sigmoid_of(z) / scores;
  }
};
__device__ inline GateRow gate_row(const RouterShape& s, const float* z, const std::int32_t* ids) {
  const int k = static_cast<int>(s.top_k);
  GateRow row{s.score, k == 1, {}, 0.0F};
  if (s.score == RouterScore::softmax_all) row.softmax = router::softmax_of(z, static_cast<int>(s.experts));
  if (s.score == RouterScore::softmax_selected) row.softmax = router::softmax_of(z, ids, k);
  if (s.score == RouterScore::sigmoid) {
    for (int j = lane_here(); j < k; j += warp_size) row.scores += sigmoid_of(z[ids[j]]);
    row.scores = sum_over_warp(row.scores) + router::sigmoid_sum_eps;
  }
  return row;
}

__global__ void __launch_bounds__(token_threads) gate_forward_kernel(Gate p) {
  const Index token = token_here(), k = p.shape.top_k;
  if (token >= p.shape.tokens) return;
  const float* const z = p.logits + token * p.shape.experts;
  const std::int32_t* const ids = p.ids + token * k;
  const GateRow row = gate_row(p.shape, z, ids);
  for (Index j = lane_here(); j < k; j += warp_size) p.out[token * k + j] = row.weight(z[ids[j]]) * p.shape.scaling;
}

// Of each warp in shared memory: of each slot what its expert's logit gets.
__global__ void __launch_bounds__(token_threads) gate_backward_kernel(Gate p) {
  const Index token = token_here(), experts = p.shape.experts;
  if (token >= p.shape.tokens) return;
  const int k = static_cast<int>(p.shape.top_k);
  auto* const gradient = reinterpret_cast<float*>(shared_memory()) + warp_here() * k;
  const float *const z = p.logits + token * experts, *const dweights = p.dweights + token * k;
  const std::int32_t* const ids = p.ids + token * k;
  const GateRow row = gate_row(p.shape, z, ids);
  float mean = 0.0F;  // sum over the selected of g w
  for (int j = lane_here(); j < k; j += warp_size) mean += dweights[j] * p.shape.scaling * row.weight(z[ids[j]]);
  mean = sum_over_warp(mean);
  for (int j = lane_here(); j < k; j += warp_size) {
    const float g = dweights[j] * p.shape.scaling, at = z[ids[j]], w = row.weight(at), s = sigmoid_of(at);
    switch (p.shape.score) {
      case RouterScore::softmax_selected: gradient[j] = w * (g - mean); break;
      case RouterScore::softmax_all: gradient[j] = w * g; break;
      case RouterScore::sigmoid: gradient[j] = (k > 1 ? (g - mean) / row.scores : g) * s * (1.0F - s); break;
    }
  }
  sync_warp();
  float* const dz = p.out + token * experts;
  for (int e = lane_here(); e < experts; e += warp_size) {
    float sum = p.accumulate ? dz[e] : 0.0F;
    if (p.shape.score == RouterScore::softmax_all) sum -= row.softmax.of(z[e]) * mean;
    for (int j = 0; j < k; ++j)
      if (ids[j] == e) sum += gradient[j];
    dz[e] = sum;
  }
}

constexpr int statistics_tokens = 128;  // of one part

struct Statistics {
  RouterShape shape;
  const float* logits;
  const std::int32_t* ids;
  const std::uint8_t* mask;
  double* parts;
};

// The probability of an expert for the balance loss, and the logsumexp.
struct Probabilities {
  bool sigmoid;
  RowSoftmax softmax;
  float scores;
  __device__ float of(float z) const { return sigmoid ? sigmoid_of(z) / scores : softmax.of(z); }
  __device__ float slope(float z) const {
    if (!sigmoid) return softmax.of(z);
    const float s = sigmoid_of(z);
    return s * (1.0F - s) / scores;
  }
};
__device__ inline Probabilities probabilities_of(const RouterShape& s, const float* z) {
  const int experts = static_cast<int>(s.experts);
  Probabilities row{s.score == RouterScore::sigmoid, router::softmax_of(z, experts), 0.0F};
  if (row.sigmoid) {
    for (int e = lane_here(); e < experts; e += warp_size) row.scores += sigmoid_of(z[e]);
    row.scores = sum_over_warp(row.scores) + router::sigmoid_sum_eps;
  }
  return row;
}

// Each warp adds up its tokens, and then the warps are added up. Shared memory: the sums of each warp, then for each
// warp a mark of each expert and its choice, where the choice is not given.
__global__ void __launch_bounds__(token_threads) statistics_kernel(Statistics p) {
  const RouterShape& s = p.shape;
  const int experts = static_cast<int>(s.experts), k = static_cast<int>(s.top_k), width = 2 * experts + 2;
  auto* const all = reinterpret_cast<double*>(shared_memory());
  double* const sums = all + warp_here() * width;
  auto* const taken = reinterpret_cast<int*>(all + token_warps * width) + warp_here() * (experts + k);
  std::int32_t* const best = taken + experts;
  for (int i = lane_here(); i < width; i += warp_size) sums[i] = 0.0;
  sync_warp();
  const Index begin = static_cast<Index>(blockIdx.x) * statistics_tokens;
  const Index end = begin + statistics_tokens < s.tokens ? begin + statistics_tokens : s.tokens;
  for (Index token = begin + warp_here(); token < end; token += token_warps) {
    if (p.mask != nullptr && p.mask[token] == 0) continue;
    const float* const z = p.logits + token * experts;
    const std::int32_t* chosen = p.ids == nullptr ? best : p.ids + token * k;
    if (p.ids == nullptr) {
      for (int e = lane_here(); e < experts; e += warp_size) taken[e] = 0;
      sync_warp();
      router::take_best(z, taken, experts, k, best);  // scores grow with the logits
    }
    const Probabilities row = probabilities_of(s, z);
    for (int e = lane_here(); e < experts; e += warp_size) {
      for (int j = 0; j < k; ++j)
        if (chosen[j] == e) sums[e] += 1.0;
      sums[experts + e] += static_cast<double>(row.of(z[e]));
    }
    if (lane_here() == 0) {
      const double lse = row.softmax.lse();
      sums[2 * experts] += lse * lse;
      sums[2 * experts + 1] += 1.0;
    }
    sync_warp();
  }
  sync_block();
  for (int i = static_cast<int>(threadIdx.x); i < width; i += token_threads) {
    double sum = 0.0;
    for (int warp = 0; warp < token_warps; ++warp) sum += all[warp * width + i];
    p.parts[static_cast<Index>(blockIdx.x) * width + i] = sum;
  }
}

__global__ void __launch_bounds__(token_threads)
    add_statistics_kernel(Index parts, Index width, const double* from, float* statistics) {
  const Index i = static_cast<Index>(blockIdx.x) * token_threads + threadIdx.x;
  if (i >= width) return;
  double sum = 0.0;
  for (Index part = 0; part < parts; ++part) sum += from[part * width + i];
  statistics[i] = static_cast<float>(sum);
}

// One block.
__global__ void __launch_bounds__(token_threads)
    losses_kernel(RouterLossTerms p, const float* balance, const float* z, float* slopes) {
  const Index experts = p.experts;
  const auto tokens = static_cast<double>(balance[2 * experts + 1]), z_tokens = static_cast<double>(z[2 * experts + 1]);
  double factor = tokens == 0.0 ? 0.0 : p.balance_coefficient * static_cast<double>(experts) / (tokens * tokens);
  if (p.definition == BalanceLoss::megatron) factor /= static_cast<double>(p.top_k);
  double loss = 0.0;
  for (Index e = threadIdx.x; e < experts; e += token_threads) {
    const double share = factor * static_cast<double>(balance[e]);
    loss += share * static_cast<double>(balance[experts + e]);
    slopes[e] = static_cast<float>(share);
  }
  loss = sum_over_block(loss, reinterpret_cast<double*>(shared_memory()));
  if (threadIdx.x != 0) return;
  const double share = z_tokens == 0.0 ? 0.0 : p.z_coefficient / z_tokens;
  slopes[experts] = static_cast<float>(share);
  slopes[experts + 1] = static_cast<float>(loss);
  slopes[experts + 2] = static_cast<float>(share * static_cast<double>(z[2 * experts]));
}

struct StatisticsBackward {
  RouterShape shape;
  const float *logits, *slopes;
  float scale;
  const std::uint8_t* mask;
  float* dlogits;
};
__global__ void __launch_bounds__(token_threads) statistics_backward_kernel(StatisticsBackward p) {
  const Index token = token_here();
  if (token >= p.shape.tokens || (p.mask != nullptr && p.mask[token] == 0)) return;
  const int experts = static_cast<int>(p.shape.experts);
  const float* const z = p.logits + token * experts;
  const Probabilities row = probabilities_of(p.shape, z);
  float mean = 0.0F;
  for (int e = lane_here(); e < experts; e += warp_size) mean += p.slopes[e] * row.of(z[e]);
  mean = sum_over_warp(mean);
  const float of_z = p.scale * static_cast<float>(2.0 * row.softmax.lse() * static_cast<double>(p.slopes[experts]));
  for (int e = lane_here(); e < experts; e += warp_size)
    p.dlogits[token * experts + e] += of_z * row.softmax.of(z[e]) + p.scale * row.slope(z[e]) * (p.slopes[e] - mean);
}

dim3 token_blocks(Index tokens) {
  return dim3(blocks_for(tokens, token_warps));
}

}  // namespace

void moe_select(cudaStream_t stream, const RouterShape& shape, const float* logits, const float* bias,
                std::int32_t* ids) {
  launch("moe_select", stream, select_kernel, token_blocks(shape.tokens), dim3(token_threads), select_bytes(shape),
         Select{shape, logits, bias, ids});
}

void moe_gate_forward(cudaStream_t stream, const RouterShape& shape, const float* logits, const std::int32_t* ids,
                      float* weights) {
  launch("moe_gate_forward", stream, gate_forward_kernel, token_blocks(shape.tokens), dim3(token_threads), 0,
         Gate{shape, logits, ids, nullptr, weights, false});
}

void moe_gate_backward(cudaStream_t stream, const RouterShape& shape, const float* logits, const std::int32_t* ids,
                       const float* dweights, float* dlogits, bool accumulate) {
  launch("moe_gate_backward", stream, gate_backward_kernel, token_blocks(shape.tokens), dim3(token_threads),
         static_cast<std::size_t>(token_warps * shape.top_k) * sizeof(float),
         Gate{shape, logits, ids, dweights, dlogits, accumulate});
}

Index router_statistics_parts(Index tokens) {
  return (tokens + statistics_tokens - 1) / statistics_tokens;
}

void moe_router_statistics(cudaStream_t stream, const RouterShape& shape, const float* logits, const std::int32_t* ids,
                           const std::uint8_t* mask, double* parts, float* statistics) {
  const Index width = 2 * shape.experts + 2, count = router_statistics_parts(shape.tokens);
  const auto bytes = static_cast<std::size_t>(token_warps * (width * 8 + (shape.experts + shape.top_k) * 4));
  launch("moe_router_statistics", stream, statistics_kernel, dim3(static_cast<unsigned>(count)), dim3(token_threads),
         bytes, Statistics{shape, logits, ids, mask, parts});
  launch("add_router_statistics", stream, add_statistics_kernel, dim3(blocks_for(width, token_threads)),
         dim3(token_threads), 0, count, width, static_cast<const double*>(parts), statistics);
}

void moe_router_losses(cudaStream_t stream, const RouterLossTerms& terms, const float* balance, const float* z,
                       float* slopes) {
  launch("moe_router_losses", stream, losses_kernel, dim3(1), dim3(token_threads), token_warps * sizeof(double), terms,
         balance, z, slopes);
}

void moe_statistics_backward(cudaStream_t stream, const RouterShape& shape, const float* logits, const float* slopes,
                             float scale, const std::uint8_t* mask, float* dlogits) {
  launch("moe_statistics_backward", stream, statistics_backward_kernel, token_blocks(shape.tokens), dim3(token_threads),
         0, StatisticsBackward{shape, logits, slopes, scale, mask, dlogits});
}

}  // namespace longhaul::cuda
