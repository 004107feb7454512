// Small commands that print what other programs can be compared with: token ids, logits, greedy text.
#pragma once

#include <string>

#include "engine/data/tokenizer/tokenizer.h"
#include "engine/model/inference/inference_model.h"
#include "engine/ops/gpu.h"

namespace longhaul {

// `documents`: JSON Lines with a "text" each, or any other file as one text.
Status print_token_ids(const std::string& tokenizer_path, const std::string& documents_path);
// Renders a chat template with each line of `variables`, a JSON table of what the template sees (messages, tools,
// add_generation_prompt, bos_token, ...). Prints {"text", "answers": [[begin, end], ...]} or {"error"} a line.
Status print_rendered(const std::string& template_path, const std::string& variables_path);
// How the two below compute: precision f32 or bf16, device cpu or gpu.
struct InferenceChoice {
  std::string precision = "f32", device = "cpu";
};
// `tokens`: a JSON array of ids, or {"tokens": [...]}. Prints {"vocab", "tokens", "logits": [[...], ...]}.
Status print_logits(const std::string& model_folder, const std::string& tokens_path, const InferenceChoice& choice,
                    const OpenGpu& open_gpu);
Status print_generated(const std::string& model_folder, const std::string& prompt, std::int64_t tokens_max,
                       const InferenceChoice& choice, const OpenGpu& open_gpu);

// For one sequence of so many tokens; where the context has a device, the model lies there, if there is room for it.
Result<InferenceModel> load_for_one(const ComputeContext& context, const std::string& folder, DType dtype,
                                    std::int64_t tokens, std::int64_t prompt_tokens);

// The most likely token, again and again, until one of `ends` or tokens_max; the prompt is not part of the result.
Result<std::vector<std::int32_t>> generate_greedy(const ComputeContext& context, InferenceModel& model,
                                                  std::span<const std::int32_t> prompt, std::int64_t tokens_max,
                                                  std::span<const std::int64_t> ends);

}  // namespace longhaul
