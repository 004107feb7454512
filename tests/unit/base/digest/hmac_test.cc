#include "base/digest/hmac.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

using namespace longhaul;

namespace {

std::string hex_of(const Mac& mac) {
  std::string text;
  for (const std::byte b : mac) {
    const auto value = static_cast<unsigned>(b);
    text += "0123456789abcdef"[value >> 4];
    text += "0123456789abcdef"[value & 15];
  }
  return text;
}

}  // namespace

// RFC 4231, test cases 1, 2 and 6.
TEST_CASE("HMAC-SHA256 gives the published values") {
  CHECK(hex_of(hmac_sha256(std::string(20, '\x0b'), "Hi There")) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hex_of(hmac_sha256("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hex_of(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("a key that is set up once signs each message as the one-shot does") {
  HmacKey key("Jefe");
  for (const char* text : {"what do ya want for nothing?", "", "Hi There", "what do ya want for nothing?"})
    CHECK(key.sign(text) == hmac_sha256("Jefe", text));
  HmacKey moved = std::move(key);
  CHECK(moved.sign("Hi There") == hmac_sha256("Jefe", "Hi There"));
}

TEST_CASE("codes are the same only if every byte is") {
  const Mac a = hmac_sha256("k", "m");
  Mac b = a;
  CHECK(same_mac(a, b));
  b[31] ^= std::byte{1};
  CHECK(!same_mac(a, b));
}
