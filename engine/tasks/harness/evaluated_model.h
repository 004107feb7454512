// A model that is measured: loaded for scoring or for generating, whichever was asked for last; the other one's memory
// is given back first.
#pragma once

#include <memory>
#include <string>

#include "contracts/settings/stages/inference.h"
#include "engine/infer/generate/text_model.h"
#include "engine/tasks/common/measure.h"

namespace longhaul {

class EvaluatedModel {
 public:
  // Borrows the run.
  EvaluatedModel(const TaskRun& run, std::string folder, const EvaluateSettings& settings);
  // Valid until the other one is asked for.
  Result<ScoringModel*> scoring();
  // unsupported where the run computes on a GPU.
  Result<TextModel*> generating();
  std::string tokenizer_file() const;
  const std::string& folder() const { return folder_; }

 private:
  const TaskRun& run_;
  std::string folder_, precision_;
  std::int64_t context_length_;
  bool reward_;  // it is a reward model
  std::unique_ptr<ScoringModel> scoring_;
  std::unique_ptr<TextModel> generating_;
};

}  // namespace longhaul
