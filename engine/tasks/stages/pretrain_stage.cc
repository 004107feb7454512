#include <algorithm>

#include "base/files/file_query.h"
#include "base/files/file_retry.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/common/pretrain_data.h"
#include "engine/tasks/common/training_stage.h"
#include "engine/tasks/stages/stages.h"

namespace longhaul {

namespace {

// The model's shape: of the model to start from, or the settings' with the tokenizer's vocabulary.
Result<ModelShape> shape_for(const TrainingStageSettings& stage, const PretrainSettings& settings) {
  LH_TRY(const Tokenizer tokenizer, Tokenizer::load(join_path(stage.tokenizer_folder, "tokenizer.json")));
  ModelShape shape = settings.model;
  if (!stage.start_model.empty()) {
    LH_TRY(const HfConfig config, load_model_config(stage.start_model));
    shape = config.shape;
  }
  if (shape.vocab_size == 0) shape.vocab_size = tokenizer.vocab_size();
  if (shape.vocab_size < tokenizer.vocab_size())
    return make_error(
        ErrorCode::invalid_input,
        format("model.vocab_size = {} is smaller than the tokenizer's {}", shape.vocab_size, tokenizer.vocab_size()),
        "leave vocab_size out to take the tokenizer's");
  return shape;
}

}  // namespace

Status run_pretrain(TaskRun& run) {
  LH_TRY(const PretrainSettings settings, run.settings(pretrain_fields()));
  LH_TRY(const std::string tokens, run.task.input_path("tokens"));
  TrainingStageSettings stage_settings(settings, settings);
  stage_settings.one_length = true;
  stage_settings.tokenizer_folder = tokens;
  if (run.task.input("model")) {
    LH_TRY(stage_settings.start_model, run.task.input_path("model"));
  }
  LH_TRY(stage_settings.shape, shape_for(stage_settings, settings));
  if (!settings.phases.empty()) {
    LH_CHECK(check_pretraining(settings, false));
    LH_TRY(const PhasePlan plan, phases_of(settings, false));
    stage_settings.phases = plan.phases;
    stage_settings.sequence_length = 0;  // memory is made for the longest
    for (const PlannedPhase& phase : plan.phases)
      stage_settings.sequence_length = std::max(stage_settings.sequence_length, phase.sequence_length);
  }
  stage_settings.batch_rampup = settings.batch_rampup;
  stage_settings.eval_every_steps = settings.eval_every_steps;
  stage_settings.deterministic = settings.deterministic;
  stage_settings.first_key = settings.document_mask, stage_settings.positions = settings.reset_positions;

  LH_TRY(TokenSource source, open_pretrain_data(run.task, settings));
  std::optional<TokenSource> heldout;
  // An error is no absence: the other ranks would wait for this one when they evaluate.
  LH_TRY(const bool has_heldout, retried({}, [&] { return is_there(join_path(tokens, "heldout.idx")); }));
  if (has_heldout) {
    auto opened = TokenSource::open(join_path(tokens, "heldout"), stage_settings.sequence_length, 0,
                                    SampleOrder::sequential, {settings.document_mask, settings.reset_positions});
    if (opened.ok())
      heldout.emplace(std::move(opened).value());
    else if (opened.error().code == ErrorCode::io)
      return opened.error();
    else  // too short for one sample: no held-out loss, no reason to stop
      run.events.message("warn", opened.error().message());
  }
  LanguageModelObjective objective;
  LH_TRY(const std::unique_ptr<TrainingStage> stage, TrainingStage::create(run, stage_settings));
  return stage->train(objective, source, heldout ? &*heldout : nullptr, {});
}

}  // namespace longhaul
