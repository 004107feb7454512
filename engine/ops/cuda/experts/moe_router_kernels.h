// Room engine/ops/cuda/experts
// Kernels of a mixture of experts: routing, sorting rows by expert, products of many experts in one launch.
// moe_router_kernels.h, moe_dispatch_kernels.h, grouped_linear_kernels.h follow the headers of ops/experts.
// tensor_grouped_kernels.h is the product by tensor cores; router_row.h and grouped_tiles.h are shared parts.
// It does not use cuda/libraries: a product's rows are found from offsets on the device, in one launch.
//
// The router of a mixture of experts on the device: formulas and shapes as in engine/ops/experts/moe_router.h,
// moe_balance.h.
#pragma once

#include "engine/ops/cuda/common/stream.h"
#include "engine/ops/experts/moe_balance.h"

namespace longhaul::cuda {

// logits [tokens, experts]; ids [tokens, top_k]; bias [experts] or null.
void moe_select(cudaStream_t stream, const RouterShape& shape, const float* logits, const float* bias,
                std::int32_t* ids);
void moe_gate_forward(cudaStream_t stream, const RouterShape& shape, const float* logits, const std::int32_t* ids,
                      float* weights);
void moe_gate_backward(cudaStream_t stream, const RouterShape& shape, const float* logits, const std::int32_t* ids,
                       const float* dweights, float* dlogits, bool accumulate);

// What a device finds out beside the choice: SinkhornReport.
struct SinkhornEnd {
  double change;
  std::int64_t iterations;
};
// One block, which needs neither the host nor others to know when it is done. cost: [tokens, experts] f64 of scratch.
void moe_select_sinkhorn(cudaStream_t stream, const RouterShape& shape, const float* logits,
                         const SinkhornOptions& options, double* cost, std::int32_t* ids, SinkhornEnd* end);

// parts: [router_statistics_parts(tokens), 2 experts + 2] f64 of scratch. ids, mask: or null.
Index router_statistics_parts(Index tokens);
void moe_router_statistics(cudaStream_t stream, const RouterShape& shape, const float* logits, const std::int32_t* ids,
                           const std::uint8_t* mask, double* parts, float* statistics);
void moe_router_losses(cudaStream_t stream, const RouterLossTerms& terms, const float* balance, const float* z,
                       float* slopes);
void moe_statistics_backward(cudaStream_t stream, const RouterShape& shape, const float* logits, const float* slopes,
                             float scale, const std::uint8_t* mask, float* dlogits);

}  // namespace longhaul::cuda
