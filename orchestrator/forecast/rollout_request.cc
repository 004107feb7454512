#include "orchestrator/forecast/rollout_request.h"

#include <algorithm>
#include <cmath>

#include "autotune/inference/rollout_time.h"
#include "autotune/time/processor_place.h"
#include "autotune/time/step_time.h"
#include "base/text/text.h"
#include "contracts/plan/rollout/drawing_layout.h"
#include "contracts/plan/rollout/rollout_memory.h"
#include "contracts/settings/stages/alignment.h"

namespace longhaul {
namespace {

// Who draws how much of a rollout, and where.
struct DrawingPlan {
  ServingLayout layout;
  ServingPlace place;
  double answers = 0;  // of a rank that trains, or of those of its replica that draw together, in one rollout
  int trains = 1, draws = 0, ranks_on_node = 1;
  double train_threads = 1, draw_threads = 1;  // of a rank
  ParallelDims drawing;                        // of a replica's ranks, or of those that only draw
  int together() const { return drawing.tp * drawing.pp; }
};

ServingPlace generation_place(const LayoutRequest& training, const TimeConstants& constants, const RankUse& use) {
  const TrainingPlace& of = training.search.place;
  ServingPlace place{
      of.cluster, of.common, constants.serving, of.framework.attention_scale, of.framework.product_memory, {}};
  if (training.on_gpus) return place;
  place.serving.step_cost = 0;  // a millisecond of other servers' Python
  if (const MeasuredProcessor* measured = measured_processor(constants, use))
    place.processor = measured->serving, place.drawing = measured->drawing, place.scoring = measured->scoring;
  return place;
}

// Each rank of a replica draws whole groups (engine/tasks/rollouts/shared_rollouts.h).
double answers_of_rank(const AlignSettings& settings, const ParallelDims& dims) {
  const auto group = static_cast<double>(settings.rollout.group_size);
  const double answers = static_cast<double>(settings.rollout.minibatches * settings.global_batch_size);
  return std::ceil(answers / group / dims.world_size()) * group;
}

// Bytes of a weight as it is drawn with.
double width_of(const DrawingPlan& plan) {
  return plan.layout.weights == WeightFormat::f32 ? 4 : 2;
}

RolloutWork work_of(const AlignSettings& settings, double answers) {
  const AnswerLengths lengths = longest_answers(settings);
  RolloutWork work;
  work.answers = answers, work.group = static_cast<double>(settings.rollout.group_size);
  work.prompt_tokens = static_cast<double>(lengths.prompt), work.answer_tokens = static_cast<double>(lengths.answer);
  work.slots = std::min(static_cast<double>(settings.rollout.slots), std::max(1.0, answers));
  work.reference = settings.beta > 0 || has_teacher(settings.method);
  return work;
}

DrawingPlan drawing_plan(const PlannedStage& stage, const AlignSettings& settings, const SiteConfig& site,
                         const TimeConstants& constants, const LayoutRequest& training, int ranks_per_node) {
  DrawingPlan plan;
  plan.trains = stage.dims.world_size(), plan.draws = static_cast<int>(settings.rollout.ranks);
  plan.ranks_on_node = ranks_per_node > 0 ? ranks_per_node : plan.trains + plan.draws;
  const int threads = rank_threads(site, stage.common.threads, plan.ranks_on_node);
  const int drawing = settings.rollout.threads > 0 ? static_cast<int>(settings.rollout.threads) : threads;
  plan.train_threads = threads, plan.draw_threads = drawing;
  const bool f32 = settings.precision != "bf16";
  plan.layout.weights = f32 ? WeightFormat::f32 : WeightFormat::bf16;
  plan.layout.cache = f32 ? CacheFormat::f32 : CacheFormat::bf16;
  plan.place = generation_place(training, constants, drawing_use_of(stage, site, plan.ranks_on_node));
  const ModelShape& shape = training.search.task.shape;
  plan.drawing =
      plan.draws > 0 ? drawing_ranks_dims(settings.rollout, shape) : drawing_dims(settings.rollout, shape, stage.dims);
  plan.layout.tp = plan.drawing.tp;  // stages follow each other: a token takes what all of their layers take
  plan.answers = answers_of_rank(settings, stage.dims) * (plan.draws > 0 ? 1 : plan.together());
  return plan;
}

// The models of a stage: it trains `own`, the rest is there where its method or its reward asks for it.
struct StageModels {
  ModelShape own;
  std::optional<ModelShape> teacher, critic, judge;
};

Result<StageModels> models_of(const PlannedStage& stage, const AlignSettings& settings, const ModelShape& own,
                              const ShapesBeside& beside) {
  const bool taught = has_teacher(settings.method), expects = has_critic(settings.method);
  StageModels models{own, std::nullopt, std::nullopt, std::nullopt};
  if (taught) models.teacher = beside.teacher;
  if (settings.reward.kind == "model") models.judge = beside.reward;
  if (expects) models.critic = settings.ppo.critic == "reward" ? beside.reward : std::optional(with_scalar_head(own));
  if ((!taught || models.teacher) && (!expects || models.critic)) return models;
  return make_error(ErrorCode::unsupported,
                    format("stage {} has a {} whose shape is not known yet", stage.id(), taught ? "teacher" : "critic"),
                    "step times are predicted where a stage of the workflow makes that model, or a folder has it");
}

// `texts` texts of `length` tokens through a whole model on one rank, so many rows at a time.
double scored_time(const LayoutRequest& training, const ModelShape& shape, double texts, std::int64_t length,
                   std::int64_t rows) {
  TrainingTask task;
  task.shape = shape, task.sequence_length = length, task.global_batch_size = rows;
  TrainingLayout layout;
  layout.micro_batch_size = static_cast<int>(rows);
  layout.precision = training.layout.precision == Precision::f32 ? Precision::f32 : Precision::bf16;
  return texts / static_cast<double>(rows) * forward_time(task, layout, training.search.place);
}

// What a rank does that draws so many answers, so often: it draws, judges its own where a model does, and compares.
void draw_answers(const DrawingPlan& plan, const AlignSettings& settings, const LayoutRequest& training,
                  const StageModels& models, double answers, double turns, RolloutForecast& f) {
  constexpr std::int64_t judged_together = 4096;  // tokens (engine/tasks/rewards/reward_model.h)
  const RolloutWork work = work_of(settings, answers);
  const RolloutTime own = rollout_time(models.own, plan.layout, plan.place, work);
  f.generate = turns * own.generate, f.reference = turns * own.reference;
  if (models.teacher) f.reference = turns * rollout_time(*models.teacher, plan.layout, plan.place, work).reference;
  if (!models.judge) return;
  const std::int64_t length = settings.sequence_length + 1, rows = std::max<std::int64_t>(1, judged_together / length);
  f.reward = turns * scored_time(training, *models.judge, answers / plan.together(), length, rows);
}

// On the ranks that train, which share it as the policy: what it expects of a rollout's answers, and a step of it.
Status add_critic(const LayoutRequest& training, const AlignSettings& settings, const ModelShape& critic,
                  double answers, RolloutForecast& f) {
  f.value = scored_time(training, critic, answers, settings.sequence_length, settings.micro_batch_size);
  TrainingTask task = training.search.task;
  task.shape = critic, task.output_forwards_more = 0;
  LH_TRY(const StepTime step, step_time(task, training.layout, training.search.place));
  f.critic = step.seconds();
  return {};
}

// By ranks of their own, in teams: batches of what a rank that trains would draw, or parts of these, one by one
// (engine/tasks/rollout_ranks/rollout_ranks.cc). The weights come from rank to rank, on processors in f32.
void draw_on_ranks(const DrawingPlan& plan, const AlignSettings& settings, const LayoutRequest& training,
                   const StageModels& models, RolloutForecast& f) {
  const ModelShape& shape = models.own;
  const double teams = 1.0 * plan.draws / plan.together(), parts = std::ceil(teams / plan.trains),
               group = static_cast<double>(settings.rollout.group_size);
  const double answers = std::ceil(plan.answers / group / parts) * group;
  const double turns = std::ceil(plan.trains * parts / teams);
  draw_answers(plan, settings, training, models, answers, turns, f);
  if (!training.on_gpus) {
    const bool one_node = plan.ranks_on_node == plan.trains + plan.draws;
    f.weights = hand_over_time(shape, plan.place, plan.draws, one_node) +
                take_weights_time(shape, plan.layout, plan.place) / plan.together();
    return;
  }
  const double bytes = width_of(plan) * static_cast<double>(shape.parameter_count());
  const double rate = plan.place.cluster.nic_rate;
  if (rate > 0) f.weights = tree_hops(plan.draws) * bytes / rate;
}

// Ranks that have not what they draw with: each gets it, all of the weights or a part, on GPUs as they compute, on
// processors in f32.
double gather_weights_time(const DrawingPlan& plan, bool on_gpus, const ParallelDims& dims, const ModelShape& shape) {
  const int ranks = dims.zero == 3 ? dims.world_size() : dims.world_size() / dims.dp();
  const double rate = group_link(plan.place.cluster, plan.place.common, ranks, 1).rate;
  const double width = on_gpus ? width_of(plan) : 4;
  return rate > 0 ? width * static_cast<double>(shape.parameter_count()) / rate : 0;
}

double learning(const RolloutForecast& f) {
  return f.train + f.value + f.critic;
}

double drawing(const RolloutForecast& f) {
  return f.generate + f.reward + f.reference;
}

// Where a stage trains and draws, and what its training takes there.
struct StepPlace {
  DrawingPlan plan;
  LayoutRequest training;
  double train_seconds = 0;
};

// The parts of a step, each as fast as ranks are there, whatever goes on beside it.
Result<RolloutForecast> parts_of_step(const StepPlace& at, const AlignSettings& settings, const StageModels& models,
                                      const ParallelDims& dims) {
  const DrawingPlan& plan = at.plan;
  RolloutForecast f;
  f.train = at.train_seconds;
  if (plan.draws > 0) {
    draw_on_ranks(plan, settings, at.training, models, f);
  } else {
    draw_answers(plan, settings, at.training, models, plan.answers, 1, f);
    if (!at.training.on_gpus) f.weights = take_weights_time(models.own, plan.layout, plan.place) / plan.together();
  }
  if (plan.draws > 0 ? holds_parts(dims) : !draws_with_its_own(dims, plan.drawing))
    f.weights += gather_weights_time(plan, at.training.on_gpus, dims, models.own);
  if (models.critic) LH_CHECK(add_critic(at.training, settings, *models.critic, plan.answers / plan.together(), f));
  const auto steps = static_cast<double>(settings.rollout.updates());
  for (double* part : {&f.weights, &f.generate, &f.reference, &f.reward, &f.value}) *part /= steps;
  return f;
}

// The same ranks while what they have beside them does nothing: as they were measured then, if both were. GPUs are
// shared by none.
Result<StepPlace> place_alone(StepPlace at, const RankUse& use, const TimeConstants& constants) {
  const UsesAlone alone = uses_alone(use);
  if (at.training.on_gpus || use.beside.ranks == 0 || !measured_processor(constants, alone.trains) ||
      !measured_processor(constants, alone.draws))
    return at;
  SearchRequest& search = at.training.search;
  LH_TRY(const StepTime beside, step_time(search.task, at.training.layout, search.place));
  const double disk = search.place.moment_seconds;
  LH_TRY(search.place,
         processor_place(constants, use.threads, use.ranks, use.precision == "f32" ? Precision::f32 : Precision::bf16));
  search.place.moment_seconds = disk;
  LH_TRY(const StepTime by_itself, step_time(search.task, at.training.layout, search.place));
  at.train_seconds *= by_itself.seconds() / beside.seconds();
  at.plan.place = generation_place(at.training, constants, alone.draws);
  return at;
}

// By how much less of a core each thread has where those that draw ahead share the cores of a node with those that
// train, and these are too few; 1: they are enough, or nobody knows how many (0).
double shared_cores(const DrawingPlan& plan, double cores) {
  if (cores <= 0) return 1;
  return std::max(1.0, plan.ranks_on_node * (plan.train_threads + plan.draw_threads) / cores);
}

// The parts as long as they take where training and drawing begin together and go on beside each other: `slower` each
// while both do, then as `alone`.
void put_beside(const RolloutForecast& alone, double slower, RolloutForecast& f) {
  const SharedSeconds learn{learning(alone), slower * learning(f)}, draw{drawing(alone), slower * drawing(f)};
  const double learnt = seconds_beside(learn, draw), drawn = seconds_beside(draw, learn);
  if (const double before = learning(f); before > 0)
    for (double* part : {&f.train, &f.value, &f.critic}) *part *= learnt / before;
  if (const double before = drawing(f); before > 0)
    for (double* part : {&f.generate, &f.reward, &f.reference}) *part *= drawn / before;
}

void say_what_is_left_out(const AlignSettings& settings, const StageModels& models, std::vector<std::string>& notes) {
  notes.push_back(format("as if every prompt had {} tokens and every answer {}, what sequence_length and rollout allow",
                         longest_answers(settings).prompt, longest_answers(settings).answer));
  const std::string& kind = settings.reward.kind;
  if (kind == "command" || kind == "http" || (kind == "model" && !models.judge) || kind == "tests")
    notes.push_back(format("without what judging answers takes (reward.kind = \"{}\")", kind));
  if (settings.rollout.turns > 1) notes.emplace_back("without what the environment takes");
  if (settings.rollout.redraws > 0) notes.emplace_back("without groups that are drawn again (rollout.redraws)");
}

}  // namespace

Result<RolloutForecast> rollout_forecast(const PlannedStage& stage, const SiteConfig& site,
                                         const TimeConstants& constants, const LayoutRequest& training,
                                         const ShapesBeside& shapes, int ranks_per_node, double train_seconds,
                                         std::vector<std::string>& notes) {
  LH_TRY(const AlignSettings settings, align_fields().parse(stage.settings, ""));
  const ModelShape& shape = training.search.task.shape;
  LH_TRY(const StageModels models, models_of(stage, settings, shape, shapes));
  const StepPlace at{drawing_plan(stage, settings, site, constants, training, ranks_per_node), training, train_seconds};
  const DrawingPlan& plan = at.plan;
  const bool own_ranks = plan.draws > 0, ahead = settings.rollout.ahead;
  LH_TRY(RolloutForecast f, parts_of_step(at, settings, models, stage.dims));
  f.how = own_ranks ? "ranks" : ahead ? "ahead" : "in turn";
  f.drawing_ranks = plan.draws, f.alone = train_seconds;
  if (own_ranks || ahead) {
    LH_TRY(const StepPlace by_itself, place_alone(at, rank_use_of(stage, site, plan.ranks_on_node), constants));
    LH_TRY(const RolloutForecast alone, parts_of_step(by_itself, settings, models, stage.dims));
    const double cores = training.on_gpus ? 0 : site.node.cores > 0 ? site.node.cores : site.cpu_slots;
    f.alone = alone.train;
    // Ranks of their own have cores of their own, as many as each rank of the stage.
    put_beside(alone, own_ranks ? 1 : shared_cores(plan, cores), f);
  }
  f.seconds = f.weights + (own_ranks || ahead ? std::max(learning(f), drawing(f)) : learning(f) + drawing(f));
  const bool parts = !draws_with_its_own(stage.dims, plan.drawing);
  RolloutMemory memory = plan_rollout_memory(settings, shape,
                                             {.answers = static_cast<std::int64_t>(plan.answers),
                                              .compares = settings.beta > 0 || models.teacher.has_value(),
                                              .whole_elsewhere = own_ranks || parts,
                                              .drawing = plan.drawing});
  if (training.on_gpus) memory.arriving = 0;                         // they come as they compute
  if (training.on_gpus && !parts && !own_ranks) memory.weights = 0;  // the training's own
  f.memory = static_cast<double>(memory.total());
  say_what_is_left_out(settings, models, notes);
  return f;
}

double drawing_memory_of_node(const RolloutForecast& rollout, int ranks_per_node) {
  const int there = ranks_per_node > 0 ? std::min(ranks_per_node, rollout.drawing_ranks) : rollout.drawing_ranks;
  return rollout.memory * there;
}

}  // namespace longhaul
