#include "engine/tasks/rollouts/critic.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/align/critic/token_reward.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/drawing/drawing_weights.h"
#include "engine/tasks/rollouts/answer_rows.h"
#include "engine/train/step/sequence_scores.h"

namespace longhaul {

namespace {

constexpr const char* beta_key = "beta";
constexpr RetentionPolicy keeps_all = {1, 1, 0};  // what may go is said here

DType critic_type(const AlignSettings& settings) {
  return settings.precision == "bf16" ? DType::bf16 : DType::f32;
}

// Its own training would have to go on with what an adapter has left beside the weights of a reward model.
Status refuse_parts_of_adapter(const ModelShape& shape, const std::string& folder) {
  if (shape.virtual_tokens == 0 && shape.bottleneck.size == 0) return {};
  return make_error(
      ErrorCode::unsupported,
      format("ppo.critic = \"reward\" with the reward model {}, which has {}: no critic begins with them", folder,
             shape.virtual_tokens > 0 ? virtual_tokens_text(shape) + " before every text" : bottleneck_text(shape)),
      "use ppo.critic = \"policy\", or a reward model without such an adapter");
}

TrainerOptions critic_options(const AlignSettings& settings, std::int64_t steps) {
  TrainerOptions options;
  options.optimizer = settings.optimizer;
  options.optimizer.lr = settings.ppo.critic_lr, options.optimizer.offload = "none";
  options.seed = static_cast<std::uint64_t>(settings.seed), options.steps = steps;
  options.micro_batch_size = settings.micro_batch_size, options.global_batch_size = settings.global_batch_size;
  options.check_contributions = settings.corruption.check != "off";
  return options;
}

}  // namespace

// The rows of a step, by their places in the order of the whole training.
class Critic::Batches final : public BatchSource {
 public:
  explicit Batches(std::int64_t batch) : batch_(batch) {}
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override {
    return rows(first - begin_, count, out);
  }
  void begin_step(std::int64_t step, std::int64_t) override { begin_ = (step - 1) * batch_; }
  std::int64_t samples_per_epoch() const override { return batch_; }
  BatchRows rows;

 private:
  std::int64_t batch_, begin_ = 0;
};

Critic::Critic(TaskRun& run, const AlignSettings& settings, const ModelShape& shape, const StageLayout& stages)
    : run_(run),
      settings_(settings),
      memory_(accounts_beside(run)),
      compute_(run.gpu ? ComputeContext(run.gpu->device(), run.gpu->ops(), run.compute.threads())
                       : ComputeContext(run.compute.threads(), run.compute.cpu_level())),
      store_(shape, critic_type(settings), memory_.get(), MeshPlace{run.mesh.dims(), run.mesh.at(), stages}),
      objective_(settings.ppo.value_clip),
      batches_(std::make_unique<Batches>(settings.global_batch_size)),
      checkpoints_(run.clock, join_path(run.launch.state_dir, critic_folder_name), keeps_all),
      beta_(settings.beta) {
  checkpoints_.set_fence(fence_of(run.launch));
}

Critic::~Critic() = default;

Result<std::unique_ptr<Critic>> Critic::create(TaskRun& run, const AlignSettings& settings, const std::string& folder,
                                               std::int64_t steps) {
  run.section("initialize");
  LH_TRY(const HfConfig config, load_any_model_config(folder));
  LH_CHECK(refuse_parts_of_adapter(config.shape, folder));
  const TrainerOptions options = critic_options(settings, steps);
  const ParallelDims& dims = run.mesh.dims();
  LH_TRY(const StageLayout stages,
         resolve_stages(static_cast<int>(config.shape.num_hidden_layers), dims.pp, dims.vp, options.pipeline.stages()));
  std::unique_ptr<Critic> critic(new Critic(run, settings, with_scalar_head(config.shape), stages));
  const auto new_head = static_cast<std::uint64_t>(settings.seed);
  const bool has_one_number = config.shape.scalar_head && config.shape.num_labels == 1;
  LH_CHECK(run.group.agree(load_model_weights(critic->compute_, folder, critic->store_,
                                              has_one_number ? std::nullopt : std::optional(new_head))));
  LH_CHECK(critic->make_model(options));
  return critic;
}

Status Critic::make_model(const TrainerOptions& options) {
  LH_TRY(const TrainingSchedules schedules, training_schedules(options, run_.mesh));
  std::vector<Llama*> stages;
  for (int chunk = 0; chunk < run_.mesh.dims().vp; ++chunk) {
    LlamaOptions model = stage_options(schedules, options, run_.mesh, chunk);
    model.tokens_max = settings_.micro_batch_size * settings_.sequence_length;
    model.length_max = settings_.sequence_length, model.memory = memory_.get();
    model.moe.balance = "none", model.moe.z_loss_coef = 0;  // as the policy has it
    LH_TRY(model.context_attention, context_attention_kind(settings_.cp_attention));
    stages_.push_back(std::make_unique<Llama>(store_, model));
    stages.push_back(stages_.back().get());
  }
  trainer_ = std::make_unique<Trainer>(compute_, run_.mesh, store_, std::move(stages), objective_, *batches_, options,
                                       memory_.get());
  trainer_->hooks.on_micro_batch = [&run = run_](std::int64_t, int) { run.section("critic"); };
  return {};
}

Status Critic::values_of(const BatchStorage& batch, std::span<float> values) {
  if (computes_with_others(run_.mesh.dims())) {
    ReplicaModel model{run_.mesh, {}, batch.sequences, batch.length};
    for (const auto& stage : stages_) model.stages.push_back(stage.get());
    return losses_of_replica(compute_, model, batch, values);
  }
  Llama& model = *stages_.front();
  LH_CHECK(model.check(batch.view()));
  model.forward(compute_, 0, batch.view());
  model.token_losses(compute_, 0, values);
  return model.status();
}

Status Critic::value(std::vector<Rollout>& rollouts) {
  BatchStorage batch;
  std::vector<float> values;
  const auto size = static_cast<std::size_t>(settings_.micro_batch_size);
  for (std::size_t first = 0; first < rollouts.size(); first += size) {
    run_.section("value");
    const std::span<Rollout> here = std::span(rollouts).subspan(first, std::min(size, rollouts.size() - first));
    AnswerRows rows(batch);
    for (const Rollout& rollout : here) rows.add(rollout, 0, 0);
    // Ranks that hold it together compute micro-batches of one size.
    for (std::size_t row = here.size(); row < size && computes_with_others(run_.mesh.dims()); ++row)
      rows.add(here.back(), 0, 0);
    rows.put(settings_.sequence_length);
    batch.mark_padding();
    values.assign(batch.ids.size(), 0.0F);
    LH_CHECK(values_of(batch, values));
    for (std::size_t row = 0; row < here.size(); ++row) {
      here[row].values.clear();
      for (const std::size_t place : AnswerRows::places_of(here[row], row, batch))
        here[row].values.push_back(values[place]);
    }
  }
  return {};
}

Result<StepReport> Critic::step(const BatchRows& rows) {
  batches_->rows = rows;
  auto report = trainer_->step();
  batches_->rows = {};
  if (!report.ok()) return report.error().with_context("critic");
  return report;
}

void Critic::adapt_beta(double divergence, double answers) {
  beta_ = adapted_beta(settings_.ppo, beta_, divergence, answers);
}

TrainingState Critic::state() {
  TrainingState state;
  state.layout = &store_.layout(), state.shape = store_.shape();
  state.masters = {store_.masters(), store_.device()};
  state.exp_avg = trainer_->optimizer().exp_avg(), state.exp_avg_sq = trainer_->optimizer().exp_avg_sq();
  state.progress = trainer_->progress();
  state.seed = static_cast<std::uint64_t>(settings_.seed);
  state.extra = Value::make_table();
  state.extra.set(beta_key, beta_);
  return state;
}

Status Critic::save(std::int64_t step) {
  LH_ASSERT(trainer_->progress().step == step, format("{}, {}", trainer_->progress().step, step));
  LH_CHECK(checkpoints_.save(run_.group, state()));
  if (run_.is_first()) remove_what_stands_alone(step);
  return {};
}

// Best effort: what cannot be listed or removed now is looked at again at the next one.
void Critic::remove_what_stands_alone(std::int64_t step) const {
  const auto mine = names_if_there(checkpoints_.folder());
  const auto policy = names_if_there(join_path(run_.launch.state_dir, "checkpoints"));
  if (!mine.ok() || !policy.ok() || !checkpoints_.fence().look().ok()) return;
  for (const std::string& name : *mine) {
    const bool stays = name == checkpoint_folder_name(step) || std::ranges::find(*policy, name) != policy->end();
    if (stays || !starts_with(name, "step-")) continue;
    [[maybe_unused]] const Status removed = remove_tree(join_path(checkpoints_.folder(), name));
  }
}

Status Critic::load(const std::string& checkpoint) {
  const std::string folder = join_path(parent_path(parent_path(checkpoint)), critic_folder_name);
  const std::string path = join_path(folder, file_name(checkpoint));
  TrainingState state = this->state();
  LH_CHECK(checkpoints_.load_together(run_.group, path, state, compute_.threads())
               .with_context(format("the critic that belongs to {}", checkpoint)));
  trainer_->progress() = state.progress;
  beta_ = state.extra.get_number(beta_key, settings_.beta);
  store_.refresh_compute_copy(compute_);
  return {};
}

}  // namespace longhaul
