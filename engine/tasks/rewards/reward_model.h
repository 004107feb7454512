// A trained reward model that judges the answers of another model: whole on every rank, nobody trains it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "contracts/settings/stages/reward_form.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/model/llama.h"
#include "engine/tasks/common/task_run.h"

namespace longhaul {

// What the numbers of the model in that folder mean (contracts/settings/stages/reward_form.h).
Result<RewardForm> reward_form_of_folder(const std::string& folder);

// Whether the model of `folder`, `what` in words, reads the tokens of the model of `other` as they are: the same
// tokenizer.json and form of conversations (invalid_input with `hint`).
Status check_same_tokens(const std::string& what, const std::string& folder, const std::string& other,
                         const std::string& hint);

// A prompt and its answer, from which token on that is; borrowed.
struct JudgedText {
  std::span<const std::int32_t> ids;
  std::size_t answer_begin = 0;
};

inline constexpr std::int64_t judged_at_once = 4096;  // tokens of texts that share a pass, or one that is longer

class RewardModel {
 public:
  // From a folder as the stage kind `reward` makes it, or transformers. It judges the tokens of the model of
  // `judged_folder`, whose tokenizer and form of conversations have to be its own (invalid_input), in texts of up to
  // `length_max` tokens. Where the stage has a GPU the model lies there (MemoryCategory::answers counts it), and what
  // is not there on GPUs yet is refused (unsupported).
  static Result<std::unique_ptr<RewardModel>> load(const TaskRun& run, const std::string& folder,
                                                   const std::string& precision, std::int64_t length_max,
                                                   const std::string& judged_folder);
  // One for each text, which ends with the last token of its answer. More is better; what no number is stays so.
  // `says` is called between parts of the work.
  Result<std::vector<double>> rewards(const ComputeContext& context, std::span<const JudgedText> texts,
                                      const std::function<void()>& says);

 private:
  RewardModel(std::int64_t tokens_max, RewardForm form, Tokenizer tokenizer)
      : tokens_max_(tokens_max), form_(std::move(form)), tokenizer_(std::move(tokenizer)) {}

  std::int64_t tokens_max_;
  RewardForm form_;
  Tokenizer tokenizer_;
  std::unique_ptr<MemoryAccounts> memory_;  // on a GPU; else nobody counts
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<Llama> llama_;
};

}  // namespace longhaul
