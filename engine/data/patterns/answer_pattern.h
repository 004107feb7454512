// Room engine/data/patterns
// Regular expressions that are searched for in what a model answers.
// answer_pattern.h is all of it; rewards (engine/align/reward.h) and filters of tasks (engine/tasks/answers) use it.
// It knows neither; the patterns that cut text into tokens are the tokenizer's own (pattern_regex.h there).
//
// A pattern by PCRE2 in UTF-8 with Unicode's classes. What a search may cost is bounded: patterns are the user's, but
// answers are what a model happens to say. Searches are const and thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

class AnswerPattern {
 public:
  // invalid_input, with PCRE2's message and the offset, if the pattern cannot be used.
  static Result<AnswerPattern> compile(const std::string& pattern);
  ~AnswerPattern();
  AnswerPattern(AnswerPattern&&) noexcept;
  AnswerPattern& operator=(AnswerPattern&&) noexcept;

  bool has_group() const;
  // The searches below: unsupported: it took too many steps.
  // The first group of the first match, or the whole match of a pattern without groups; nothing: no match. Text that is
  // not UTF-8 matches nothing.
  Result<std::optional<std::string>> find(std::string_view text) const;
  // Python's re.findall: of each match its groups, or the whole of it where the pattern has none. `text` is valid
  // UTF-8, as below.
  Result<std::vector<std::vector<std::string>>> find_all(std::string_view text) const;
  // re.split: what stands between matches. For patterns without groups that match no empty text.
  Result<std::vector<std::string>> split(std::string_view text) const;
  // re.sub(pattern, "", text).
  Result<std::string> without(std::string_view text) const;

 private:
  struct Code;
  explicit AnswerPattern(std::unique_ptr<Code> code);
  // Calls `found` with the offsets of each match and of its groups.
  template <class Found>
  Status search(std::string_view text, const Found& found) const;
  std::unique_ptr<Code> code_;
};

}  // namespace longhaul
