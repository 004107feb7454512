#include "base/digest/hash.h"

#include <doctest/doctest.h>

#include "base/files/file_hash.h"
#include "tests/support/scratch.h"

namespace longhaul {

TEST_CASE("xxh3 gives its published digests") {
  CHECK(xxh3_64("") == 0x2d06800538d394c2ULL);
  CHECK(xxh3_128_hex("") == "99aa06d3014798d86001c324468d497f");
  CHECK(xxh3_64("a", 1) != xxh3_64("a", 2));
}

TEST_CASE("a digest over pieces, of a file and of the whole text are one") {
  const testing::Scratch scratch;
  std::string text;
  Xxh3Stream stream;
  for (int i = 0; i < 1000; ++i) {
    const std::string piece = "piece " + std::to_string(i);
    stream.update(piece);
    text += piece;
  }
  CHECK(stream.hex128() == xxh3_128_hex(text));
  REQUIRE(write_file_atomic(scratch.file("t"), text).ok());
  CHECK(hash_file(scratch.file("t")).value() == xxh3_128_hex(text));
  REQUIRE(write_file_atomic(scratch.file("empty"), "").ok());
  CHECK(hash_file(scratch.file("empty")).value() == xxh3_128_hex(""));
  CHECK(hash_file(scratch.file("absent")).error().code == ErrorCode::not_found);
}

TEST_CASE("hex and random text have the promised form") {
  CHECK(hex64(0x0123456789abcdefULL) == "0123456789abcdef");
  CHECK(hex64(0) == "0000000000000000");
  const std::string key = random_hex(16).value();
  CHECK(key.size() == 32);
  CHECK(key.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(key != random_hex(16).value());
}

}  // namespace longhaul
