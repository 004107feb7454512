// The tokens that a tokenizer.json puts around a text: TemplateProcessing (Llama 3's begin token), BertProcessing,
// RobertaProcessing, ByteLevel (none) and sequences of them, as the tokenizers library applies them to one text with
// add_special_tokens. Trimming of offsets is not ours.
#pragma once

#include <cstdint>
#include <vector>

#include "base/value/value.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace longhaul {

class PostProcessor {
 public:
  // Nothing is added where the file has none. Kinds that are not known are refused by name; `name` stands in errors.
  static Result<PostProcessor> create(const Tokenizer& tokenizer, const std::string& name = "tokenizer.json");

  const std::vector<std::int32_t>& before() const { return before_; }
  const std::vector<std::int32_t>& behind() const { return behind_; }
  std::vector<std::int32_t> around(std::vector<std::int32_t> ids) const;

 private:
  Status read(const Value& processor, const std::string& name);
  Status read_template(const Value& processor, const std::string& name);
  std::vector<std::int32_t> before_, behind_;
};

}  // namespace longhaul
