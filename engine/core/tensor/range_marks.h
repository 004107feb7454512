// Names for what a rank does, as a profiler of the device shows them beside its kernels (on a GPU NVTX, for Nsight
// Systems). Costs nothing while no profiler is attached. A range ends before the one that it began in.
#pragma once

namespace longhaul {

class RangeMarks {
 public:
  virtual ~RangeMarks() = default;
  virtual void begin(const char* name) = 0;
  virtual void end() = 0;
};

}  // namespace longhaul
