#include "base/system/private_memory.h"

#include <sys/prctl.h>

namespace longhaul {

void keep_memory_private() {
  ::prctl(PR_SET_DUMPABLE, 0);  // ends with exec, so children are not touched
}

}  // namespace longhaul
