// HMAC_CTX is called deprecated by OpenSSL 3, and is the one interface that 1.1.1 has as well.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "base/digest/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/error/result.h"

namespace longhaul {

Mac hmac_sha256(std::string_view key, std::string_view bytes) {
  Mac mac{};
  unsigned int length = 0;
  const unsigned char* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(bytes.data()),
           bytes.size(), reinterpret_cast<unsigned char*>(mac.data()), &length);
  LH_ASSERT(done && length == mac.size(), std::to_string(length));
  return mac;
}

void HmacKey::Free::operator()(hmac_ctx_st* context) const {
  HMAC_CTX_free(context);
}

HmacKey::HmacKey(std::string_view key) : context_(HMAC_CTX_new()) {
  LH_ASSERT(context_ && HMAC_Init_ex(context_.get(), key.data(), static_cast<int>(key.size()), EVP_sha256(), nullptr),
            "no HMAC-SHA256 in libcrypto");
}

Mac HmacKey::sign(std::string_view bytes) {
  Mac mac{};
  unsigned int length = 0;
  const bool done = HMAC_Init_ex(context_.get(), nullptr, 0, nullptr, nullptr) &&
                    HMAC_Update(context_.get(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()) &&
                    HMAC_Final(context_.get(), reinterpret_cast<unsigned char*>(mac.data()), &length);
  LH_ASSERT(done && length == mac.size(), std::to_string(length));
  return mac;
}

bool same_mac(const Mac& a, const Mac& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace longhaul
