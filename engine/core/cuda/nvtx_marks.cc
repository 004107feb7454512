#include "engine/core/cuda/nvtx_marks.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace longhaul {
namespace {

class NvtxMarks final : public RangeMarks {
 public:
  void begin(const char* name) override { (void)nvtxRangePushA(name); }
  void end() override { (void)nvtxRangePop(); }
};

}  // namespace

std::unique_ptr<RangeMarks> make_nvtx_marks() {
  return std::make_unique<NvtxMarks>();
}

}  // namespace longhaul

#else  // CUDA's headers without NVTX's

namespace longhaul {

std::unique_ptr<RangeMarks> make_nvtx_marks() {
  return nullptr;
}

}  // namespace longhaul
#endif
