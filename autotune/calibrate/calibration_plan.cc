#include "autotune/calibrate/calibration_plan.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr int ranks_most = 4;

TrainingTask task_of(std::int64_t hidden, std::int64_t layers, std::int64_t heads, std::int64_t kv_heads,
                     std::int64_t vocabulary, std::int64_t sequence, std::int64_t batch) {
  TrainingTask task;
  ModelShape& s = task.shape;
  s.hidden_size = hidden, s.num_hidden_layers = layers, s.num_attention_heads = heads, s.num_key_value_heads = kv_heads;
  s.vocab_size = vocabulary, s.max_position_embeddings = sequence;
  task.sequence_length = sequence, task.global_batch_size = batch;
  return task;
}

TrainingLayout one_rank(int micro_batch_size) {
  TrainingLayout layout;
  layout.micro_batch_size = micro_batch_size;
  return layout;
}
TrainingLayout in_f32(TrainingLayout layout) {
  layout.precision = Precision::f32;
  return layout;
}
TrainingLayout recomputed(TrainingLayout layout) {
  layout.recompute.block = true;
  return layout;
}

// Layouts of all ranks.
struct Ranks {
  int count;
  TrainingLayout tensor(int micro_batch_size) const {
    TrainingLayout layout = one_rank(micro_batch_size);
    layout.dims.tp = count;
    return layout;
  }
  TrainingLayout replicas(int micro_batch_size) const {
    TrainingLayout layout = one_rank(micro_batch_size);
    layout.dims.dp_replicate = count;
    return layout;
  }
  TrainingLayout shards(int zero, int micro_batch_size) const {
    TrainingLayout layout = one_rank(micro_batch_size);
    layout.dims.dp_shard = count, layout.dims.zero = zero;
    return layout;
  }
  TrainingLayout pipeline(int micro_batch_size) const {
    TrainingLayout layout = one_rank(micro_batch_size);
    layout.dims.pp = count;
    return layout;
  }
};

void add(CalibrationModel& model, std::initializer_list<TrainingLayout> layouts, int nodes = 1) {
  for (const TrainingLayout& layout : layouts) model.layouts.push_back({layout, nodes});
}

}  // namespace

Result<CalibrationPlan> plan_calibration(const CalibrationSite& site) {
  if (site.ranks < 1 || site.ranks > ranks_most || (site.ranks & (site.ranks - 1)) != 0)
    return make_error(ErrorCode::invalid_input, format("a calibration cannot have {} ranks", site.ranks),
                      "use 1, 2 or 4: the heads of its models have to divide");
  if (site.nodes < 1 || site.ranks % site.nodes != 0)
    return make_error(ErrorCode::invalid_input,
                      format("{} ranks cannot be divided among {} nodes", site.ranks, site.nodes),
                      "use as many nodes as divide the ranks");
  if (site.threads < 1) return make_error(ErrorCode::invalid_input, "a rank has at least one thread");
  CalibrationPlan plan;
  CalibrationModel wide{"wide", task_of(384, 1, 12, 4, 800, 128, 16), {}};
  CalibrationModel deep{"deep", task_of(128, 8, 4, 4, 300, 256, 8), {}};
  CalibrationModel head{"head", task_of(192, 4, 4, 4, 3000, 64, 16), {}};
  add(wide, {one_rank(1), one_rank(4), in_f32(one_rank(2))});
  add(deep, {one_rank(1), recomputed(one_rank(4)), in_f32(one_rank(4))});
  add(head, {one_rank(2), one_rank(8), recomputed(one_rank(1))});
  if (site.ranks > 1) {
    const Ranks all{site.ranks};
    add(wide, {all.tensor(1), all.tensor(4), all.replicas(1), all.shards(1, 4)});
    add(deep, {all.tensor(2), all.replicas(2), all.shards(3, 1), all.pipeline(1), recomputed(all.pipeline(2))});
    add(head, {all.tensor(8), all.replicas(2), all.shards(1, 1), all.pipeline(2)});
  }
  if (site.nodes > 1) {
    const Ranks all{site.ranks};
    add(wide, {all.tensor(2), all.replicas(4)}, site.nodes);
    add(deep, {all.pipeline(2), all.shards(1, 2)}, site.nodes);
  }
  plan.models = {std::move(wide), std::move(deep), std::move(head)};
  const std::vector<std::string> products = {"128x640x384",  "512x640x384", "512x2048x384", "256x384x128",
                                             "1024x768x128", "64x3000x192", "512x3000x192", "1024x1024x1024"};
  const std::vector<std::int64_t> messages = {1 << 10, 32 << 10, 256 << 10, 2 << 20, 8 << 20};
  plan.benchmarks.push_back({"within", site.ranks, 1, products, messages});
  if (site.nodes > 1) plan.benchmarks.push_back({"between", site.ranks, site.nodes, {}, messages});
  return plan;
}

}  // namespace longhaul
