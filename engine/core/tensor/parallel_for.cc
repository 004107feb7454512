#include "engine/core/tensor/parallel_for.h"

#include <omp.h>

#include <algorithm>

namespace longhaul {

void parallel_for(const ComputeContext& context, std::int64_t n, std::int64_t grain, RangeRef fn) {
  if (n <= 0) return;
  const std::int64_t parts = std::min<std::int64_t>(
      context.threads(), (n + std::max<std::int64_t>(grain, 1) - 1) / std::max<std::int64_t>(grain, 1));
  if (parts <= 1) return fn(0, n);
#pragma omp parallel for num_threads(static_cast<int>(parts)) schedule(static, 1)
  for (std::int64_t i = 0; i < parts; ++i) fn(n * i / parts, n * (i + 1) / parts);
}

void parallel_chunks(const ComputeContext& context, std::int64_t n, std::int64_t chunk, RangeRef fn) {
  const std::int64_t chunks = (n + chunk - 1) / chunk;
  const int threads = static_cast<int>(std::min<std::int64_t>(context.threads(), chunks));
  if (threads <= 1) {
    for (std::int64_t i = 0; i < chunks; ++i) fn(i * chunk, std::min(n, (i + 1) * chunk));
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (std::int64_t i = 0; i < chunks; ++i) fn(i * chunk, std::min(n, (i + 1) * chunk));
}

int parallel_thread_index() {
  return omp_get_thread_num();
}

void use_threads_of(const ComputeContext& context) {
  if (omp_get_max_threads() != context.threads()) omp_set_num_threads(context.threads());
}

}  // namespace longhaul
