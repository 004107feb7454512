// Sums over several arrays that come to the host at once, and digests, which stay on the device.
#include <algorithm>

#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/cuda/loss/digest_kernels.h"
#include "engine/ops/cuda/pointwise/pointwise_kernels.h"

namespace longhaul::cuda {

void CudaOps::sums_of_squares(std::span<const ConstFloats> parts, std::span<double> sums) const {
  if (parts.empty()) return;
  Index largest = 0;
  for (const ConstFloats& part : parts) largest = std::max(largest, flat_sum_parts(static_cast<Index>(part.size())));
  const auto count = static_cast<Index>(parts.size());
  auto* const totals = reinterpret_cast<double*>(scratch(0, (count + largest) * 8));
  device_.zero(totals, count * 8);  // an empty part starts no kernel
  for (Index i = 0; i < count; ++i) {
    const ConstFloats& part = parts[static_cast<std::size_t>(i)];
    if (!part.empty())
      cuda::flat_sum(stream_, FlatSum::square, static_cast<Index>(part.size()), part.data(), totals + count,
                     totals + i);
  }
  device_.copy_out(totals, sums.data(), count * 8);
}

void CudaOps::digest_parts(ConstFloats x, std::span<std::uint64_t> out) const {
  const auto n = static_cast<Index>(x.size()), parts = static_cast<Index>(out.size());
  auto* const partial = reinterpret_cast<std::uint64_t*>(scratch(0, digest_partials(n, parts) * 8));
  cuda::digest_parts(stream_, n, x.data(), parts, partial, out.data());
}

}  // namespace longhaul::cuda
