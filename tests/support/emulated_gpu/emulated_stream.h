// What a cudaStream_t of an emulated GPU points to.
#pragma once

#include <functional>

namespace longhaul::testing {

class EmulatedStream {
 public:
  virtual ~EmulatedStream() = default;
  // Work of whatever stands in for a library of CUDA.
  virtual void enqueue(std::function<void()> work) = 0;
  // What surrounds a kernel of this stream.
  virtual void kernel_begins() {}
  virtual void kernel_ends() {}
  // Whether the work is kept for later instead of being done now: the stream is being recorded.
  virtual bool keep(const std::function<void()>& work) { return (void)work, false; }
};

}  // namespace longhaul::testing
