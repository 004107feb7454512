#include "autotune/time/step_time.h"

#include <algorithm>
#include <cmath>

#include "autotune/time/collective_time.h"
#include "contracts/pipeline/pipeline_stages.h"

namespace longhaul {

const char* to_string(StepPart part) {
  static constexpr std::array<const char*, step_parts> names = {
      "products", "attention", "memory", "recompute", "tensor", "context",   "experts",
      "host",     "bubble",    "sends",  "gathers",   "data",   "optimizer", "overhead"};
  return names[static_cast<std::size_t>(part)];
}

double StepTime::seconds() const {
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

namespace {

constexpr double embedding_traffic = 8;  // bytes per weight of a rank that the update streams however it is shared

// A micro-batch's time in `layers` layers, by part.
void add_layers(const LayerTime& layer, double layers, double again_layers, StepTime& t) {
  const PassTime both = layer.forward + layer.backward;
  t[StepPart::products] += layers * both.gemm, t[StepPart::attention] += layers * both.attention;
  t[StepPart::memory] += layers * both.memory, t[StepPart::tensor] += layers * both.tensor;
  t[StepPart::context] += layers * both.context, t[StepPart::experts] += layers * both.experts;
  t[StepPart::host] += layers * both.host, t[StepPart::recompute] += again_layers * layer.again.total();
}

void add_output(const EndTimes& ends, StepTime& t) {
  const PassTime both = ends.output_forward + ends.output_backward;
  t[StepPart::products] += both.gemm, t[StepPart::memory] += both.memory, t[StepPart::host] += both.host;
}

// Of `layers` layers of a chunk, those that are recomputed: the first ones (contracts/settings/training/recompute.h).
double again_layers(const TrainingLayout& layout, double layers) {
  if (!layout.recompute.any()) return 0;
  const auto first = static_cast<double>(layout.recompute.layers);
  return first > 0 ? std::min(first, layers) : layers;
}

// Weights that a rank of the first stage, or one between, computes with.
struct RankWeights {
  double layer = 0;      // of one layer
  double embedding = 0;  // of one end
  double of_rank = 0;    // of the rank that has most
};

RankWeights rank_weights(const TrainingTask& task, const ParallelDims& d) {
  const ModelShape& s = task.shape;
  const auto h = static_cast<double>(s.hidden_size);
  const double attention = h * static_cast<double>(s.q_size() + 2 * s.kv_size()) + h * static_cast<double>(s.q_size());
  const double width = s.is_gpt2() ? 2 : 3;
  double feed_forward = width * h * static_cast<double>(s.intermediate_size) / d.tp;
  if (s.is_moe())
    feed_forward = 3 * h * static_cast<double>(s.moe_intermediate_size) * static_cast<double>(s.num_local_experts) /
                       (static_cast<double>(d.ep) * d.etp) +
                   3 * h * static_cast<double>(s.shared_size());
  RankWeights w;
  w.layer = attention / d.tp + feed_forward;
  w.embedding = static_cast<double>(s.vocab_size) * h / d.tp;
  const double layers = std::ceil(static_cast<double>(s.num_hidden_layers) / d.pp);
  w.of_rank = layers * w.layer + w.embedding * (d.pp == 1 && !s.tie_word_embeddings ? 2 : 1);
  return w;
}

// Micro-batches' passes over all layers of a rank that go on beside the sums of its gradients (backward) and the
// gathering of its weights (forward). Without virtual stages the last micro-batch alone: a layer's gradient is whole
// after it. With them the last group of pp micro-batches passes one chunk after the other, and each chunk's sum starts
// when its own passes are over; weights are needed chunk by chunk in the same way.
double passes_beside_messages(const TrainingTask& task, const TrainingLayout& layout) {
  const ParallelDims& d = layout.dims;
  if (layout.schedule != PipelineKind::interleaved || d.vp == 1) return 1;
  const auto group = static_cast<double>(std::min<std::int64_t>(d.pp, layout.micro_batches(task)));
  return (group * (d.vp - 1) + 1) / d.vp;
}

// Gradients are summed and new weights handed out once a step; what passes of a rank beside them hide is not counted.
double exposed_data_time(const TrainingLayout& layout, const TrainingPlace& place, const RankWeights& weights,
                         double forward, double backward) {
  const ParallelDims& d = layout.dims;
  const CommonConstants& c = place.common;
  const FrameworkProfile& f = place.framework;
  const int sharing = d.cp * (d.zero > 0 ? d.dp_shard : d.dp());
  const Link link = group_link(place.cluster, c, sharing, d.tp);
  const double gradients = weights.of_rank * f.gradient_bytes, bf16 = weights.of_rank * 2;
  const auto exposed = [&](double time, double hidden_by) { return std::max(f.data_exposed * time, time - hidden_by); };
  double time = 0;
  if (d.zero == 0) return exposed(all_reduce_time(sharing, gradients, link), backward);
  time += exposed(all_gather_time(sharing, gradients, link, c.ring_latency), backward);
  time += exposed(all_gather_time(sharing, bf16, link, c.ring_latency), forward);
  if (d.dp_replicate > 1) {
    const Link across = group_link(place.cluster, c, d.dp_replicate, d.tp * sharing);
    time += exposed(all_reduce_time(d.dp_replicate, gradients / sharing, across), backward);
  }
  return time;
}

double optimizer_time(const TrainingLayout& layout, const TrainingPlace& place, const RankWeights& weights) {
  const ParallelDims& d = layout.dims;
  const double sharing = d.zero > 0 ? static_cast<double>(d.dp_shard) * d.cp : 1;
  const double rate = place.cluster.gpu.memory_rate * place.common.memory_share;
  double time = weights.of_rank * (place.framework.optimizer_traffic / sharing + embedding_traffic) / rate;
  // Moments and masters go to the host and come back: 12 bytes each way.
  if (layout.offload_moments) time += weights.of_rank / sharing * 24 / place.common.host_rate;
  // Blocks travel while others are updated, so that the slower of the two is what a step waits for.
  return std::max(time, weights.of_rank / sharing * place.moment_seconds);
}

// Once a micro-batch, whatever is in it; its gradients are added to those before.
double micro_batch_time(const TrainingPlace& place, const RankWeights& weights) {
  const double rate = place.cluster.gpu.memory_rate * place.common.memory_share;
  return place.common.micro_batch_overhead + weights.of_rank * place.framework.accumulate_traffic / rate;
}

// ZeRO 3 (Rajbhandari et al. 2020, arXiv 1910.02054; Zhao et al. 2023, arXiv 2304.11277): a layer's weights are
// gathered before either pass and its gradients scattered after the second. Seconds per micro-batch beyond the layers'
// own time.
double gather_time(const TrainingLayout& layout, const TrainingPlace& place, const RankWeights& weights,
                   const LayerTime& layer, double layers) {
  const ParallelDims& d = layout.dims;
  const CommonConstants& c = place.common;
  const FrameworkProfile& f = place.framework;
  const int sharing = d.dp_shard * d.cp;
  if (sharing <= 1) return 0;
  const Link link = group_link(place.cluster, c, sharing, d.tp);
  const double messages = f.gathers_per_layer;
  const double gather = messages * all_gather_time(sharing, 2 * weights.layer / messages, link, c.ring_latency);
  const auto beyond = [&](double work, double messages_time) {
    if (!f.shard_overlap) return messages_time;
    return std::max(work, messages_time) + c.shard_contention * std::min(work, messages_time) - work;
  };
  const double back = layer.backward.total() + layer.again.total();
  return layers * (beyond(layer.forward.total(), gather) + beyond(back, 2 * gather));
}

struct RankLayers {
  double all = 0, again = 0;
};
// As contracts/pipeline/pipeline_stages.h assigns them: every stage has `few` layers, the first `rest` stages one more.
RankLayers layers_of_rank(const TrainingTask& task, const TrainingLayout& layout, int pp_rank) {
  const ParallelDims& d = layout.dims;
  const int layers = static_cast<int>(task.shape.num_hidden_layers), stages = d.pp * d.vp;
  const int few = layers / stages, rest = layers % stages;
  const int longer = rest > pp_rank ? (rest - pp_rank - 1) / d.pp + 1 : 0;
  return {static_cast<double>(d.vp) * few + longer,
          longer * again_layers(layout, few + 1) + (d.vp - longer) * again_layers(layout, few)};
}

double send_time(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place) {
  const ParallelDims& d = layout.dims;
  if (d.pp == 1) return 0;
  const double width = layout.precision == Precision::f32 ? 4 : 2;
  const double bytes = static_cast<double>(layout.micro_batch_size) * static_cast<double>(task.sequence_length) / d.cp *
                       static_cast<double>(task.shape.hidden_size) * width;
  const Link link = neighbour_link(place.cluster, place.common, d.tp * d.cp * d.dp(), d.world_size());
  return link.latency + bytes / (place.framework.split_sends ? d.tp : 1) / link.rate;
}

StepTime finish(StepTime t, const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place,
                double forward, double backward) {
  const RankWeights weights = rank_weights(task, layout.dims);
  if (layout.dims.zero < 3) t[StepPart::data] = exposed_data_time(layout, place, weights, forward, backward);
  t[StepPart::optimizer] = optimizer_time(layout, place, weights);
  t[StepPart::overhead] += place.common.step_overhead;
  t[StepPart::overhead] += t.seconds() * place.common.jitter * std::log2(layout.dims.world_size());
  t.sigma = prediction_spread(task.shape, place.cluster.gpu, place.common);
  return t;
}

// Per micro-batch, of the rank `pp_rank`.
StepTime rank_work(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place,
                   const UnitTimes& units, const RankWeights& weights, double send, int pp_rank) {
  const ParallelDims& d = layout.dims;
  StepTime t;
  const RankLayers layers = layers_of_rank(task, layout, pp_rank);
  add_layers(units.layer, layers.all, layers.again, t);
  if (pp_rank == 0) t[StepPart::memory] += units.ends.embedding;
  if (pp_rank == d.pp - 1) add_output(units.ends, t);
  if (d.zero == 3) t[StepPart::gathers] = gather_time(layout, place, weights, units.layer, layers.all);
  if (d.pp > 1) t[StepPart::sends] = 2 * send * d.vp * place.framework.pipeline_exposed;
  t[StepPart::overhead] = micro_batch_time(place, weights);
  return t;
}

}  // namespace

double prediction_spread(const ModelShape& shape, const GpuType& gpu, const CommonConstants& c) {
  const double device = gpu.measured ? c.spread_seen : c.spread_new;
  return shape.is_moe() ? std::max(device, c.spread_experts) : device;
}

UnitTimes unit_times(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place) {
  return {layer_time(task, layout, place), end_times(task, layout, place)};
}

StepTime step_bound(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place,
                    const UnitTimes& units) {
  const ParallelDims& d = layout.dims;
  const RankWeights weights = rank_weights(task, d);
  const double send = send_time(task, layout, place), batches = static_cast<double>(layout.micro_batches(task));
  // Rank r cannot begin before the first micro-batch has passed the stages before it, and after its last input gradient
  // that has to pass them back.
  const int layers = static_cast<int>(task.shape.num_hidden_layers), stages = d.pp * d.vp;
  const int few = layers / stages, rest = layers % stages;  // the first `rest` stages have one more
  const LayerTime& layer = units.layer;
  const auto hops = [&](int ranks) {
    const int longer = std::min(ranks, rest);
    const double all = static_cast<double>(ranks) * few + longer;
    const double again = longer * again_layers(layout, few + 1) + (ranks - longer) * again_layers(layout, few);
    const double sends = ranks * send * (1 + place.framework.pipeline_exposed);
    const double share = ranks * micro_batch_time(place, weights) / d.vp / 2;
    const double first = ranks > 0 ? units.ends.embedding / 2 : 0;
    PassTime work;  // forward in gemm, backward in attention, its weight part in memory
    work.gemm = all * layer.forward.total() + sends + share + first;
    work.attention = all * layer.backward.total() + again * layer.again.total() + sends + share + first;
    work.memory = all * layer.weight_gradients;
    return work;
  };
  const bool split = layout.schedule == PipelineKind::zb_h1;
  // The last of the ranks with most layers, the first (embedding), and the last two (output).
  const int most = rest % d.pp > 0 ? rest % d.pp - 1 : d.pp - 1;
  StepTime best;
  double longest = -1;
  const std::array<int, 4> candidates = {0, most, std::max(0, d.pp - 2), d.pp - 1};
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const int r = candidates[i];
    if (std::find(candidates.begin(), candidates.begin() + i, r) != candidates.begin() + i) continue;
    const StepTime work = rank_work(task, layout, place, units, weights, send, r);
    const PassTime hop = hops(r);
    double idle = hop.gemm + hop.attention;
    if (split)  // weight gradients come late, at most r + 1 of them after the last input gradient
      idle = hop.gemm + std::max(0.0, hop.attention - hop.memory - (r + 1) * (few + 1) * layer.weight_gradients);
    const double time = batches * work.seconds() + idle;
    if (time <= longest) continue;
    longest = time, best = work;
    for (double& part : best.parts) part *= batches;
    best[StepPart::bubble] = idle;
  }
  const double usual = static_cast<double>(few) * d.vp * passes_beside_messages(task, layout);
  return finish(best, task, layout, place, usual * layer.forward.total(),
                usual * layer.backward.total() +
                    passes_beside_messages(task, layout) * d.vp * again_layers(layout, few) * layer.again.total());
}

StepTime step_bound(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place) {
  return step_bound(task, layout, place, unit_times(task, layout, place));
}

PipelineCosts pipeline_costs(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place,
                             const UnitTimes& units) {
  const ParallelDims& d = layout.dims;
  const RankWeights weights = rank_weights(task, d);
  const double send = send_time(task, layout, place);
  PipelineCosts costs;
  costs.send = send;
  costs.stages.clear();
  const int stages = d.pp * d.vp;
  for (int stage = 0; stage < stages; ++stage) {
    const double layers = layers_of_stage(static_cast<int>(task.shape.num_hidden_layers), stages, stage).count();
    const double again = again_layers(layout, layers);
    const double occupied = d.pp > 1 ? send * place.framework.pipeline_exposed : 0;
    const double gathers = d.zero == 3 ? gather_time(layout, place, weights, units.layer, layers) : 0;
    const double share = micro_batch_time(place, weights) / d.vp / 2;
    StageCosts cost;
    cost.forward = layers * units.layer.forward.total() + occupied + gathers / 3 + share;
    cost.backward =
        layers * units.layer.backward.total() + again * units.layer.again.total() + occupied + gathers * 2 / 3 + share;
    if (stage == 0) cost.forward += units.ends.embedding / 2, cost.backward += units.ends.embedding / 2;
    if (stage == stages - 1)
      cost.forward += units.ends.output_forward.total(), cost.backward += units.ends.output_backward.total();
    cost.backward_weight = layers * units.layer.weight_gradients;
    cost.backward_input = cost.backward - cost.backward_weight;
    costs.stages.push_back(cost);
  }
  return costs;
}

namespace {

PipelineScheduleSettings schedule_of(const TrainingLayout& layout, int micro_batches) {
  return {layout.schedule, layout.dims.pp, layout.dims.vp, micro_batches, layout.group};
}

Result<double> makespan(const TrainingLayout& layout, const PipelineCosts& costs, int micro_batches) {
  LH_TRY(const auto lists, pipeline_schedules(schedule_of(layout, micro_batches)));
  LH_TRY(const PipelineTimeline timeline, run_pipeline(lists, layout.dims.vp, costs));
  return timeline.makespan;
}

// Long schedules repeat themselves after their warm-up: two short ones say how much each further group of micro-batches
// adds.
Result<double> pipeline_seconds(const TrainingLayout& layout, const PipelineCosts& costs, std::int64_t micro_batches) {
  const int pp = layout.dims.pp;
  LH_TRY(const int group, pipeline_group(schedule_of(layout, static_cast<int>(micro_batches))));
  const std::int64_t period = layout.dims.vp > 1 ? group : 1;
  const std::int64_t rest = micro_batches % period;
  const std::int64_t first = ((2 * pp + period - 1) / period) * period + rest, second = first + 2 * period;
  if (micro_batches <= second) return makespan(layout, costs, static_cast<int>(micro_batches));
  LH_TRY(const double shorter, makespan(layout, costs, static_cast<int>(first)));
  LH_TRY(const double longer, makespan(layout, costs, static_cast<int>(second)));
  return longer +
         (longer - shorter) / static_cast<double>(second - first) * static_cast<double>(micro_batches - second);
}

}  // namespace

Result<StepTime> step_time(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place,
                           const UnitTimes& units) {
  const ParallelDims& d = layout.dims;
  StepTime bound = step_bound(task, layout, place, units);
  if (d.pp == 1) return bound;
  const PipelineCosts costs = pipeline_costs(task, layout, place, units);
  LH_TRY(const double pipeline, pipeline_seconds(layout, costs, layout.micro_batches(task)));
  double counted = 0;  // of the pipeline, by the bound
  for (int part = 0; part < step_parts; ++part) {
    const auto which = static_cast<StepPart>(part);
    if (which != StepPart::data && which != StepPart::optimizer && which != StepPart::overhead)
      counted += bound.parts[static_cast<std::size_t>(part)];
  }
  counted += micro_batch_time(place, rank_weights(task, d)) * static_cast<double>(layout.micro_batches(task));
  const double more = pipeline - counted;
  bound[StepPart::bubble] += more;
  bound[StepPart::overhead] += more * place.common.jitter * std::log2(d.world_size());
  return bound;
}

Result<StepTime> step_time(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place) {
  return step_time(task, layout, place, unit_times(task, layout, place));
}

double model_flops_utilisation(const TrainingTask& task, const TrainingLayout& layout, const GpuType& gpu,
                               double seconds) {
  const double tokens = static_cast<double>(task.global_batch_size) * static_cast<double>(task.sequence_length);
  return task.shape.train_flops_per_token(task.sequence_length) * tokens / seconds / layout.dims.world_size() /
         gpu.peak_bf16;
}

}  // namespace longhaul
