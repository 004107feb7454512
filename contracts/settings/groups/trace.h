#pragma once

#include "contracts/schema/field_table.h"

namespace longhaul {

// When every rank writes what it did at which time (engine/core/tensor/trace.h), and whether its GPU's kernels are
// timed.
struct TraceSettings {
  std::int64_t first_step = 3;
  std::int64_t steps = 0;  // 0: never
  bool kernels = false;
};
const FieldTable<TraceSettings>& trace_fields();

}  // namespace longhaul
