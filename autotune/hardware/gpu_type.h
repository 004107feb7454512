// One kind of accelerator as the time model sees it: what its data sheet says, and which share of that programs reach.
// A CPU rank is one as well.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

enum class Precision { f32, bf16, fp8, fp4 };  // of matrix products; attention runs in bf16 below bf16
const char* to_string(Precision precision);

struct GpuType {
  std::string key;                 // "h100"
  std::vector<std::string> names;  // parts of what site files and drivers call it; the longest that fits decides
  // Data sheet, dense. FLOP/s; bytes; bytes/s; watts.
  double peak_f32 = 0, peak_bf16 = 0, peak_fp8 = 0, peak_fp4 = 0;  // 0: cannot
  double memory = 0, memory_rate = 0;
  double link_rate = 0;  // to the others of its domain, per direction
  int link_domain = 1;   // GPUs that such links join
  double nic_rate = 0;   // of its share of the node's network cards, where a site says nothing
  int processors = 1;    // that tiles of a product are assigned to
  double power = 0;
  // Shares of the peak that are reached.
  double gemm_bf16 = 0, gemm_fp8 = 0, gemm_fp4 = 0;  // large products
  double attention = 0;                              // fused attention, forward, of the bf16 peak
  bool measured = false;                             // these come from runs on it; otherwise they are borrowed

  double peak(Precision precision) const;
  double gemm_rate(Precision precision) const;  // FLOP/s of a large product; 0: cannot
};

}  // namespace longhaul
