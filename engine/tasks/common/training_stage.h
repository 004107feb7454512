// Room engine/tasks/common
// What several stages of the engine share.
// task_run.h is what a stage is given; training_stage.h is the body of pretrain, sft and align.
// token_files.h and pretrain_data.h open data; measure.h evaluates; available_memory.h checks memory first.
// It does not know the single stages or the command line, which both call it.
//
// What pretrain, sft and align share: weights, trainer, checkpoints, the loop, and the artifact that comes out.
#pragma once

#include <functional>
#include <memory>

#include "contracts/model/hf_config.h"
#include "contracts/plan/training_outline.h"
#include "engine/checkpoint/state/file_state_place.h"
#include "engine/model/adapter/adapter_export.h"
#include "engine/tasks/common/task_run.h"
#include "engine/train/loop/training_loop.h"
#include "engine/train/step/sequence_scores.h"

namespace longhaul {

// The settings that the kinds share, and what only the body of a training needs to know.
struct TrainingStageSettings : TrainingCommon, ComputeChoices {
  TrainingStageSettings() = default;
  // Of a kind without choices of its own the model is computed as by default, but for how its sequences are shared.
  TrainingStageSettings(const TrainingCommon& common, const ContextChoice& context) : TrainingCommon(common) {
    cp_attention = context.cp_attention;
  }
  TrainingStageSettings(const TrainingCommon& common, const ComputeChoices& choices)
      : TrainingCommon(common), ComputeChoices(choices) {}

  // For losses whose weights have either sign: a balancing loss of experts, which they would scale, has no meaning.
  void leave_out_balance() { moe.balance = "none", moe.z_loss_coef = 0; }

  ModelShape shape;
  bool one_length = false;                // every sample has sequence_length, which is the longest of the phases
  std::int64_t sequences_per_sample = 1;  // 2 for preference pairs
  BatchRampup batch_rampup;
  std::vector<PlannedPhase> phases;  // instead of steps and epochs, where there are any
  std::int64_t eval_every_steps = 0;
  bool deterministic = true;
  bool positions = false, first_key = false;  // in batches: contracts/plan/training_outline.h
  std::string start_model;                    // folder with weights; "": random ones
  bool new_head = false;                      // it has none of the shape's scalar head, which begins anew
  bool names_padding = true;                  // config.json says which token pads
  Value reward_form = {};                     // of a reward model: HfConfig
  std::int64_t steps_together = 1;            // as TrainingLoopOptions has it
  bool draws_answers = false;                 // that it learns from: EngineCase
  std::int64_t answer_bytes = 0;              // TrainingOutline::answers
  std::string tokenizer_folder;               // goes into the artifact
};

// `steps`, or where it is 0 as many as `epochs` passes have whole batches; at least one.
std::int64_t training_steps(std::int64_t steps, double epochs, std::int64_t samples_per_epoch,
                            std::int64_t global_batch_size, const BatchRampup& rampup = {});

// Built in this order: construct (memory and start weights), use model() if the objective needs the start model, then
// train().
class TrainingStage {
 public:
  static Result<std::unique_ptr<TrainingStage>> create(TaskRun& run, const TrainingStageSettings& settings);

  Llama& model() { return *stages_.front(); }
  const std::vector<std::unique_ptr<Llama>>& stages() const { return stages_; }
  // What the models compute with, as it stands: what an adapter makes of it, where there is one.
  const ParameterStore& weights() { return stores_.weights(); }
  // Grows with every change of what is trained, on all ranks alike.
  std::int64_t version() const { return stores_.trained->version(); }
  std::int64_t tokens_max() const { return tokens_max_; }
  // Borrowed, for train(). Neither restarts in the process nor copies on nodes know of it: the settings ask for none.
  void train_beside(TrainingCompanion& companion) { companion_ = &companion; }
  // Of model(), for whoever asks it before train().
  const AdapterStores& stores() const { return stores_; }

  // heldout may be null. Trains, writes the artifact, and adds its figures to `figures`. An order to stop is
  // ErrorCode::aborted after the checkpoint was saved. `at_end`, where it is given, adds figures of the trained
  // model(), unless there is none (checkpoint.at_end); collective.
  Status train(Objective& objective, BatchSource& source, BatchSource* heldout, std::vector<Figure> figures,
               const std::function<Status(std::vector<Figure>&)>& at_end = {});

 private:
  TrainingStage(TaskRun& run, const TrainingStageSettings& settings)
      : run_(run), settings_(settings), memory_(run.memory ? *run.memory : own_memory_) {}
  Status prepare();
  Status make_stages();
  InProcessRestart in_process_restart();
  Error ended_by(const Error& fault, const std::optional<SilentCorruption>& corruption);
  TrainerOptions trainer_options() const;
  Result<TrainingOutline> outline() const;
  // Before any memory is taken: does what all ranks of this node will hold fit? Collective. Says what is planned.
  Status check_memory_here() const;
  // Collective: the outcome is that of the first rank, which writes.
  Status write_model(const std::string& folder);
  Status export_model();
  Result<std::unique_ptr<LocalCopies>> create_local_copies();
  // As optimizer.offload says.
  Status offload_moments();
  // Planned beside held, of the rank that held most. Collective.
  Status add_memory(std::vector<Figure>& figures) const;

  TaskRun& run_;
  TrainingStageSettings settings_;
  std::int64_t tokens_max_ = 0;
  MemoryAccounts own_memory_;
  MemoryAccounts& memory_;
  bool reported_corruption_ = false;
  TrainingCompanion* companion_ = nullptr;
  std::unique_ptr<FileStatePlace> moments_place_;
  std::unique_ptr<MomentStream> moments_;  // null: in memory
  AdapterStores stores_;
  std::vector<std::unique_ptr<Llama>> stages_;  // of the pipeline, on this rank
};

// The model where ranks hold it together, for micro-batches of the training's size. Borrows both.
ReplicaModel replica_model(TaskRun& run, const TrainingStage& stage);

// Token ids of a tokenizer for config.json: what ends a text and a turn, what pads.
Result<HfConfig> config_for_tokenizer(const std::string& tokenizer_folder);

}  // namespace longhaul
