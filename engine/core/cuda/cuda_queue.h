// A stream of a GPU beside that of its operations.
#pragma once

#include "base/error/result.h"
#include "engine/core/device/device_queue.h"

namespace longhaul {

// Of the GPU that this thread has set. `operations`: the stream that follow_operations() looks at.
Result<std::unique_ptr<DeviceQueue>> make_cuda_queue(CUstream_st* operations);

}  // namespace longhaul
