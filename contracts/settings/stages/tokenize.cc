#include "contracts/settings/stages/tokenize.h"

namespace longhaul {

const FieldTable<TokenizeSettings>& tokenize_fields() {
  using T = TokenizeSettings;
  static const auto table =
      FieldTable<T>()
          .field("vocabulary", &T::vocabulary,
                 {.unit = "tokens", .help = "size with special tokens", .min = 272, .max = 1000000})
          .field("min_frequency", &T::min_frequency, {.help = "a pair seen less often is not merged", .min = 0})
          .field("pattern", &T::pattern,
                 {.help = "how text is cut into words before merging", .choices = {"gpt2", "llama3", "o200k"}})
          .field("end_of_text", &T::end_of_text, {.help = "special token that ends every document"})
          .field("special_tokens", &T::special_tokens,
                 {.help = "more special tokens, besides end_of_text and those of the chat form"});
  return table;
}

}  // namespace longhaul
