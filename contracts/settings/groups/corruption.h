#pragma once

#include "contracts/schema/field_table.h"

namespace longhaul {

// Silent data corruption: bits that change with nobody noticing (docs/resiliency.md).
struct CorruptionSettings {
  std::string check = "contributions";  // off | contributions: to sums over ranks | replay: these, and what is computed
  std::int64_t replay_every = 1000;     // steps
};
const FieldTable<CorruptionSettings>& corruption_fields();

}  // namespace longhaul
