// A text file that holds many texts one after another, or a book: too long to be judged as one document. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul {

// The text itself where it has at most `words_max` words, or words_max <= 0. Else its parts, in order, none empty; but
// for line breaks between them they are the text, and each has at most half as many words. A part ends at an empty
// line, else at a line's end, else at a blank, in its second half; else between two characters of UTF-8. Words are what
// stands between blanks; a character of Chinese or Japanese, which write none, counts as one.
std::vector<std::string_view> text_parts(std::string_view text, std::int64_t words_max);

}  // namespace longhaul
