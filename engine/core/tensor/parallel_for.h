// Loops over the threads of a context (OpenMP behind it; with one thread the loop simply runs here).
// The result of an operation must not depend on the number of threads: write disjoint outputs in parallel_for, and
// reduce over parallel_chunks, whose chunks are the same for every thread count, adding their parts up in order
// afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "engine/core/tensor/compute_context.h"

namespace longhaul {

// A borrowed callable void(begin, end).
class RangeRef {
 public:
  template <class F>
  RangeRef(const F& f)  // NOLINT: implicit on purpose
      : object_(std::addressof(f)),
        call_([](const void* o, std::int64_t b, std::int64_t e) { (*static_cast<const F*>(o))(b, e); }) {}
  void operator()(std::int64_t begin, std::int64_t end) const { call_(object_, begin, end); }

 private:
  const void* object_;
  void (*call_)(const void*, std::int64_t, std::int64_t);
};

// fn(begin, end) over [0, n), split into at most context.threads() ranges of at least `grain` (the last may be
// smaller).
void parallel_for(const ComputeContext& context, std::int64_t n, std::int64_t grain, RangeRef fn);

// fn(begin, end) for every chunk [i * chunk, min(n, (i + 1) * chunk)), handed out one by one: for work of uneven cost.
void parallel_chunks(const ComputeContext& context, std::int64_t n, std::int64_t chunk, RangeRef fn);

// Which of the threads of the innermost parallel_* runs this, 0 .. threads - 1: for scratch of its own.
int parallel_thread_index();

// Makes OpenMP libraries called from this thread (oneDNN) use context.threads() threads.
void use_threads_of(const ComputeContext& context);

}  // namespace longhaul
