// NVIDIA's management library, loaded at run time where there is one. The only file that calls it.
//
// It is loaded by `open` and not before, so a host without GPUs does not pay for it. A function that an older driver
// does not have leaves its value absent. Not thread-safe: one thread per object, another object for a
// thread that waits for events.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "resiliency/health/gpu_health.h"

namespace longhaul {

inline constexpr const char* nvml_default_path = "libnvidia-ml.so.1";

struct GpuEvent {
  int device = -1;  // index; -1: of none that is known
  int xid = 0;
};

class NvmlLibrary {
 public:
  // not_found: there is no such library. unavailable: it does not work, with its own words (driver not loaded, another
  // version of the driver).
  static Result<NvmlLibrary> open(const std::string& path = nvml_default_path);
  ~NvmlLibrary();
  NvmlLibrary(NvmlLibrary&&) noexcept;
  NvmlLibrary& operator=(NvmlLibrary&&) noexcept;

  // All devices. One that does not answer is there, with `lost` or with less known of it.
  std::vector<GpuReading> read();
  // The next XID, waiting at most `ms`; nothing when none came, or the driver offers no events.
  std::optional<GpuEvent> wait_event(unsigned ms);
  // Of a simulated library: the file whose lines it plays (tests/support/fake_libraries/fake_nvml.cc). "": NVIDIA's
  // own.
  const std::string& script() const;

 private:
  struct Loaded;
  explicit NvmlLibrary(std::unique_ptr<Loaded> loaded);
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace longhaul
