#include "engine/ops/device/device_op_group.h"

#include <cstdlib>
#include <string>

#include "base/error/result.h"

namespace longhaul {

void DeviceOpGroup::missing(const char* operation) {
  LH_ASSERT(false, std::string("this device has no operation ") + operation);
  std::abort();
}

}  // namespace longhaul
