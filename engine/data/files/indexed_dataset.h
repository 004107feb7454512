// Room engine/data/files
// Files of data: token files in Megatron-LM's indexed format, and JSON Lines of documents.
// indexed_dataset.h has the byte layout, in and out; document_lines.h reads documents in bounded batches.
// It knows neither a tokenizer nor an order of samples: token ids are numbers here.
//
// Token corpora in Megatron-LM's indexed dataset: PREFIX.bin holds the token ids of all sequences back to back,
// PREFIX.idx says where each begins. Byte-exact in both directions. Layout of .idx, little-endian, without padding:
//
//   offset  0        9 bytes   "MMIDIDX\0\0"
//           9        u64       version = 1
//          17        u8        token type: 4 = i32, 8 = u16 (others exist and are refused)
//          18        u64       S, number of sequences
//          26        u64       D, entries of the document index = documents + 1
//          34        S x i32   length of each sequence in tokens
//          34 +  4S  S x i64   byte offset of each sequence in .bin
//          34 + 12S  D x i64   first sequence of each document, and S at the end
//   A modes array (one i8 per sequence, multimodal files) may follow; it is refused.
//
// Longhaul writes one sequence per document. Readers take any grouping, as long as sequences lie back to back.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/files/files.h"

namespace longhaul {

enum class TokenType : std::uint8_t { i32 = 4, u16 = 8 };  // numbers are on disk: do not renumber
inline constexpr std::size_t token_bytes(TokenType type) {
  return type == TokenType::u16 ? 2 : 4;
}
// Megatron-LM's rule: u16 below 65,500 tokens.
inline constexpr TokenType token_type_for(std::int64_t vocab_size) {
  return vocab_size < 65500 ? TokenType::u16 : TokenType::i32;
}

// Streams documents into PREFIX.bin; both files appear under their names only in finish(), .idx last.
class IndexedDatasetWriter {
 public:
  static Result<IndexedDatasetWriter> create(const std::string& prefix, TokenType type);
  ~IndexedDatasetWriter();  // an unfinished file is removed
  IndexedDatasetWriter(IndexedDatasetWriter&&) noexcept;
  IndexedDatasetWriter& operator=(IndexedDatasetWriter&&) noexcept;

  // One document, one sequence; an id that the type cannot hold is ErrorCode::invalid_input. Empty documents are kept.
  Status add_document(std::span<const std::int32_t> tokens);
  Status finish();
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return static_cast<std::int64_t>(lengths_.size()); }

 private:
  IndexedDatasetWriter() = default;
  struct CloseFile {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  std::string prefix_, temporary_;
  TokenType type_ = TokenType::i32;
  std::unique_ptr<std::FILE, CloseFile> bin_;
  std::vector<std::int32_t> lengths_;
  std::vector<char> buffer_;
  std::int64_t tokens_ = 0;
};

// Memory-mapped; every header field and offset is checked on opening. Thread-safe once open.
class IndexedDataset {
 public:
  static Result<IndexedDataset> open(const std::string& prefix);

  TokenType type() const { return type_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t sequences() const { return sequences_; }
  std::int64_t documents() const { return documents_; }

  // All sequences as one stream: ids [begin, begin + out.size()) of it. The range must lie within tokens().
  void read(std::int64_t begin, std::span<std::int32_t> out) const;
  // Token range in that stream.
  struct Range {
    std::int64_t begin = 0, end = 0;
  };
  Range sequence(std::int64_t index) const;
  Range document(std::int64_t index) const;
  std::int64_t document_at(std::int64_t token) const;  // the index of the document that holds the token
  std::vector<std::int32_t> read_document(std::int64_t index) const;

 private:
  IndexedDataset(MappedFile idx, MappedFile bin) : idx_(std::move(idx)), bin_(std::move(bin)) {}
  Status check(const std::string& idx_path, const std::string& bin_path);
  std::int64_t sequence_begin(std::int64_t sequence) const;  // in tokens

  MappedFile idx_, bin_;
  TokenType type_ = TokenType::i32;
  std::int64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
};

}  // namespace longhaul
