// Reads tokenizer.json into the parts of a Tokenizer, refusing by name what this implementation does not do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace longhaul {

class TokenizerFileReader {
 public:
  explicit TokenizerFileReader(std::string name) : name_(std::move(name)) {}
  Result<Tokenizer> read(std::string text);

 private:
  Error refuse(std::string_view field, std::string_view what, std::string hint = {}) const;
  Error damaged(std::string_view field, std::string_view what) const;

  Status read_normalizer(const Value* normalizer, const std::string& field);
  Status read_pretokenizer(const Value* pretokenizer, const std::string& field);
  Status read_split(const Value& split, const std::string& field);
  Status read_decoder(const Value* decoder) const;
  Status read_model(const Value* model);
  Status read_vocabulary(const Value& vocabulary);
  Status read_merges(const Value& merges);
  Status read_added_tokens(const Value* added);
  Status assemble();

  std::string name_;
  Tokenizer made_;
  std::vector<std::string> patterns_;
  bool byte_level_ = false;
  std::vector<std::string> tokens_;                                 // raw bytes per id
  std::vector<std::pair<std::string_view, std::int32_t>> by_text_;  // vocabulary texts, sorted
  std::vector<BpeMerge> merges_;
  bool ignore_merges_ = false;
};

}  // namespace longhaul
