#include "engine/core/build_info.h"

namespace longhaul {

BuildInfo build_info() {
  BuildInfo info{};
#ifdef LONGHAUL_HAVE_CURATE
  info.curate = true;
#endif
#ifdef LONGHAUL_HAVE_CUDA
  info.cuda = true;
#endif
  return info;
}

}  // namespace longhaul
