#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/experts/moe_router_kernels.h"
#include "engine/ops/cuda/experts/router_row.h"

namespace longhaul::cuda {
namespace {

// One block: an iteration is a few microseconds of one multiprocessor, and the host is asked nothing. More blocks would
// have to meet after each.
constexpr int sinkhorn_warps = 16, sinkhorn_threads = sinkhorn_warps * warp_size;

struct Sinkhorn {
  Index tokens;
  int experts, top_k;
  const float* logits;
  SinkhornOptions options;
  double* cost;
  std::int32_t* ids;
  SinkhornEnd* end;
};

// Shared memory: d1, then the columns' sums of each warp (at the end, a token's values), the change, marks of each
// warp.
std::size_t sinkhorn_bytes(Index experts) {
  const Index sums = (1 + sinkhorn_warps) * experts + 1;
  return static_cast<std::size_t>(sums * 8 + sinkhorn_warps * experts * 4);
}

// part[e] += d0 cost of the tokens of this warp.
__device__ inline void add_tokens(const Sinkhorn& p, const double* d1, double row_share, double* part, int warp) {
  for (int e = lane_here(); e < p.experts; e += warp_size) part[e] = 0.0;
  for (Index token = warp; token < p.tokens; token += sinkhorn_warps) {
    const double* const row = p.cost + token * p.experts;
    double sum = 0.0;
    for (int e = lane_here(); e < p.experts; e += warp_size) sum += d1[e] * row[e];
    const double d0 = row_share / (sum_over_warp(sum) + p.options.eps);
    for (int e = lane_here(); e < p.experts; e += warp_size) part[e] += d0 * row[e];
  }
}

// cost = exp(logits) of this warp's tokens, 0 of padding; how many of them are none.
__device__ inline Index take_costs(const Sinkhorn& p, int warp) {
  Index real = 0;
  for (Index token = warp; token < p.tokens; token += sinkhorn_warps) {
    const float* const z = p.logits + token * p.experts;
    float top = -INFINITY;
    for (int e = lane_here(); e < p.experts; e += warp_size) top = larger(top, z[e]);
    top = max_over_warp(top);
    const bool is_padding = top == -INFINITY;
    if (!is_padding) ++real;
    for (int e = lane_here(); e < p.experts; e += warp_size)
      p.cost[token * p.experts + e] = is_padding ? 0.0 : exp(static_cast<double>(z[e]) - static_cast<double>(top));
  }
  return real;
}

__global__ void __launch_bounds__(sinkhorn_threads) sinkhorn_kernel(Sinkhorn p) {
  const int warp = static_cast<int>(threadIdx.x) / warp_size, experts = p.experts;
  auto* const d1 = reinterpret_cast<double*>(shared_memory());
  double *const parts = d1 + experts, *const change = parts + sinkhorn_warps * experts;
  double* const values = parts + warp * experts;
  auto* const taken = reinterpret_cast<int*>(change + 1) + warp * experts;
  const double share = 1.0 / static_cast<double>(experts);
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += sinkhorn_threads) d1[e] = 1.0;
  const Index own = take_costs(p, warp);
  if (lane_here() == 0) parts[warp * experts] = static_cast<double>(own);
  sync_block();
  double real = 0.0;
  for (int i = 0; i < sinkhorn_warps; ++i) real += parts[i * experts];
  const double row_share = 1.0 / (real > 0.0 ? real : 1.0);
  sync_block();
  SinkhornEnd end{0.0, 0};
  do {
    add_tokens(p, d1, row_share, parts + warp * experts, warp);
    sync_block();
    if (threadIdx.x == 0) *change = 0.0;
    for (int e = static_cast<int>(threadIdx.x); e < experts; e += sinkhorn_threads) {
      double sum = p.options.eps;
      for (int i = 0; i < sinkhorn_warps; ++i) sum += parts[i * experts + e];
      parts[e] = share / sum;  // of warp 0, whose sum has been read
    }
    sync_block();
    if (threadIdx.x == 0)
      for (int e = 0; e < experts; ++e) *change += fabs(d1[e] - parts[e]) * share;
    sync_block();
    end.change = *change;
    for (int e = static_cast<int>(threadIdx.x); e < experts; e += sinkhorn_threads) d1[e] = parts[e];
    sync_block();
    ++end.iterations;
  } while (end.change > p.options.tolerance && end.iterations < p.options.iterations_max);
  for (Index token = warp; token < p.tokens; token += sinkhorn_warps) {
    for (int e = lane_here(); e < experts; e += warp_size)
      values[e] = p.cost[token * experts + e] * d1[e], taken[e] = 0;
    sync_warp();
    router::take_best(values, taken, experts, p.top_k, p.ids + token * p.top_k);
  }
  if (threadIdx.x == 0 && p.end != nullptr) *p.end = end;
}

}  // namespace

void moe_select_sinkhorn(cudaStream_t stream, const RouterShape& shape, const float* logits,
                         const SinkhornOptions& options, double* cost, std::int32_t* ids, SinkhornEnd* end) {
  launch("moe_select_sinkhorn", stream, sinkhorn_kernel, dim3(1), dim3(sinkhorn_threads), sinkhorn_bytes(shape.experts),
         Sinkhorn{shape.tokens, static_cast<int>(shape.experts), static_cast<int>(shape.top_k), logits, options, cost,
                  ids, end});
}

}  // namespace longhaul::cuda
