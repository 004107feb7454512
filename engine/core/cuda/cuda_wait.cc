#include "engine/core/cuda/cuda_wait.h"

#include <cuda_runtime_api.h>
#include <sched.h>
#include <time.h>

#include "base/error/result.h"
#include "base/system/clock.h"
#include "base/text/text.h"

namespace longhaul {

void wait_until_idle(CUstream_st* stream, std::int64_t deadline_ms, const std::string& of) {
  const SystemClock clock;
  const Deadline deadline(clock, deadline_ms);
  const std::int64_t begun = clock.monotonic_ns();
  constexpr std::int64_t busy_ns = 2'000'000;  // most waits are shorter, and what follows them is urgent
  for (;;) {
    const cudaError_t status = cudaStreamQuery(stream);
    if (status == cudaSuccess) return;
    LH_ASSERT(status == cudaErrorNotReady,
              format("cudaStreamQuery: {} ({})", cudaGetErrorName(status), cudaGetErrorString(status)));
    LH_ASSERT(!deadline.passed(), format("{} has not ended what it was asked for within {} s", of, deadline_ms / 1000));
    if (clock.monotonic_ns() - begun < busy_ns) {
      sched_yield();
      continue;
    }
    const struct timespec pause{0, 20'000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace longhaul
