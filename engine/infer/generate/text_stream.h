// What happens to the bytes of generated tokens before a client sees them. A token may end inside a UTF-8 character,
// and a stop text may begin in one token and end three later; so text is released only when it can no longer change its
// meaning.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

// Releases whole characters only. Bytes that can never become a character turn into U+FFFD, one per maximal ill-formed
// part.
class Utf8Gate {
 public:
  std::string push(std::string_view bytes);
  std::string finish();  // a character that was left half becomes U+FFFD

 private:
  std::string held_;  // at most 3 bytes: the beginning of one character
};

// Cuts the text before the first stop text and holds back what may be the beginning of one.
class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops = {});  // empty stop texts are ignored
  // The text that is certain not to be part of a stop text. Nothing any more once stopped.
  std::string push(std::string_view text);
  std::string finish();  // what was held back, when no stop text came
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace longhaul
