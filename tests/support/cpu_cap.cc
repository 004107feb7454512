// Tests of the engine run as if the processor had no more than LONGHAUL_CPU_MAX (engine/ops/cpu_levels.h).
#include <cstdio>
#include <cstdlib>

#include "engine/ops/cpu_levels.h"

int before_tests();

int before_tests() {
  const char* level = std::getenv("LONGHAUL_CPU_MAX");
  const longhaul::Status capped = longhaul::cap_cpu_level(level == nullptr ? "" : level);
  if (capped.ok()) return 0;
  std::fprintf(stderr, "LONGHAUL_CPU_MAX: %s\n", capped.error().message().c_str());
  return 2;
}
