// One figure of gpu_bench: what was done how fast, beside what the machine gives at most. Bytes and operations are
// counted from shapes: each tensor that has to be read or written once, a product of m, n, k as 2 m n k.
#pragma once

#include <string>

namespace longhaul::gpu_bench {

struct Ceilings {
  double bytes_per_s = 0;  // read and written, of a copy within the device's memory
  double flops = 0;        // a second, of the largest product
};

struct BenchEntry {
  std::string name;
  double seconds = 0;
  double bytes = 0, flops = 0;
  double bar = 0;  // least share of the ceiling; 0: none

  // Of the ceiling that binds: of the two times that bytes and operations take at best, the longer one.
  double share(const Ceilings& best) const {
    const double by_bytes = best.bytes_per_s > 0 ? bytes / best.bytes_per_s : 0;
    const double by_flops = best.flops > 0 ? flops / best.flops : 0;
    return seconds > 0 ? (by_bytes > by_flops ? by_bytes : by_flops) / seconds : 0;
  }
  bool bound_by_flops(const Ceilings& best) const {
    return best.flops > 0 && best.bytes_per_s > 0 && flops / best.flops > bytes / best.bytes_per_s;
  }
};

// Causal attention of seq queries over as many keys: two products of half the square each forward; 2.5 times that
// backward (Dao 2023, section 4.1).
inline double causal_attention_flops(double batch, double seq, double heads, double head_dim) {
  return 2.0 * batch * heads * seq * seq * head_dim;
}
inline double gemm_flops(double m, double n, double k) {
  return 2.0 * m * n * k;
}

}  // namespace longhaul::gpu_bench
