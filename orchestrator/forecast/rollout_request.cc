#include "orchestrator/forecast/rollout_request.h"

#include <algorithm>
#include <cmath>

#include "autotune/inference/processor_serving.h"
#include "autotune/inference/rollout_time.h"
#include "autotune/time/processor_place.h"
#include "base/text/text.h"
#include "contracts/plan/rollout_memory.h"
#include "contracts/settings/stages/alignment.h"

namespace longhaul {
namespace {

// Who draws how much of a rollout, and where.
struct DrawingPlan {
  ServingLayout layout;
  ServingPlace place;
  double answers = 0;  // of a replica's rank, in one rollout
  int trains = 1, draws = 0, ranks_on_node = 1;
  double train_threads = 1, draw_threads = 1;  // of a rank
};

ServingPlace generation_place(const LayoutRequest& training, const TimeConstants& constants, int threads,
                              Precision precision) {
  const TrainingPlace& of = training.search.place;
  ServingPlace place{
      of.cluster, of.common, constants.serving, of.framework.attention_scale, of.framework.product_memory, {}};
  if (training.on_gpus) return place;
  place.serving.step_cost = 0;  // a millisecond of other servers' Python
  place.processor = processor_serving(constants, threads, precision);
  return place;
}

// Each rank of a replica draws whole groups (engine/tasks/rollouts/shared_rollouts.h).
double answers_of_rank(const AlignSettings& settings, const ParallelDims& dims) {
  const auto group = static_cast<double>(settings.rollout.group_size);
  const double answers = static_cast<double>(settings.rollout.minibatches * settings.global_batch_size);
  return std::ceil(answers / group / dims.world_size()) * group;
}

RolloutWork work_of(const AlignSettings& settings, double answers) {
  const AnswerLengths lengths = longest_answers(settings);
  RolloutWork work;
  work.answers = answers, work.group = static_cast<double>(settings.rollout.group_size);
  work.prompt_tokens = static_cast<double>(lengths.prompt), work.answer_tokens = static_cast<double>(lengths.answer);
  work.slots = std::min(static_cast<double>(settings.rollout.slots), std::max(1.0, answers));
  work.reference = settings.beta > 0;
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
  plan.place = generation_place(training, constants, drawing, f32 ? Precision::f32 : Precision::bf16);
  plan.answers = answers_of_rank(settings, stage.dims);
  return plan;
}

// By ranks of their own: batches of what a rank that trains would draw, or parts of these, one after the other
// (engine/tasks/rollout_ranks/rollout_ranks.cc). The weights come in f32, from rank to rank.
void draw_on_ranks(const DrawingPlan& plan, const AlignSettings& settings, const ModelShape& shape,
                   RolloutForecast& f) {
  const double parts = std::ceil(1.0 * plan.draws / plan.trains),
               group = static_cast<double>(settings.rollout.group_size);
  const double answers = std::ceil(plan.answers / group / parts) * group;
  const double turns = std::ceil(plan.trains * parts / plan.draws);
  const RolloutTime batch = rollout_time(shape, plan.layout, plan.place, work_of(settings, answers));
  f.generate = turns * batch.generate, f.reference = turns * batch.reference;
  const double bytes = 4.0 * static_cast<double>(shape.parameter_count()), rate = plan.place.cluster.nic_rate;
  f.weights = take_weights_time(shape, plan.layout, plan.place);
  if (rate > 0) f.weights += std::ceil(std::log2(plan.draws + 1.0)) * bytes / rate;
}

// Of a step in which training and drawing go on beside each other for as long as both have something to do. `cores`:
// of a node, which its ranks share; 0: not known, and enough.
double beside(const DrawingPlan& plan, double cores, double train, double draw) {
  const double alone = std::max(train, draw), of_rank = cores / plan.ranks_on_node;
  if (cores <= 0) return alone;
  return std::max(alone, (train * plan.train_threads + draw * plan.draw_threads) / of_rank);
}

void say_what_is_left_out(const AlignSettings& settings, std::vector<std::string>& notes) {
  notes.push_back(format("as if every prompt had {} tokens and every answer {}, what sequence_length and rollout allow",
                         longest_answers(settings).prompt, longest_answers(settings).answer));
  const std::string& kind = settings.reward.kind;
  if (kind == "command" || kind == "http" || kind == "model" || kind == "tests")
    notes.push_back(format("without what judging answers takes (reward.kind = \"{}\")", kind));
  if (settings.rollout.turns > 1) notes.emplace_back("without what the environment takes");
  if (settings.rollout.redraws > 0) notes.emplace_back("without groups that are drawn again (rollout.redraws)");
}

}  // namespace

Result<RolloutForecast> rollout_forecast(const PlannedStage& stage, const SiteConfig& site,
                                         const TimeConstants& constants, const LayoutRequest& training,
                                         int ranks_per_node, double train_seconds, std::vector<std::string>& notes) {
  LH_TRY(const AlignSettings settings, align_fields().parse(stage.settings, ""));
  if (has_critic(settings.method) || has_teacher(settings.method))
    return make_error(ErrorCode::unsupported,
                      format("stage {} has a {} beside the model", stage.id(),
                             has_critic(settings.method) ? "critic that is trained" : "teacher"),
                      "step times are predicted for grpo, rloo and reinforce++");
  const ModelShape& shape = training.search.task.shape;
  const DrawingPlan plan = drawing_plan(stage, settings, site, constants, training, ranks_per_node);
  const bool own_ranks = plan.draws > 0, ahead = settings.rollout.ahead;
  RolloutForecast f;
  f.how = own_ranks ? "ranks" : ahead ? "ahead" : "in turn";
  f.train = train_seconds, f.drawing_ranks = plan.draws;
  if (own_ranks) {
    draw_on_ranks(plan, settings, shape, f);
  } else {
    const RolloutTime drawn = rollout_time(shape, plan.layout, plan.place, work_of(settings, plan.answers));
    f.generate = drawn.generate, f.reference = drawn.reference;
    if (!training.on_gpus) f.weights = take_weights_time(shape, plan.layout, plan.place);
  }
  const auto steps = static_cast<double>(settings.rollout.updates());
  f.weights /= steps, f.generate /= steps, f.reference /= steps;
  const double draw = f.generate + f.reference;
  const double cores = training.on_gpus ? 0 : site.node.cores > 0 ? site.node.cores : site.cpu_slots;
  // Ranks of their own have cores of their own, as many as each rank of the stage.
  f.seconds = f.weights + (own_ranks ? std::max(train_seconds, draw)
                           : ahead   ? beside(plan, cores, train_seconds, draw)
                                     : train_seconds + draw);
  const ParallelDims& dims = stage.dims;
  const bool parts = dims.tp > 1 || dims.pp > 1 || dims.ep > 1 || dims.etp > 1 || dims.zero == 3;
  RolloutMemory memory = plan_rollout_memory(settings, shape,
                                             {.answers = static_cast<std::int64_t>(plan.answers),
                                              .compares = settings.beta > 0,
                                              .whole_elsewhere = own_ranks || parts});
  if (training.on_gpus) memory.weights = 0;  // the training's own
  f.memory = static_cast<double>(memory.total());
  say_what_is_left_out(settings, notes);
  return f;
}

double drawing_memory_of_node(const RolloutForecast& rollout, int ranks_per_node) {
  const int there = ranks_per_node > 0 ? std::min(ranks_per_node, rollout.drawing_ranks) : rollout.drawing_ranks;
  return rollout.memory * there;
}

}  // namespace longhaul
