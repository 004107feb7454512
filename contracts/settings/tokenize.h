// Settings of the stage kind `tokenize`: a byte-level BPE vocabulary and the encoded corpus.
#pragma once

#include "contracts/field_table.h"

namespace longhaul {

struct TokenizeSettings {
  std::int64_t vocabulary = 8192;
  std::int64_t min_frequency = 2;
};
const FieldTable<TokenizeSettings>& tokenize_fields();

}  // namespace longhaul
