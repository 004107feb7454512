#include "engine/tasks/common/training_stage.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <set>
#include <thread>
#include <utility>

#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/process/process.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "contracts/checkpoints/checkpoint_files.h"
#include "contracts/events/fault_event.h"
#include "contracts/plan/memory_plan.h"
#include "engine/data/template/chat.h"
#include "engine/data/template/end_tokens.h"
#include "engine/model/store/model_folder.h"
#include "engine/ops/linear/gemm.h"
#include "engine/parallel/pipeline/gather_masters.h"
#include "engine/tasks/common/amount_notes.h"
#include "engine/tasks/common/milestone.h"
#include "engine/tasks/common/training_check.h"
#include "engine/tasks/training/doubtful_states.h"
#include "engine/tasks/training/memory_report.h"
#include "engine/tasks/training/trained_model.h"
#include "engine/train/step/replay_verdict.h"

namespace longhaul {

namespace {

ModelShape adapted_shape(const TrainingStageSettings& settings) {
  ModelShape shape = settings.shape;
  shape.adapter = settings.adapter;
  return shape;
}

// Random ones, or those of the start model, with an adapter that changes nothing yet.
Status start_weights(const ComputeContext& context, const TrainingStageSettings& settings, AdapterStores& stores) {
  const auto seed = static_cast<std::uint64_t>(settings.seed);
  if (settings.start_model.empty()) {
    initialize_parameters(context, *stores.trained, seed);
    return {};
  }
  LH_CHECK(load_model_weights(context, settings.start_model, stores.weights(),
                              settings.new_head ? std::optional(seed) : std::nullopt,
                              settings.adapter.changes_weights() ? std::nullopt : std::optional(seed)));
  if (stores.adapted) stores.adapted->initialize(seed);
  return {};
}

// What a training has done, as figures.
void add_outcome(const TrainingOutcome& outcome, const TrainingStageSettings& settings, std::int64_t steps,
                 double peak_flops, std::vector<Figure>& figures) {
  figures.push_back({"steps", static_cast<double>(outcome.step), "steps"});
  // Not what the settings alone would have given, or no model at all.
  if (outcome.steered || !settings.checkpoint.at_end) figures.push_back({"steered", 1, ""});
  if (!settings.phases.empty()) figures.push_back({"phases", static_cast<double>(settings.phases.size()), ""});
  if (outcome.skipped > 0) figures.push_back({"skipped_steps", static_cast<double>(outcome.skipped), "steps"});
  if (outcome.rollbacks > 0) figures.push_back({"rollbacks", static_cast<double>(outcome.rollbacks), ""});
  if (outcome.restarts > 0) figures.push_back({"in_process_restarts", static_cast<double>(outcome.restarts), ""});
  if (outcome.shortened) figures.push_back({"steps_planned", static_cast<double>(steps), "steps"});
  figures.push_back({"parameters", static_cast<double>(settings.shape.parameter_count()), ""});
  if (outcome.tokens > 0) {
    figures.push_back({"loss", outcome.loss, "nats"});
    figures.push_back({"tokens_per_s", outcome.tokens_per_s(), "tokens/s"});
    if (outcome.computed_tokens > outcome.tokens)
      figures.push_back({"computed_tokens_per_s", outcome.computed_tokens / outcome.seconds, "tokens/s"});
    figures.push_back({"gflops", outcome.flops / outcome.seconds * 1e-9, "GFLOP/s"});
    if (peak_flops > 0) figures.push_back({"mfu", outcome.flops / outcome.seconds / peak_flops, ""});
  }
}

// Null where it was not asked for, or cannot be: no reason not to train.
std::unique_ptr<KernelTimer> time_kernels(const TaskRun& run, const TrainingStageSettings& settings) {
  if (!settings.trace.kernels) return nullptr;
  if (!run.gpu) {
    run.events.message("warn", "trace.kernels: there is no GPU whose kernels could be timed");
    return nullptr;
  }
  Result<std::unique_ptr<KernelTimer>> timer = run.gpu->time_kernels();
  if (timer.ok()) return std::move(*timer);
  run.events.message("warn", "trace.kernels: " + timer.error().message());
  return nullptr;
}

// Each kind of attention is reported by the first rank when it is first used.
Status choose_attention(const TaskRun& run, const TrainingStageSettings& settings) {
  if (!run.gpu) return {};
  const auto observer = [&run](const AttentionReport& report) {
    Value fields = Value::make_table();
    fields.set("of", report.asked.text());
    fields.set("by", attention_way_name(report.choice.way));
    fields.set("reason", report.choice.reason);
    run.events.write("attention", std::move(fields));
  };
  return run.group.agree(run.gpu->use_attention({settings.attention_backend, settings.deterministic}, observer));
}

// Once for a training, not again where it goes on.
void note_amounts(const TaskRun& run, const TrainingStageSettings& settings, std::int64_t samples, std::int64_t steps) {
  if (run.group.rank() != 0 || !run.launch.start_checkpoint.empty()) return;
  TrainingAmounts amounts;
  amounts.samples = samples, amounts.steps = steps;
  amounts.global_batch_size = settings.global_batch_size;
  if (settings.phases.empty()) amounts.warmup_steps = settings.optimizer.warmup_steps;
  amounts.checkpoint_every_steps = settings.checkpoint.every_steps;
  amounts.eval_every_steps = settings.eval_every_steps;
  for (const std::string& note : notes_on_amounts(amounts)) run.events.message("warn", note);
}

}  // namespace

ReplicaModel replica_model(TaskRun& run, const TrainingStage& stage) {
  const std::int64_t length = stage.stages().front()->length_max();
  ReplicaModel model{run.mesh, {}, stage.tokens_max() / length, length};
  for (const auto& one : stage.stages()) model.stages.push_back(one.get());
  return model;
}

Result<HfConfig> config_for_tokenizer(const std::string& tokenizer_folder) {
  HfConfig config;
  LH_TRY(const Tokenizer tokenizer, Tokenizer::load(join_path(tokenizer_folder, "tokenizer.json")));
  // A foreign folder may name none; then generation ends at its length only.
  LH_TRY(const ModelTokens named, tokens_of_folder(tokenizer_folder, tokenizer));
  config.eos_token_ids = named.ends;
  config.bos_token_id = named.bos, config.pad_token_id = named.pad;
  return config;
}

std::int64_t training_steps(std::int64_t steps, double epochs, std::int64_t samples_per_epoch,
                            std::int64_t global_batch_size, const BatchRampup& rampup) {
  if (steps > 0) return steps;
  const auto samples = static_cast<std::int64_t>(epochs * static_cast<double>(samples_per_epoch));
  std::int64_t whole = steps_of_samples(rampup, global_batch_size, samples);
  if (samples_of_steps(rampup, global_batch_size, whole) > samples) --whole;
  return std::max<std::int64_t>(1, whole);
}

Result<std::unique_ptr<TrainingStage>> TrainingStage::create(TaskRun& run, const TrainingStageSettings& settings) {
  std::unique_ptr<TrainingStage> stage(new TrainingStage(run, settings));
  LH_CHECK(stage->prepare());
  return stage;
}

Status TrainingStage::prepare() {
  LH_TRY(settings_.shape, resolve_shape(settings_.shape));
  const ModelShape& shape = settings_.shape;
  LH_CHECK(check_training(run_.task.kind, settings_, run_.mesh.dims()));
  tokens_max_ = settings_.micro_batch_size * settings_.sequences_per_sample * settings_.sequence_length;
  const DType dtype = settings_.precision == "bf16" ? DType::bf16 : DType::f32;
  LH_CHECK(choose_attention(run_, settings_));
  if (settings_.corruption.check == "replay" && run_.mesh.dims().dp() == 1)
    run_.events.message("warn", "corruption.check = \"replay\": there is no other data-parallel rank to compare with");
  MeshPlace place{run_.mesh.dims(), run_.mesh.at()};
  LH_TRY(place.stages, resolve_stages(static_cast<int>(shape.num_hidden_layers), place.dims.pp, place.dims.vp,
                                      settings_.pipeline.stages()));
  LH_CHECK(training_schedules(trainer_options(), run_.mesh));
  LH_CHECK(check_memory_here());
  auto made = make_adapter_stores(run_.compute, adapted_shape(settings_), dtype, &memory_, place, run_.mesh);
  LH_CHECK(run_.group.agree(made.ok() ? Status() : Status(made.error())));
  stores_ = std::move(*made);
  LH_CHECK(make_stages());
  run_.section("initialize");
  return start_weights(run_.compute, settings_, stores_);
}

Status TrainingStage::make_stages() {
  LH_TRY(const TrainingSchedules schedules, training_schedules(trainer_options(), run_.mesh));
  for (int chunk = 0; chunk < run_.mesh.dims().vp; ++chunk) {
    LlamaOptions options = stage_options(schedules, trainer_options(), run_.mesh, chunk);
    options.tokens_max = tokens_max_;
    options.length_max = settings_.sequence_length;
    options.dropout = settings_.dropout, options.seed = static_cast<std::uint64_t>(settings_.seed);
    options.memory = &memory_;
    LH_TRY(options.recompute, recompute_from(settings_.recompute));
    options.moe = settings_.moe;
    options.low_precision = settings_.low_precision;
    LH_TRY(options.context_attention, context_attention_kind(settings_.cp_attention));
    options.overlap_context = settings_.overlap.context;
    options.overlap_tensor.on = settings_.overlap.tensor;
    options.overlap_experts = settings_.overlap.experts;
    stages_.push_back(std::make_unique<Llama>(stores_.weights(), options));
  }
  return {};
}

TrainerOptions TrainingStage::trainer_options() const {
  TrainerOptions options;
  options.optimizer = settings_.optimizer, options.seed = static_cast<std::uint64_t>(settings_.seed);
  options.adapted = stores_.adapted.get();
  options.micro_batch_size = settings_.micro_batch_size, options.global_batch_size = settings_.global_batch_size;
  options.batch_rampup = settings_.batch_rampup;
  options.deterministic = settings_.deterministic;
  options.check_contributions = settings_.corruption.check != "off";
  options.replay_every = settings_.corruption.check == "replay" ? settings_.corruption.replay_every : 0;
  options.phases = settings_.phases;
  options.on_spike = settings_.on_spike;
  options.pipeline = settings_.pipeline;
  options.overlap_gradients = settings_.overlap.gradients, options.overlap_weights = settings_.overlap.weights;
  options.overlap_pipeline = settings_.overlap.pipeline;
  return options;
}

Result<TrainingOutline> TrainingStage::outline() const {
  TrainingOutline o;
  LH_CHECK(take_settings(settings_, run_.mesh.dims(), o));
  o.shape = settings_.shape, o.sequence_length = settings_.sequence_length;
  o.micro_batch_size *= settings_.sequences_per_sample;
  o.positions = settings_.positions, o.first_key = settings_.first_key;
  o.answers = settings_.answer_bytes;
  o.preference_pairs = settings_.sequences_per_sample == 2, o.padding = !settings_.one_length;
  o.memory_snapshot &= run_.beat != nullptr;  // there is nobody to order a restart
  const DType computed = o.bf16 ? DType::bf16 : DType::f32;
  o.compiled_products = gemm_compiles(run_.compute, computed);
  o.packed_products = gemm_is_packed(run_.compute, computed);
  return o;
}

Status TrainingStage::check_memory_here() const {
  LH_TRY(const TrainingOutline plan, outline());
  // The launcher placed the ranks: each knows best where it is.
  LH_TRY(const std::vector<std::string> hosts, run_.group.all_gather_text(host_name()));
  const std::string& own = hosts[static_cast<std::size_t>(run_.group.rank())];
  std::vector<int> ranks;  // of this node
  for (int rank = 0; rank < run_.group.size(); ++rank)
    if (hosts[static_cast<std::size_t>(rank)] == own) ranks.push_back(rank);
  Status fits;
  if (ranks.front() == run_.group.rank())
    fits = check_available(
        [&] { return available_memory(run_.scheduler); },
        [&](const AvailableMemory& found) { return check_memory(plan, ranks, found.bytes, found.from); },
        [] { std::this_thread::sleep_for(std::chrono::milliseconds(memory_pause_ms)); });
  if (fits.ok() && run_.gpu)
    fits = check_gpu_memory(plan, run_.group.rank(), run_.gpu->device().free_bytes(), run_.gpu->device().name());
  LH_CHECK(run_.group.agree(fits));
  if (!run_.is_first()) return {};
  LH_TRY(const WorstRank worst, plan_worst_rank(plan));
  run_.events.message("info", format("memory planned for rank {}, which needs most of {} ranks on {} nodes: {}",
                                     worst.rank, hosts.size(), std::set<std::string>(hosts.begin(), hosts.end()).size(),
                                     memory_text(worst.plan.bytes)));
  return {};
}

Status TrainingStage::add_memory(std::vector<Figure>& figures) const {
  LH_TRY(const TrainingOutline plan, outline());
  LH_TRY(const MemoryUse use, report_memory(plan, run_.mesh.at(), memory_, run_.group, run_.events));
  figures.push_back({"memory_held", use.held_bytes, "bytes"});
  figures.push_back({"memory_planned", static_cast<double>(use.planned.total()), "bytes"});
  return {};
}

namespace {

Result<ModelFolderOptions> folder_options(const TrainingStageSettings& settings) {
  ModelFolderOptions options;
  LH_TRY(options.config, config_for_tokenizer(settings.tokenizer_folder));
  options.config.shape = settings.shape, options.config.reward_form = settings.reward_form;
  if (!settings.names_padding) options.config.pad_token_id = -1;
  options.tokenizer_folder = settings.tokenizer_folder;
  return options;
}

}  // namespace

Status TrainingStage::write_model(const std::string& folder) {
  return write_trained_model(
      run_.mesh, run_.is_first(), stores_, settings_.start_model, [this] { return folder_options(settings_); }, folder);
}

Status TrainingStage::export_model() {
  run_.section("export");
  if (run_.is_first())
    if (auto fault = fault_here(FaultPoint::engine_before_artifact)) return *fault;
  return write_model(run_.launch.output_dir);
}

namespace {

RetentionPolicy retention_of(const CheckpointSettings& settings) {
  return {settings.keep_last, settings.keep_every, settings.keep_best};
}

}  // namespace

Result<std::unique_ptr<LocalCopies>> TrainingStage::create_local_copies() {
  LocalCopiesOptions options;
  options.folder = settings_.checkpoint.local_dir;
  options.compute = &run_.compute;
  options.account = &memory_.of(MemoryCategory::checkpoint);
  options.fence = fence_of(run_.launch);
  return LocalCopies::create(run_.clock, run_.group, run_.launch.state_dir, options);
}

Status TrainingStage::offload_moments() {
  const OptimizerSettings& settings = settings_.optimizer;
  if (settings.offload == "host")
    run_.events.message("info",
                        "optimizer.offload = \"host\": this engine computes in the memory of the host, where the "
                        "moments stay; node_local frees it");
  if (settings.offload != "node_local") return {};
  MemoryAccount& account = memory_.of(MemoryCategory::optimizer);
  const StateTypes types = state_types(settings);
  const std::int64_t elements = stores_.trained->layout().owned().size(),
                     bytes = MomentStream::bytes_for(types, elements);
  LH_TRY(moments_place_, FileStatePlace::create(settings.offload_dir, bytes, &account));
  MomentStreamOptions options;
  options.account = &account;
  LH_TRY(moments_, MomentStream::create(*moments_place_, types, elements, options));
  run_.events.message("info", format("moments of the optimizer: {} of this rank in {}{}, {} of buffers in memory",
                                     human_bytes(static_cast<double>(bytes)), settings.offload_dir,
                                     moments_place_->is_direct() ? "" : " (by the page cache: no direct I/O there)",
                                     human_bytes(static_cast<double>(moments_->staging_bytes()))));
  return {};
}

// The weights stay where they are; the models, which hold the communicators, are made again.
InProcessRestart TrainingStage::in_process_restart() {
  InProcessRestart restart;
  restart.epoch = run_.launch.epoch;
  restart.leave = [this] { stages_.clear(); };
  restart.join = [this](std::int64_t epoch) -> Result<std::vector<Llama*>> {
    if (run_.reconnect) LH_CHECK(run_.reconnect(epoch));
    LH_CHECK(make_stages());
    std::vector<Llama*> stages;
    for (const auto& stage : stages_) stages.push_back(stage.get());
    return stages;
  };
  restart.report = [this](const Error& fault, const std::optional<SilentCorruption>& corruption) {
    print(stderr, "longhaul-engine rank {}: faulted, waits for an order to restart: {}\n", run_.group.rank(),
          fault.message());
    report_faulted(run_.clock, run_.launch, run_.group.rank(), fault, corruption);
    reported_corruption_ = corruption.has_value();
  };
  return restart;
}

// A result that may be wrong ends the rank to blame with 17, and all with 16 where it is not known who that is.
Error TrainingStage::ended_by(const Error& fault, const std::optional<SilentCorruption>& corruption) {
  if (!corruption) return fault;
  const bool own = corruption->rank == run_.group.rank();
  if (own && !reported_corruption_) report_faulted(run_.clock, run_.launch, run_.group.rank(), fault, corruption);
  if (!corruption->decided)
    run_.exit_code = exit_run_again_elsewhere;
  else if (own)
    run_.exit_code = exit_failed_validation;
  return fault;
}

namespace {

// What the settings and the launch say; what is made for one training is added by the caller.
TrainingLoopOptions loop_options_of(const TaskRun& run, const TrainingStageSettings& settings, MemoryAccounts& memory) {
  TrainingLoopOptions options;
  options.checkpoint_every_steps = settings.checkpoint.every_steps;
  options.save_at_end = settings.checkpoint.at_end;
  options.saver.asynchronous = settings.checkpoint.asynchronous;
  options.saver.direct_io = settings.checkpoint.direct_io;
  options.saver.staging_bytes_max = settings.checkpoint.staging_limit.value;
  options.saver.account = &memory.of(MemoryCategory::checkpoint);
  options.snapshot_every_steps = settings.checkpoint.snapshot_every;
  options.snapshot_account = &memory.of(MemoryCategory::checkpoint);
  options.eval_every_steps = settings.eval_every_steps;
  options.flops_per_token = settings.shape.train_flops_per_token(settings.sequence_length);
  options.peak_flops = settings.peak_tflops * 1e12 * static_cast<double>(run.group.size());
  options.seed = static_cast<std::uint64_t>(settings.seed);
  options.start_checkpoint = run.launch.start_checkpoint;
  options.at_least_step = run.launch.at_least_step;
  options.stop_signal = run.stop_signal;
  options.milestone_every_steps = settings.milestone_every;
  options.steps_together = settings.steps_together;
  options.trace = run.trace, options.trace_settings = settings.trace;
  options.trace_folder = join_path(parent_path(run.launch.state_dir), "trace");
  return options;
}

// Of a training that an order or a signal has stopped; the first rank writes what the next launch reads.
Error stopped(const TaskRun& run, const TrainingOutcome& outcome, std::int64_t steps) {
  if (run.is_first()) {
    Value fields = Value::make_table();
    fields.set("step", outcome.step);
    fields.set("why", outcome.stop_cause.by_own_timer() ? stopped_by_own_timer : stopped_as_asked);
    fields.set("saved", outcome.saved_at_stop);
    run.events.write(stopped_event_kind, std::move(fields));
  }
  return make_error(
      ErrorCode::aborted,
      format("{}: stopped after step {} of {}; {}", outcome.stop_cause.text(), outcome.step, steps,
             outcome.saved_at_stop ? "a checkpoint of it was saved" : "there was no time for a checkpoint of it"));
}

}  // namespace

Status TrainingStage::train(Objective& objective, BatchSource& source, BatchSource* heldout,
                            std::vector<Figure> figures, const std::function<Status(std::vector<Figure>&)>& at_end) {
  TrainerOptions options = trainer_options();
  if (!settings_.phases.empty())
    options.steps = settings_.phases.back().last_step;
  else
    options.steps = training_steps(settings_.steps, settings_.epochs, source.samples_per_epoch(),
                                   settings_.global_batch_size, settings_.batch_rampup);
  LH_CHECK(check_lr_schedule(settings_.optimizer, options.steps));
  note_amounts(run_, settings_, source.samples_per_epoch(), options.steps);
  std::vector<Llama*> stages;
  for (const auto& stage : stages_) stages.push_back(stage.get());
  LH_CHECK(run_.group.agree(offload_moments()));
  options.offloaded = moments_.get();
  std::optional<Trainer> trainer(std::in_place, run_.compute, run_.mesh, *stores_.trained, std::move(stages), objective,
                                 source, options, &memory_);
  CheckpointStore checkpoints(run_.clock, join_path(run_.launch.state_dir, checkpoints_name),
                              retention_of(settings_.checkpoint));
  checkpoints.set_fence(fence_of(run_.launch));
  TrainingLoopOptions loop_options = loop_options_of(run_, settings_, memory_);
  loop_options.companion = companion_;
  std::unique_ptr<LocalCopies> local_copies;
  if (settings_.checkpoint.local_every_steps > 0) {
    LH_TRY(local_copies, create_local_copies());
    loop_options.local_copies = local_copies.get();
    loop_options.local_every_steps = settings_.checkpoint.local_every_steps;
  }
  InProcessRestart restart = in_process_restart();
  if (settings_.checkpoint.in_process && run_.beat) loop_options.restart = &restart;
  loop_options.eval_samples = heldout ? heldout->samples_per_epoch() : 0;
  loop_options.on_milestone = [this](const MilestoneReached& reached) {
    return publish_milestone(run_, reached, [this](const std::string& folder) { return write_model(folder); });
  };
  const std::unique_ptr<KernelTimer> kernel_timer = time_kernels(run_, settings_);
  loop_options.kernel_timer = kernel_timer.get();
  std::optional<TensorBoardWriter> curves;
  if (settings_.tensorboard && run_.is_first()) {
    // Beside the saved state, not in it: that changes only when a checkpoint does.
    const std::string folder = join_path(parent_path(run_.launch.state_dir), "tensorboard");
    LH_TRY(curves, TensorBoardWriter::create(folder, run_.clock));
    loop_options.curves = &*curves;
  }
  std::optional<TrainingLoop> loop(std::in_place, run_.clock, *trainer, objective, checkpoints, run_.events, run_.stop,
                                   run_.beat, loop_options);
  LH_TRY([[maybe_unused]] const bool resumed, loop->restore(run_.compute));
  const Result<TrainingOutcome> done = loop->run(heldout);
  if (!done.ok()) {
    if (trainer->corruption())
      leave_doubtful_states(*trainer->corruption(), *trainer, checkpoints, local_copies.get(), run_.group, run_.events);
    return ended_by(done.error(), trainer->corruption());
  }
  const TrainingOutcome& outcome = *done;
  if (outcome.stopped) return stopped(run_, outcome, options.steps);

  LH_CHECK(add_memory(figures));
  if (at_end && settings_.checkpoint.at_end) LH_CHECK(at_end(figures));
  // The whole parameters that the export gathers take the place of gradients and activations.
  loop.reset(), trainer.reset(), stages_.clear();
  // A rank that failed to write takes the others with it: nobody ends well with half an artifact.
  if (settings_.checkpoint.at_end) LH_CHECK(run_.group.agree(export_model()));
  if (local_copies) local_copies->remove();
  add_outcome(outcome, settings_, options.steps, loop_options.peak_flops, figures);
  if (heldout && settings_.checkpoint.at_end) {
    figures.push_back({"heldout_loss", outcome.heldout_loss, "nats"});
    const std::vector<std::string> extra = objective.extra_names();
    for (std::size_t i = 0; i < extra.size(); ++i)
      figures.push_back({"heldout_" + extra[i], outcome.heldout.extra[i] / outcome.heldout.count, ""});
    if (const std::string name = objective.largest_name(); !name.empty())
      figures.push_back({"heldout_" + name, outcome.heldout.largest, ""});
  }
  return write_figures(run_, figures);
}

}  // namespace longhaul
