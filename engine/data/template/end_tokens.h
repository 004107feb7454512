// The tokens that begin and end what a model writes, from all the places where a folder says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/tokenizer/tokenizer.h"

namespace longhaul {

struct ModelTokens {
  std::vector<std::int64_t> ends;  // any of them ends an answer; each once
  std::int64_t bos = -1, pad = -1;
};

// Ends: eos_token_id of config.json and of generation_config.json, one or a list; eos_token of tokenizer_config.json;
// the end-of-turn and end-of-text tokens of Longhaul's chat form. Ids without a token in the vocabulary are kept:
// models have more rows than tokens.
Result<ModelTokens> tokens_of_folder(const std::string& folder, const Tokenizer& tokenizer);

}  // namespace longhaul
