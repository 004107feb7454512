// HMAC-SHA256 (RFC 2104, FIPS 180-4): who holds the same key can know that a message is whole and from one of them.
// The only file that knows libcrypto is hmac.cc.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>

struct hmac_ctx_st;  // of libcrypto

namespace longhaul {

using Mac = std::array<std::byte, 32>;

Mac hmac_sha256(std::string_view key, std::string_view bytes);

// The same under one key for many messages, without setting the key up for each. One thread.
class HmacKey {
 public:
  explicit HmacKey(std::string_view key);
  Mac sign(std::string_view bytes);

 private:
  struct Free {
    void operator()(hmac_ctx_st* context) const;
  };
  std::unique_ptr<hmac_ctx_st, Free> context_;
};

// In a time that does not show how much of them is the same.
bool same_mac(const Mac& a, const Mac& b);

}  // namespace longhaul
