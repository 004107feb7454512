// Times the kernels of a device while it works: on a GPU through CUPTI (engine/core/cuda/cupti_timer.h). One for a
// process, as the library behind it has one listener.
#pragma once

#include <memory>

#include "base/error/result.h"
#include "engine/core/device/kernel_table.h"

namespace longhaul {

class KernelTimer {
 public:
  virtual ~KernelTimer() = default;
  // Of all that ended since the last call; call it when the device has nothing to do, as records beside those of a
  // kernel that runs may come later. An error: there will be no more of them.
  virtual Result<KernelTable> take() = 0;
  // Kernels that no record was kept of since the timer began.
  virtual std::int64_t lost() const = 0;
};

}  // namespace longhaul
