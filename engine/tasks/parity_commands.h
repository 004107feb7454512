// Small commands that print what other programs can be compared with: token ids, logits, greedy text.
#pragma once

#include <string>

#include "engine/data/tokenizer.h"
#include "engine/model/inference_model.h"

namespace longhaul {

// `documents`: JSON Lines with a "text" each, or any other file as one text.
Status print_token_ids(const std::string& tokenizer_path, const std::string& documents_path);
// `tokens`: a JSON array of ids, or {"tokens": [...]}. Prints {"vocab", "tokens", "logits": [[...], ...]}.
Status print_logits(const std::string& model_folder, const std::string& tokens_path, const std::string& precision);
Status print_generated(const std::string& model_folder, const std::string& prompt, std::int64_t tokens_max,
                       const std::string& precision);

// The most likely token, again and again, until one of `ends` or tokens_max; the prompt is not part of the result.
Result<std::vector<std::int32_t>> generate_greedy(const ComputeContext& context, InferenceModel& model,
                                                  std::span<const std::int32_t> prompt, std::int64_t tokens_max,
                                                  std::span<const std::int64_t> ends);

}  // namespace longhaul
