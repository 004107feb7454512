// A regular expression (PCRE2) that is looked for in an answer. What a search may cost is bounded: patterns are the
// user's, but answers are what a model happens to say.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error/result.h"

namespace longhaul {

class RewardPattern {
 public:
  // invalid_input, with PCRE2's message and the offset, if the pattern cannot be used.
  static Result<std::shared_ptr<const RewardPattern>> compile(const std::string& pattern);
  ~RewardPattern();
  RewardPattern(const RewardPattern&) = delete;
  RewardPattern& operator=(const RewardPattern&) = delete;

  bool has_group() const;
  // The first group of the first match, or the whole match of a pattern without groups; nothing: no match. Text that is
  // not UTF-8 matches nothing. Thread-safe. unsupported: the search took too many steps.
  Result<std::optional<std::string>> find(std::string_view text) const;

 private:
  struct Code;
  explicit RewardPattern(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace longhaul
