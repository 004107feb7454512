// Regular expressions of pre-tokenizers, as Hugging Face files spell them. The only file that knows PCRE2 is
// pattern_regex.cc.
//
// Which Unicode? The reference implementation knows Unicode 16, PCRE2 10.42 knows 14. Letters and digits that came
// between (unicode_additions.h) are written into the pattern, and \s means exactly the White_Space property, as there:
// so \p{L}, \p{Lu}, \p{Ll}, \p{Lt}, \p{Lm}, \p{Lo}, \p{M}, \p{N} and \s agree with it on every code point.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace longhaul {

class PatternRegex {
 public:
  // ErrorCode::unsupported, with PCRE2's message and the offset, if the pattern cannot be used.
  static Result<PatternRegex> compile(const std::string& pattern);
  ~PatternRegex();
  PatternRegex(PatternRegex&&) noexcept;
  PatternRegex& operator=(PatternRegex&&) noexcept;

  // Appends the end offset of every piece of `text`: matches, and what lies between them, in order ("Isolated").
  // `text` must be valid UTF-8. Thread-safe. A match that needs more backtracking than PCRE2 allows ends the search:
  // the rest becomes one piece (never seen with the patterns above, which backtrack linearly).
  void split(std::string_view text, std::vector<std::uint32_t>& ends) const;

 private:
  struct Code;
  explicit PatternRegex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

// One byte per code point below 0x110000: bit 0 letter (\p{L}), bit 1 number (\p{N}), bit 2 white space. Built once
// (about 30 ms) from the same source as the regular expressions, and shared.
inline constexpr std::uint8_t class_letter = 1, class_number = 2, class_space = 4;
const std::vector<std::uint8_t>& code_point_classes();

}  // namespace longhaul
