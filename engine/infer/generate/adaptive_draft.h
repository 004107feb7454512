// Guesses of the next tokens of one text that grows (ngram_draft.h), as long as guesses were right of late.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace longhaul {

class AdaptiveDraft {
 public:
  // `longest` > 0: of a guess, in tokens.
  AdaptiveDraft(std::vector<std::int32_t> text, std::int64_t longest)
      : text_(std::move(text)), longest_(longest), length_(longest) {}

  void add(std::int32_t token) { text_.push_back(token); }
  // At most `count` tokens; none where nothing is to be guessed from.
  std::vector<std::int32_t> next(std::int64_t count) const;
  // Of the last guess of `drafted` tokens the first `right` were drawn. The next one is as long as this was right, and
  // a token longer; twice as long after one that was right to its end.
  void judge(std::int64_t drafted, std::int64_t right);

 private:
  std::vector<std::int32_t> text_;
  std::int64_t longest_, length_;
};

}  // namespace longhaul
