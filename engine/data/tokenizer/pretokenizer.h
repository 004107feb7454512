// Cuts text into the pieces ("words") that merges never cross. A pattern is the one of tokenizer.json; the two most
// common ones have a hand-written matcher (pretokenizer.cc), every other goes through PatternRegex with the same
// result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"
#include "engine/data/tokenizer/pattern_regex.h"

namespace longhaul {

// gpt2: contractions, optional space + letters | digits | others, trailing white space. What ByteLevel does by itself.
// llama3: as in Llama-3 and cl100k: digits in groups of three, one leading non-letter, newlines with punctuation.
// o200k: words split by case, marks counted to letters.
enum class PretokenizerPattern { gpt2, llama3, o200k };
const std::string& pattern_text(PretokenizerPattern pattern);
const char* to_string(PretokenizerPattern pattern);
Result<PretokenizerPattern> parse_pretokenizer_pattern(std::string_view name);

class Pretokenizer {
 public:
  // Patterns are applied one after the other, each to the pieces of the one before. No pattern: the text is one piece.
  // `hand_written` = false forces PatternRegex, for comparison.
  static Result<Pretokenizer> create(const std::vector<std::string>& patterns, bool hand_written = true);

  // Replaces `ends` by the end offset of every piece. `text`: valid UTF-8, below 4 GiB. Thread-safe. Fails only for
  // patterns that are not among the three above (PatternRegex::split).
  Status split(std::string_view text, PatternBudget& budget, std::vector<std::uint32_t>& ends) const;

 private:
  struct Step {
    std::optional<PretokenizerPattern> known;
    std::optional<PatternRegex> regex;
  };
  static Status split_step(const Step& step, std::string_view text, PatternBudget& budget,
                           std::vector<std::uint32_t>& ends);
  std::vector<Step> steps_;
};

}  // namespace longhaul
