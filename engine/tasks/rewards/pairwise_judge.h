// A language model that says which of two answers to a prompt is better, by a constitution: a text of principles.
//
// It is asked twice, with the two answers in either order, and what counts is how likely it begins its own answer with
// "A" rather than with "B": p(A) / (p(A) + p(B)). The mean over both orders is the preference, so that a judge which
// likes one place, whatever stands there, prefers neither. Bai et al. 2022, arXiv:2212.08073, section 4.1 (the question
// and the normalised probability of the letters); Lee et al. 2023, arXiv:2309.00267, section 2.1 (both orders).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "contracts/settings/stages/sample.h"
#include "engine/data/template/chat.h"
#include "engine/model/inference/inference_model.h"
#include "engine/tasks/common/task_run.h"

namespace longhaul {

struct ComparedAnswers {
  std::string prompt, first, second;
};
struct Preference {
  std::optional<double> first;  // how likely the first is the better one, from 0 to 1
  std::string problem;          // where it is not known
  bool flips = false;           // the two orders name different answers
  double letters = 0;           // p(A) + p(B), mean of both orders: near 0 where the judge does not say letters at all
};

// The question with its places filled in; what stands in an answer is never taken for a place.
std::string judge_question(const std::string& question, const std::string& constitution, const ComparedAnswers& asked,
                           bool swapped);
// A prompt as a judge reads it: what the user asks, or the turns of a conversation, each behind its role.
std::string prompt_text(std::span<const ChatMessage> messages);

class PairwiseJudge {
 public:
  // Of a folder with a language model, on processors, whole on every rank. invalid_input where its tokenizer has no
  // token for either letter. Borrows the run.
  static Result<std::unique_ptr<PairwiseJudge>> load(const TaskRun& run, const std::string& folder,
                                                     const JudgeSettings& settings, const std::string& constitution,
                                                     const std::string& precision);
  // One for each, in their order. Depends on which are asked together only as rounding does. A question that is longer
  // than the judge's context has a problem.
  Result<std::vector<Preference>> compare(std::span<const ComparedAnswers> asked);

 private:
  struct Question {
    std::vector<std::int32_t> ids;
    double first_letter = 0, letters = 0;  // p(A) / (p(A) + p(B)), and the sum
  };

  PairwiseJudge(const TaskRun& run, Tokenizer tokenizer, InferenceModel model, JudgeSettings settings,
                std::string constitution)
      : run_(run),
        tokenizer_(std::move(tokenizer)),
        model_(std::move(model)),
        settings_(std::move(settings)),
        constitution_(std::move(constitution)) {}
  Result<std::vector<std::int32_t>> encode(const ComparedAnswers& asked, bool swapped) const;
  // Fills in what the model says.
  Status ask(std::span<Question> questions);

  const TaskRun& run_;
  const Tokenizer tokenizer_;
  std::optional<ChatEncoder> encoder_;  // borrows the tokenizer
  InferenceModel model_;
  const JudgeSettings settings_;
  const std::string constitution_;
  std::int32_t a_ = 0, b_ = 0;
};

}  // namespace longhaul
