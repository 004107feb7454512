// Regular expressions of pre-tokenizers, as Hugging Face files spell them. The only file that knows PCRE2 is
// pattern_regex.cc.
//
// Which Unicode? The reference implementation knows Unicode 16, PCRE2 10.42 knows 14. Letters and digits that came
// between (unicode_additions.h) are written into the pattern, and \s means exactly the White_Space property, as there:
// so \p{L}, \p{Lu}, \p{Ll}, \p{Lt}, \p{Lm}, \p{Lo}, \p{M}, \p{N} and \s agree with it on every code point.
//
// Patterns come from files of strangers, so what one costs is bounded (a pattern such as (a+)+$ needs 2^n steps): it
// has at most 4 KiB, \C and \K are refused (they cut characters and end nowhere), memory is limited, and a text has a
// budget of steps. Limits of PCRE2 itself hold for one position of the text, which a text has a million of; the budget
// is counted by callouts and is the same on every machine. Needs PCRE2 10.30.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// What the patterns of one tokenizer may still spend on one text: an item of a pattern that is tried costs a step, and
// a byte that was passed since the item before costs another. The common patterns spend below 20 steps a byte, also on
// a megabyte of one letter; 200 and a million for the beginning are given.
struct PatternBudget {
  explicit PatternBudget(std::size_t text_bytes) : steps_left(1'000'000 + 200 * std::uint64_t{text_bytes}) {}
  std::uint64_t steps_left;
};

inline constexpr std::size_t pattern_bytes_max = 4096;

class PatternRegex {
 public:
  // ErrorCode::unsupported, with PCRE2's message and the offset, if the pattern cannot be used.
  static Result<PatternRegex> compile(const std::string& pattern);
  ~PatternRegex();
  PatternRegex(PatternRegex&&) noexcept;
  PatternRegex& operator=(PatternRegex&&) noexcept;

  // Appends the end offset of every piece of `text`: matches, and what lies between them, in order ("Isolated").
  // `text` must be valid UTF-8. Thread-safe. ErrorCode::unsupported, with pattern, offset and what stands there, when
  // the budget is spent, memory does not suffice or a match makes no progress; `ends` then holds the pieces before.
  Status split(std::string_view text, PatternBudget& budget, std::vector<std::uint32_t>& ends) const;

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
