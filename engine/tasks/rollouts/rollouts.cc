#include "engine/tasks/rollouts/rollouts.h"

#include <chrono>

#include "base/text/text.h"
#include "contracts/plan/rollout/drawing_layout.h"
#include "engine/data/template/end_tokens.h"
#include "engine/model/inference/stored_weights.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/rollouts/shared_rollouts.h"

namespace longhaul {

namespace {

constexpr std::chrono::milliseconds look_every{100};  // at what goes on in the thread

double seconds_from(const Clock& clock, std::int64_t begun_ns) {
  return static_cast<double>(clock.monotonic_ns() - begun_ns) * 1e-9;
}

// In a team this rank's part of it, which on a device the model borrows.
Status load_reference(const TaskRun& run, const std::string& folder, DType dtype, const DrawingTeam& team,
                      RolloutWorker::Judges& judges) {
  Device* const device = run.gpu ? &run.gpu->device() : nullptr;
  MemoryAccount* const account = account_of(run.memory, MemoryCategory::answers);
  if (team.is_one()) {
    LH_TRY(InferenceModel reference, InferenceModel::load(folder, dtype, device, account));
    judges.reference = std::make_unique<InferenceModel>(std::move(reference));
    return {};
  }
  LH_TRY(const HfConfig config, load_model_config(folder, AdapterParts::known));
  judges.accounts = accounts_beside(run);
  judges.part = std::make_unique<ParameterStore>(
      ParameterStore::frozen(config.shape, dtype, judges.accounts.get(), team.place()));
  LH_CHECK(load_model_weights(run.compute, folder, *judges.part));
  LH_TRY(InferenceWeights weights,
         inference_weights_of(run.compute, *judges.part, weights_to_fill(dtype, device, account)));
  judges.reference = std::make_unique<InferenceModel>(config.shape, std::move(weights), team.ranks());
  if (device == nullptr) judges.part.reset();
  return {};
}

// Whether the form of conversations has a place for what an environment says.
Status check_replies(const ChatEncoder& encoder, const RolloutSettings& settings, std::span<const std::int32_t> ends) {
  auto tried = encoder.encode_reply({.role = settings.environment_role, .content = "a reply"}, ends);
  if (tried.ok()) return {};
  return tried.error().with_context(format("rollout.environment_role = \"{}\"", settings.environment_role));
}

}  // namespace

Result<std::unique_ptr<RolloutWorker>> Rollouts::make_worker(const TaskRun& run, const AlignSettings& settings,
                                                             const ConversationTokens& tokens, const ModelShape& shape,
                                                             const std::string& model_folder,
                                                             const std::string& reference_folder,
                                                             std::optional<RewardFunction> reward,
                                                             std::unique_ptr<RewardModel> judge, DrawingTeam& team) {
  TextModelInfo info;
  LH_TRY(const ModelTokens named, tokens_of_folder(model_folder, tokens.tokenizer));
  for (const std::int64_t id : named.ends) info.end_tokens.push_back(static_cast<std::int32_t>(id));
  if (info.end_tokens.empty())
    return make_error(ErrorCode::invalid_input, model_folder + " names no token that ends an answer",
                      "name it in generation_config.json (eos_token_id)");
  AlignSettings of_texts = settings;
  of_texts.sequence_length -= shape.virtual_tokens;
  info.context_length = of_texts.sequence_length + 1;
  info.slots = static_cast<int>(settings.rollout.slots);
  if (settings.rollout.turns > 1) LH_CHECK(check_replies(tokens.encoder, settings.rollout, info.end_tokens));
  RolloutWorker::Judges judges{std::move(reward), std::move(judge), nullptr, nullptr, nullptr};
  if (!reference_folder.empty()) LH_CHECK(load_reference(run, reference_folder, dtype_of(settings), team, judges));
  const auto threads = static_cast<int>(settings.rollout.threads);
  const RolloutWorker::Place place{threads > 0 ? threads : run.compute.threads(), run.compute.cpu_level(), run.gpu};
  return std::make_unique<RolloutWorker>(run.clock, of_texts, tokens, shape, std::move(info), std::move(judges), place,
                                         team);
}

Result<std::unique_ptr<Rollouts>> Rollouts::create(TaskRun& run, TrainingStage& stage, const AlignSettings& settings,
                                                   const ConversationTokens& tokens, const std::string& model_folder,
                                                   const std::string& reference_folder,
                                                   std::optional<RewardFunction> reward,
                                                   std::unique_ptr<RewardModel> judge, OtherRanks* others) {
  std::unique_ptr<Rollouts> made(new Rollouts(run, stage, settings, others));
  LH_TRY(made->worker_, make_worker(run, settings, tokens, stage.weights().shape(), model_folder, reference_folder,
                                    std::move(reward), std::move(judge), made->team_));
  return made;
}

Rollouts::Rollouts(TaskRun& run, TrainingStage& stage, const AlignSettings& settings, OtherRanks* others)
    : run_(run),
      stage_(stage),
      settings_(settings),
      others_(others),
      team_(run.mesh, stage.weights().shape(), drawing_dims(settings.rollout, stage.weights().shape(), run.mesh.dims()),
            stage.weights().layout().stages()),
      weights_(run.mesh, team_.place(), accounts_beside(run)) {}

Rollouts::TasksHere Rollouts::tasks_here(std::span<const RolloutTask> tasks, std::size_t group) const {
  TasksHere here;
  for (std::size_t i = 0; i < tasks.size(); ++i)
    if (const int rank = drawn_by(i, group, run_.mesh.replica().size()); team_.has(rank))
      here.tasks.push_back(tasks[i]), here.whose.push_back(rank);
  return here;
}

Status Rollouts::gather(RolloutTimes& times) {
  const std::int64_t begun_ns = run_.clock.monotonic_ns();
  Status gathered = weights_.gather(run_.compute, stage_.weights(), stage_.version());
  times.reshard += seconds_from(run_.clock, begun_ns);
  return gathered;
}

Result<InferenceWeights> Rollouts::take_weights(RolloutTimes& times) {
  LH_CHECK(gather(times));
  const std::int64_t begun_ns = run_.clock.monotonic_ns();
  auto weights = weights_.weights(run_.compute, stage_.weights(), dtype_of(settings_),
                                  account_of(run_.memory, MemoryCategory::answers));
  times.reshard += seconds_from(run_.clock, begun_ns);
  return weights;
}

Result<std::vector<Rollout>> Rollouts::answer(const TokenizedPrompts& prompts, std::span<const RolloutTask> tasks,
                                              std::size_t group, RolloutTimes& times) {
  if (begun_) wait();  // one thread at a time
  CollectiveGroup& ranks = run_.mesh.replica();
  LH_TRY(InferenceWeights weights, take_weights(times));
  const TasksHere here = tasks_here(tasks, group);
  Result<std::vector<Rollout>> mine = std::vector<Rollout>();
  if (!here.tasks.empty())
    mine = worker_->answer(std::move(weights), prompts, here.tasks, here.whose, times,
                           [this](const char* name) { run_.section(name); });
  if (ranks.size() == 1) return mine;
  LH_CHECK(ranks.agree(mine.ok() ? Status() : Status(mine.error())));
  return share_rollouts(ranks, *mine, tasks.size(), group);
}

Status Rollouts::begin(const TokenizedPrompts& prompts, std::vector<RolloutTask> tasks, std::size_t group,
                       RolloutTimes& times) {
  LH_ASSERT(!has_begun(), "a rollout is under way");
  if (others_) return begin_on_others(tasks, group, times);
  LH_ASSERT(run_.gpu == nullptr, "a device is used by one thread at a time");
  LH_ASSERT(team_.is_one(), "ranks that draw together speak to each other");
  LH_TRY(InferenceWeights weights, take_weights(times));
  begun_ = std::make_unique<Begun>();
  begun_->here = tasks_here(tasks, group), begun_->count = tasks.size(), begun_->group = group;
  auto work = [this, &prompts, begun = begun_.get(), weights = std::move(weights)]() mutable {
    return begun->here.tasks.empty()
               ? Result<std::vector<Rollout>>(std::vector<Rollout>())
               : worker_->answer(std::move(weights), prompts, begun->here.tasks, begun->here.whose, begun->times,
                                 [begun](const char*) { ++begun->sections; });
  };
  begun_->answers = std::async(std::launch::async, std::move(work));
  return {};
}

// Weights are on their way before the training goes on to change them.
Status Rollouts::begin_on_others(const std::vector<RolloutTask>& tasks, std::size_t group, RolloutTimes& times) {
  const std::int64_t begun_ns = run_.clock.monotonic_ns();
  LH_CHECK(others_->begin(stage_.weights(), tasks, group));
  times.reshard += seconds_from(run_.clock, begun_ns);
  return {};
}

void Rollouts::add_beside(const RolloutTimes& of, RolloutTimes& times) {
  times.generate += of.generate, times.environment += of.environment;
  times.reward += of.reward, times.reference += of.reference;
  times.beside += of.generate + of.environment + of.reward + of.reference;
}

// A thread that makes no more progress shows as a rank that makes none.
void Rollouts::wait() const {
  std::int64_t seen = -1;
  while (begun_->answers.wait_for(look_every) != std::future_status::ready)
    if (const std::int64_t now = begun_->sections; now != seen) run_.section("rollout"), seen = now;
}

Result<std::vector<Rollout>> Rollouts::finish(RolloutTimes& times) {
  LH_ASSERT(has_begun(), "no rollout is under way");
  const std::int64_t begun_ns = run_.clock.monotonic_ns();
  if (others_) {
    run_.section("rollout");
    RolloutTimes drawn;
    auto rollouts = others_->finish(drawn);
    times.wait += seconds_from(run_.clock, begun_ns);
    add_beside(drawn, times);
    return rollouts;
  }
  wait();
  times.wait += seconds_from(run_.clock, begun_ns);
  const std::unique_ptr<Begun> done = std::move(begun_);
  auto mine = done->answers.get();
  add_beside(done->times, times);
  CollectiveGroup& ranks = run_.mesh.replica();
  if (ranks.size() == 1) return mine;
  LH_CHECK(ranks.agree(mine.ok() ? Status() : Status(mine.error())));
  return share_rollouts(ranks, *mine, done->count, done->group);
}

}  // namespace longhaul
