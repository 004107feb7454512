#include "base/digest/hash.h"

#include <sys/random.h>
#include <xxhash.h>

#include <cerrno>

namespace longhaul {

std::string hex64(std::uint64_t value) {
  static const char digits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (int i = 15; i >= 0; --i, value >>= 4) text[static_cast<std::size_t>(i)] = digits[value & 15];
  return text;
}

namespace {
std::string hex128(XXH128_hash_t h) {
  return hex64(h.high64) + hex64(h.low64);
}
}  // namespace

std::uint64_t xxh3_64(std::string_view bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}
std::string xxh3_128_hex(std::string_view bytes) {
  return hex128(XXH3_128bits(bytes.data(), bytes.size()));
}

struct Xxh3Stream::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};
Xxh3Stream::Xxh3Stream() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(state_->xxh);
}
Xxh3Stream::~Xxh3Stream() = default;
void Xxh3Stream::update(std::string_view bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}
std::string Xxh3Stream::hex128() const {
  return longhaul::hex128(XXH3_128bits_digest(state_->xxh));
}

Result<std::string> random_hex(int bytes) {
  std::string raw(static_cast<std::size_t>(bytes), '\0');
  std::size_t filled = 0;
  while (filled < raw.size()) {
    const ssize_t n = ::getrandom(raw.data() + filled, raw.size() - filled, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(ErrorCode::io, "cannot read random bytes", errno);
    filled += static_cast<std::size_t>(n);
  }
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (unsigned char c : raw) {
    text += digits[c >> 4];
    text += digits[c & 15];
  }
  return text;
}

}  // namespace longhaul
