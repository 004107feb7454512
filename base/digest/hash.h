// Room base/digest
// Digests and counter-based random numbers: functions of bytes, with the same result on every machine.
// hash.h is for files and checkpoints (fast), hmac.h for messages between programs (cryptographic).
// philox.h gives random numbers that depend on (seed, stream, index) and not on the order of calls.
// It opens no files: the digest of a file is base/files/file_hash.h.
//
// Digests: xxh3 for files and checkpoint entries (fast, not cryptographic).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error/result.h"

namespace longhaul {

std::uint64_t xxh3_64(std::string_view bytes, std::uint64_t seed = 0);
// 32 lower-case hex digits.
std::string xxh3_128_hex(std::string_view bytes);
std::string hex64(std::uint64_t value);  // 16 lower-case hex digits

// A digest over several pieces.
class Xxh3Stream {
 public:
  Xxh3Stream();
  ~Xxh3Stream();
  Xxh3Stream(const Xxh3Stream&) = delete;
  Xxh3Stream& operator=(const Xxh3Stream&) = delete;
  void update(std::string_view bytes);
  std::string hex128() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Random bytes from the kernel, as hex: for tokens and unique keys.
Result<std::string> random_hex(int bytes);

}  // namespace longhaul
