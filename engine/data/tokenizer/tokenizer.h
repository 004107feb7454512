// Room engine/data/tokenizer
// Byte-level BPE with the ids of Hugging Face's tokenizer.json, and its training.
// tokenizer.h is the entry; tokenizer_file.h reads the format, pretokenizer.h cuts, bpe_model.h merges.
// bpe_trainer.h makes a vocabulary; chat.h turns a conversation into tokens, in training and in service alike.
// It knows no token files and no samples, so that serving uses it without them.
//
// Byte-level BPE in Hugging Face's tokenizer.json: the same ids as the reference implementation, in and out.
//
// Understood: model BPE (byte-level, merges as "a b" or ["a","b"], ignore_merges); pre-tokenizers ByteLevel,
// Split(Regex, Isolated) and sequences of them; normalizer null or NFC; decoder ByteLevel; added and special tokens.
// Everything else is refused by name: SentencePiece-like models (byte_fallback, Metaspace), WordPiece, Unigram,
// dropout, lstrip/rstrip/single_word tokens. Truncation, padding and post-processor are kept in the file and not
// applied: nobody adds a token behind the caller's back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"
#include "engine/data/tokenizer/bpe_model.h"
#include "engine/data/tokenizer/pretokenizer.h"

namespace longhaul {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool special = true;      // found in text only where the caller allows it
  bool normalized = false;  // searched for after normalization
};

// Buffers and a cache that make repeated encoding fast. One per thread; any Tokenizer's, but one at a time.
struct EncodeScratch {
  BpeCache cache;
  std::vector<std::uint32_t> ends;
};

class Tokenizer {
 public:
  static Result<Tokenizer> load(const std::string& path);
  // `name` stands in errors.
  static Result<Tokenizer> parse(std::string text, const std::string& name = "tokenizer.json");
  // The text it was read from, byte for byte.
  Status save(const std::string& path) const;
  const std::string& json() const { return json_; }

  // Any bytes are accepted: what is not UTF-8 becomes byte tokens. Special tokens written in the text are text, unless
  // `allow_special`; added tokens that are not special are always recognised. Text below 4 GiB. Thread-safe.
  // Fails where a pattern of the file costs too much on this text (engine/data/tokenizer/pattern_regex.h).
  Result<std::vector<std::int32_t>> encode(std::string_view text, bool allow_special = false) const;
  // The same, appended, and fast over many texts. After an error `out` ends with a part of the text.
  Status encode(std::string_view text, bool allow_special, EncodeScratch& scratch,
                std::vector<std::int32_t>& out) const;

  // The bytes of the ids; a part of a character at either end is left as it is (base/text/text.h: repair_utf8). Ids
  // outside the vocabulary (a padded model can draw them) give nothing.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const;
  // Raw bytes of one token, for decoding as a stream; empty outside the vocabulary.
  std::string_view token_bytes(std::int32_t id) const;

  // Largest id + 1; ids in between may be unused.
  std::int32_t vocab_size() const { return static_cast<std::int32_t>(bytes_.size()); }
  // The id of an added token by its text, such as "<|endoftext|>".
  std::optional<std::int32_t> added_id(std::string_view content) const;
  Result<std::int32_t> require_special(std::string_view content) const;
  bool is_special(std::int32_t id) const;
  const std::vector<AddedToken>& added_tokens() const { return added_; }

 private:
  // Finds the leftmost, longest of some texts.
  class Finder {
   public:
    void add(std::string content, std::int32_t id);
    void finish();
    bool empty() const { return contents_.empty(); }
    struct Hit {
      std::size_t begin = 0, end = 0;
      std::int32_t id = -1;
    };
    std::optional<Hit> find(std::string_view text, std::size_t from) const;

   private:
    std::vector<std::pair<std::string, std::int32_t>> contents_;  // by first byte, longest first
    std::pair<std::uint32_t, std::uint32_t> by_first_byte_[256] = {};
  };

  friend class TokenizerFileReader;
  // What the parts of one encode() share.
  struct Encoding {
    BpeCache* cache;
    std::vector<std::uint32_t>& ends;
    std::vector<std::int32_t>& out;
    PatternBudget budget;
  };
  Status encode_raw(std::string_view text, bool allow_special, Encoding& encoding) const;
  Status encode_between(std::string_view text, bool allow_special, Encoding& encoding) const;
  Status encode_plain(std::string_view text, Encoding& encoding) const;

  std::string json_;
  BpeModel model_;
  Pretokenizer pretokenizer_;
  bool nfc_ = false;
  bool prefix_space_ = false;
  std::vector<AddedToken> added_;      // by id
  std::vector<std::string> bytes_;     // what an id decodes to
  std::vector<std::uint8_t> special_;  // per id
  // Two passes as in the reference: tokens searched for in the raw text, then those searched for after normalization.
  // Index 1: with special tokens, index 0: without.
  Finder raw_[2], normalized_[2];
};

// A tokenizer may have fewer tokens than its model (padding), never more. `folder` stands in the error.
Status check_vocabulary(const Tokenizer& tokenizer, std::int64_t model_vocab_size, const std::string& folder);

}  // namespace longhaul
