#include "engine/data/samples/text_room.h"

#include <doctest/doctest.h>

namespace longhaul {

TEST_CASE("a text has what is left of a row, and a refusal says what takes the rest") {
  CHECK(TextRoom(64).text() == "64");
  CHECK(TextRoom(64, 12).text() == "64, of which 12 stand before every text");
  CHECK(TextRoom(64, 0, 16).text() == "64, of which 16 are kept for the answer");
  const TextRoom both(64, 12, 16);
  CHECK(both.tokens() == 36);
  CHECK(both.text() == "64, of which 12 stand before every text and 16 are kept for the answer");
}

}  // namespace longhaul
