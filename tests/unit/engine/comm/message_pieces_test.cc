#include "engine/comm/message_pieces.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

using namespace longhaul;

namespace {

using Pieces = std::vector<std::pair<std::size_t, std::size_t>>;

Pieces pieces_of_message(std::size_t bytes, std::size_t piece_max) {
  Pieces pieces;
  CHECK(for_message_pieces(bytes, piece_max, [&](std::size_t offset, std::size_t piece) -> Status {
          pieces.emplace_back(offset, piece);
          return {};
        }).ok());
  return pieces;
}

}  // namespace

TEST_CASE("messages: a long one is cut into pieces that a library can count, without gaps") {
  constexpr std::size_t gib = std::size_t{1} << 30;
  CHECK(pieces_of_message(0, gib) == Pieces{{0, 0}});
  CHECK(pieces_of_message(1, gib) == Pieces{{0, 1}});
  CHECK(pieces_of_message(gib, gib) == Pieces{{0, gib}});
  CHECK(pieces_of_message(gib + 1, gib) == Pieces{{0, gib}, {gib, 1}});
  // Beyond 2^31 and 2^32 bytes.
  CHECK(pieces_of_message(5 * gib + 7, gib) ==
        Pieces{{0, gib}, {gib, gib}, {2 * gib, gib}, {3 * gib, gib}, {4 * gib, gib}, {5 * gib, 7}});
  for (const auto& [offset, bytes] : pieces_of_message(9 * gib + 3, message_bytes_max)) CHECK(bytes <= INT_MAX);
}

TEST_CASE("messages: the first piece that fails is the last one") {
  int pieces = 0;
  const Status done = for_message_pieces(10, 3, [&](std::size_t, std::size_t) -> Status {
    if (++pieces == 2) return make_error(ErrorCode::io, "gone");
    return {};
  });
  CHECK_FALSE(done.ok());
  CHECK(pieces == 2);
}
