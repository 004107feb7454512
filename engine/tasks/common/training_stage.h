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

namespace longhaul {

// The settings that the kinds share, and what only the body of a training needs to know.
struct TrainingStageSettings : TrainingCommon, ComputeChoices {
  TrainingStageSettings() = default;
  // Of a kind without choices of its own the model is computed as by default.
  explicit TrainingStageSettings(const TrainingCommon& common) : TrainingCommon(common) {}
  TrainingStageSettings(const TrainingCommon& common, const ComputeChoices& choices)
      : TrainingCommon(common), ComputeChoices(choices) {}

  ModelShape shape;
  bool one_length = false;                // every sample has sequence_length, which is the longest of the phases
  std::int64_t sequences_per_sample = 1;  // 2 for preference pairs
  BatchRampup batch_rampup;
  std::vector<PlannedPhase> phases;  // instead of steps and epochs, where there are any
  std::int64_t eval_every_steps = 0;
  bool deterministic = true;
  bool positions = false, first_key = false;  // in batches: contracts/plan/training_outline.h
  std::string start_model;                    // folder with weights; "": random ones
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
  // What the models compute with, as it stands: what an adapter makes of it, where there is one.
  const ParameterStore& weights() { return stores_.weights(); }
  std::int64_t tokens_max() const { return tokens_max_; }

  // heldout may be null. Trains, writes the artifact, and adds its figures to `figures`. An order to stop is
  // ErrorCode::aborted after the checkpoint was saved.
  Status train(Objective& objective, BatchSource& source, BatchSource* heldout, std::vector<Figure> figures);

 private:
  TrainingStage(TaskRun& run, const TrainingStageSettings& settings)
      : run_(run), settings_(settings), memory_(run.memory ? *run.memory : own_memory_) {}
  Status prepare();
  Status make_stages();
  void note_amounts(std::int64_t samples, std::int64_t steps);
  InProcessRestart in_process_restart();
  void report_faulted(const Error& fault, const std::optional<SilentCorruption>& corruption);
  void leave_doubtful_states(const SilentCorruption& found, Trainer& trainer, const CheckpointStore& checkpoints,
                             const LocalCopies* local_copies);
  Error ended_by(const Error& fault, const std::optional<SilentCorruption>& corruption);
  TrainerOptions trainer_options() const;
  Result<TrainingOutline> outline() const;
  // Before any memory is taken: does what all ranks of this node will hold fit? Collective. Says what is planned.
  Status check_memory_here() const;
  // Collective: the first rank writes, one parameter after the other; its outcome is that rank's.
  std::unique_ptr<KernelTimer> time_kernels();
  Status choose_attention();
  Status write_model(const std::string& folder);
  Status export_model();
  Result<std::unique_ptr<LocalCopies>> create_local_copies();
  // As optimizer.offload says.
  Status offload_moments();
  // Planned beside held, of the rank that held most. Collective.
  Status report_memory(std::vector<Figure>& figures) const;

  TaskRun& run_;
  TrainingStageSettings settings_;
  std::int64_t tokens_max_ = 0;
  MemoryAccounts own_memory_;
  MemoryAccounts& memory_;
  bool reported_corruption_ = false;
  std::unique_ptr<FileStatePlace> moments_place_;
  std::unique_ptr<MomentStream> moments_;  // null: in memory
  AdapterStores stores_;
  std::vector<std::unique_ptr<Llama>> stages_;  // of the pipeline, on this rank
};

// Token ids of a tokenizer for config.json: what ends a text and a turn, what pads.
Result<HfConfig> config_for_tokenizer(const std::string& tokenizer_folder);

}  // namespace longhaul
