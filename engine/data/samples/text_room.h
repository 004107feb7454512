// How long a text may be that a row or a context of a model holds, and what takes the rest of that, so that whoever
// finds no text that fits learns why.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul {

struct TextRoom {
  // of_row: tokens of the whole row; stand_before: of these, before every text (ModelShape::virtual_tokens);
  // for_answer: and that are kept for an answer behind it.
  TextRoom(std::int64_t of_row, std::int64_t stand_before = 0, std::int64_t for_answer = 0)  // a length alone is a room
      : length(of_row), before(stand_before), answer(for_answer) {}
  std::int64_t tokens() const { return length - before - answer; }  // of a text
  // "64", "64, of which 12 stand before every text and 16 are kept for the answer"
  std::string text() const;

  std::int64_t length = 0, before = 0, answer = 0;
};

}  // namespace longhaul
