// What evaluate measures about one model; each returns figures.
#pragma once

#include <memory>
#include <span>

#include "contracts/settings/stages/inference.h"
#include "engine/data/samples/text_room.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/model/llama.h"
#include "engine/tasks/common/task_run.h"
#include "engine/tasks/scores/paired_scores.h"
#include "engine/train/step/sequence_scores.h"

namespace longhaul {

// A model loaded for scoring only.
class ScoringModel {
 public:
  // A language model, or with `reward` a reward model: the other is refused (invalid_input). context_length 0: the
  // model's longest. Memory is the accounts', where they say; of a device that has too little it
  // is refused (unavailable) before anything is loaded.
  static Result<std::unique_ptr<ScoringModel>> load(const TaskRun& run, const std::string& folder,
                                                    const std::string& precision, std::int64_t context_length,
                                                    bool reward = false);
  Llama& llama() { return *llama_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  std::int64_t context_length() const { return context_length_; }  // of texts
  // The same, with what stands before every text.
  TextRoom room() const {
    const std::int64_t before = store_->shape().virtual_tokens;
    return {context_length_ + before, before};
  }
  std::int64_t tokens_max() const { return tokens_max_; }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  std::int64_t context_length_ = 0, tokens_max_ = 0;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<Llama> llama_;
  std::optional<Tokenizer> tokenizer_;
};

// What stands before a text that nothing stands before: what the tokenizer's file puts there, or the end of the text
// before, as in training.
Result<std::vector<std::int32_t>> document_start(const ScoringModel& model);

// bits_per_byte, perplexity (per token), heldout_documents, heldout_bytes, heldout_tokens: sums over all documents (Gao
// et al., The Pile, arXiv 2101.00027, section 3.1; the rolling log-likelihood of lm-evaluation-harness). Each document
// is alone: it begins behind the token that begins or ends a text, sees nothing of the others, and every one of its
// bytes is scored exactly once; the token that ends it is not.
Result<std::vector<Figure>> measure_bits_per_byte(TaskRun& run, ScoringModel& model,
                                                  std::span<const std::string> documents, std::int64_t stride);
// answer_loss: mean nats per token of the answers of an instruction file.
Result<std::vector<Figure>> measure_answer_loss(TaskRun& run, ScoringModel& model, const std::string& file,
                                                std::span<const std::string> ignore);
// Figures, and what they are made of item by item.
struct MeasuredItems {
  std::vector<Figure> figures;
  ItemScores scores;
};
// preference_accuracy: the chosen answer has the larger log-probability; with its Wilson interval and its standard
// error, the same per token, and what a rule that looks at nothing but the length would have.
Result<MeasuredItems> measure_preferences(TaskRun& run, ScoringModel& model, const std::string& file,
                                          std::span<const std::string> ignore);
// choice_accuracy by summed log-probability, choice_accuracy_per_byte by log-probability per byte of the choice.
// Lines are {"question", "choices": [...], "answer": index}.
Result<MeasuredItems> measure_choices(TaskRun& run, ScoringModel& model, const std::string& file);

// score_sequences with the run's section and progress, shared out over the ranks of the run: each has all scores.
Result<std::vector<SequenceScore>> score_requests(TaskRun& run, ScoringModel& model,
                                                  std::span<const ScoreRequest> requests);

}  // namespace longhaul
