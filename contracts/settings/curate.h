// Settings of the stage kind `curate`: pages in, clean deduplicated documents out.
#pragma once

#include "contracts/field_table.h"

namespace longhaul {

struct CurateSettings {
  std::vector<std::string> languages;  // empty: all
  std::int64_t heldout_bytes = 600000;
  std::int64_t seed = 1;
};
const FieldTable<CurateSettings>& curate_fields();

}  // namespace longhaul
