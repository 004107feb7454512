// Trains byte-level BPE. Vocabulary and merges are identical with the reference trainer (Hugging Face tokenizers,
// BpeTrainer with ByteLevel's whole alphabet) on the same documents, pattern and settings, however many threads count.
//
// Words (pieces of the pre-tokenizer) are counted once; then the most frequent pair of neighbours becomes a token,
// again and again. Ties: the smaller pair of ids first. Ids: special tokens, the 256 bytes by their stand-in character,
// then merges in order. Only the words that hold the merged pair are touched, so a merge costs what it changes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"
#include "engine/data/tokenizer/pretokenizer.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace longhaul {

struct BpeTrainerSettings {
  std::int64_t vocabulary = 32768;  // all ids: special tokens and bytes included; at least 256 + special tokens
  std::int64_t min_frequency = 0;   // pairs seen less often are not merged
  PretokenizerPattern pattern = PretokenizerPattern::llama3;
  std::vector<std::string> special_tokens;
  // (fraction done, in 0..1), from time to time; may be empty
  std::function<void(double)> progress;
};

// How often each word occurs. One per thread while counting, then added up.
class WordCounts {
 public:
  WordCounts();
  ~WordCounts();
  WordCounts(WordCounts&&) noexcept;
  WordCounts& operator=(WordCounts&&) noexcept;

  // `text`: valid UTF-8, below 4 GiB. Special tokens in it are ordinary text.
  void add(std::string_view text, const Pretokenizer& pretokenizer);
  void add(const WordCounts& other);
  std::size_t distinct() const;

 private:
  friend class BpeTrainer;
  friend Result<Tokenizer> train_bpe(const WordCounts& words, const BpeTrainerSettings& settings);
  struct Table;
  std::unique_ptr<Table> table_;
};

// Stops early, with fewer tokens, when no pair is frequent enough. Nothing to count: ErrorCode::invalid_input.
Result<Tokenizer> train_bpe(const WordCounts& words, const BpeTrainerSettings& settings);

}  // namespace longhaul
