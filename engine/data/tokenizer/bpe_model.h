// Byte-level BPE on one piece of text: the vocabulary as raw bytes, and merges by rank. Exact in the sense of Hugging
// Face's BPE: the pair of lowest rank is merged first, the leftmost of equal ones, until no known pair is left.
// (Sennrich et al., "Neural machine translation of rare words with subword units", ACL 2016; bytes as in GPT-2.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// The printable stand-in of each byte in tokenizer.json: a bijection of 256 bytes to code points below U+0144.
const std::vector<std::uint32_t>& byte_alphabet();
std::string to_byte_alphabet(std::string_view bytes);
// nullopt if a character is not one of the 256.
std::optional<std::string> from_byte_alphabet(std::string_view text);

struct BpeMerge {
  std::uint32_t left = 0, right = 0, result = 0;  // token ids
};

// Pieces that are no single token are merged anew each time; this remembers recent ones. One per thread.
class BpeCache {
 public:
  BpeCache() : entries_(slots) {}

 private:
  friend class BpeModel;
  static constexpr std::size_t slots = 1 << 14, bytes_max = 40, ids_max = 12;
  struct Entry {
    std::uint64_t hash = 0;
    std::uint8_t length = 0, count = 0;
    char bytes[bytes_max];
    std::int32_t ids[ids_max];
  };
  std::vector<Entry> entries_;
};

class BpeModel {
 public:
  // `tokens[id]`: raw bytes of the token, empty where the id is not a BPE token. `merges` in rank order; a pair that
  // comes twice keeps its last rank, as in the reference. With `ignore_merges`, a piece that is a token is taken whole.
  // Every single byte must be a token: ErrorCode::unsupported otherwise.
  static Result<BpeModel> create(std::vector<std::string> tokens, const std::vector<BpeMerge>& merges,
                                 bool ignore_merges);

  // Appends the ids of one piece. `cache` may be null. Thread-safe.
  void encode_piece(std::string_view piece, BpeCache* cache, std::vector<std::int32_t>& out) const;

  const std::vector<std::string>& tokens() const { return tokens_; }
  std::optional<std::int32_t> find(std::string_view bytes) const;

 private:
  struct PairSlot {
    std::uint64_t key = ~std::uint64_t{0};
    std::uint32_t rank = 0, result = 0;
  };
  struct WordSlot {
    std::uint32_t hash = 0;
    std::int32_t id = -1;
    bool whole = false;  // this piece encodes to exactly this token
  };
  const PairSlot* find_pair(std::uint32_t left, std::uint32_t right) const;
  const WordSlot* find_word(std::string_view bytes) const;
  void merge_short(std::string_view piece, std::vector<std::int32_t>& out) const;
  void merge_long(std::string_view piece, std::vector<std::int32_t>& out) const;
  void merge(std::string_view piece, std::vector<std::int32_t>& out) const;

  std::vector<std::string> tokens_;
  std::uint32_t byte_ids_[256] = {};
  std::vector<PairSlot> pairs_;  // open addressing, size a power of two
  std::vector<WordSlot> words_;  // the same
  std::size_t token_bytes_max_ = 0;
};

}  // namespace longhaul
