#include "engine/tasks/harness/evaluated_model.h"

#include "base/files/files.h"
#include "engine/infer/generate/inference_text_model.h"

namespace longhaul {

EvaluatedModel::EvaluatedModel(const TaskRun& run, std::string folder, const EvaluateSettings& settings)
    : run_(run),
      folder_(std::move(folder)),
      precision_(settings.precision),
      context_length_(settings.context_length),
      reward_(measures_rewards(settings)) {}

std::string EvaluatedModel::tokenizer_file() const {
  return join_path(folder_, "tokenizer.json");
}

Result<ScoringModel*> EvaluatedModel::scoring() {
  if (scoring_) return scoring_.get();
  generating_.reset();
  run_.section("load");
  LH_TRY(scoring_, ScoringModel::load(run_, folder_, precision_, context_length_, reward_));
  return scoring_.get();
}

Result<TextModel*> EvaluatedModel::generating() {
  if (generating_) return generating_.get();
  if (run_.gpu != nullptr)
    return make_error(ErrorCode::unsupported, "answers to tasks are not generated on a GPU", "use device = \"cpu\"");
  scoring_.reset();
  run_.section("load");
  InferenceTextModelOptions options;
  options.precision = precision_, options.threads = run_.compute.threads(), options.context_length = context_length_;
  LH_TRY(generating_, load_inference_text_model(folder_, options));
  return generating_.get();
}

}  // namespace longhaul
