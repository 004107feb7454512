// A reward model as the server has it: conversations that end with an answer become numbers.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "contracts/settings/stages/reward_form.h"
#include "engine/data/template/chat.h"
#include "engine/model/llama.h"

namespace longhaul {

struct JudgedAnswer {
  double score = 0;  // more is better; may be no number where the model's weights are none
  // Of a model of attributes each of them by its name, of one of steps how likely each is right; else empty.
  std::vector<std::pair<std::string, double>> attributes = {};
  std::vector<double> steps = {};
  std::int64_t tokens = 0;
};

class AnswerJudge {
 public:
  // Of a folder whose config.json names a sequence classifier that is a reward model. context_length 0: the model's. On
  // processors. Errors (invalid_input) say what the folder lacks.
  static Result<std::unique_ptr<AnswerJudge>> load(const std::string& folder, const std::string& precision, int threads,
                                                   std::int64_t context_length);
  // One for each conversation, in their order. invalid_input: one makes no sense, does not end with the assistant or is
  // longer than the context; the error names it (from 0). Thread-safe: callers wait for each other.
  Result<std::vector<JudgedAnswer>> judge(std::span<const std::vector<ChatMessage>> conversations);
  std::int64_t context_length() const { return context_length_; }

 private:
  AnswerJudge(Tokenizer tokenizer, int threads) : tokenizer_(std::move(tokenizer)), compute_(threads) {}

  Tokenizer tokenizer_;
  std::optional<ChatEncoder> encoder_;
  RewardForm form_;
  std::int64_t context_length_ = 0, tokens_max_ = 0;
  std::mutex mutex_;  // of what computes
  ComputeContext compute_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<Llama> llama_;
};

// Whether that is what a folder holds; false where nothing can be read.
bool is_reward_model(const std::string& folder);

}  // namespace longhaul
