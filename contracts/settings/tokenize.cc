#include "contracts/settings/tokenize.h"

namespace longhaul {

const FieldTable<TokenizeSettings>& tokenize_fields() {
  using T = TokenizeSettings;
  static const auto table =
      FieldTable<T>()
          .field("vocabulary", &T::vocabulary,
                 {.unit = "tokens", .help = "size with special tokens", .min = 272, .max = 1000000})
          .field("min_frequency", &T::min_frequency, {.help = "a pair seen less often is not merged", .min = 0});
  return table;
}

}  // namespace longhaul
