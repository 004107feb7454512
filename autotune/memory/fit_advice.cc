#include "autotune/memory/fit_advice.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {

namespace {

const char* largest_part(const FrameworkMemory& m) {
  const std::pair<double, const char*> parts[] = {{m.weights, "weights"},
                                                  {m.gradients, "gradients"},
                                                  {m.optimizer, "the optimizer's state"},
                                                  {m.activations, "activations"},
                                                  {m.logits, "logits"},
                                                  {m.transient + m.step, "what a layer or the step needs"},
                                                  {m.communication + m.library, "messages"}};
  return std::max_element(std::begin(parts), std::end(parts))->second;
}

std::string gigabytes(double bytes) {
  return format("{:.1f} GB", bytes / 1e9);
}

// Candidates are asked one after the other; those that fit are kept.
class FitSearch {
 public:
  FitSearch(const FitRequest& question, FitAdvice& advice) : q_(question), advice_(advice) {}

  // Where the pipeline has a stage without layers, or a dimension does not divide, there is no such layout.
  bool is_possible(const FrameworkTraining& t) const {
    const ParallelDims& d = t.dims;
    const FrameworkModel& m = q_.model;
    if (m.layers < std::int64_t{d.pp} * d.vp || m.heads % d.tp != 0 || m.kv % d.tp != 0) return false;
    if (m.experts > 0 && (m.experts % d.ep != 0 || !expert_dims_of(d).ok())) return false;
    return t.sequence_length % (std::int64_t{2} * d.cp) == 0 || d.cp == 1;
  }

  bool add(std::string what, const FrameworkTraining& t) {
    if (!is_possible(t)) return false;
    const FrameworkMemory needs = worst_stage_memory(q_.profile, q_.model, t).memory;
    if (needs.total() > q_.device_bytes) return false;
    if (t.host_optimizer > 0 && needs.host > q_.host_bytes) return false;
    advice_.changes.push_back({std::move(what), t, needs.total(), t.dims.world_size()});
    return true;
  }

 private:
  const FitRequest& q_;
  FitAdvice& advice_;
};

void try_recompute(const FitRequest& q, FitSearch& search) {
  for (const char* module : {"feed_forward", "block"}) {
    FrameworkTraining t = q.training;
    if (t.recompute.block) return;
    RecomputeSettings settings;
    settings.modules = {module};
    t.recompute = *recompute_from(settings);
    if (search.add(format("recompute.modules = [\"{}\"]", module), t)) return;
  }
}

void try_offload(const FitRequest& q, FitSearch& search) {
  FrameworkTraining t = q.training;
  t.host_optimizer = 1;
  if (t.host_optimizer > q.training.host_optimizer && q.host_bytes > 0) search.add("optimizer.offload = \"host\"", t);
}

// The same GPUs: what one axis gains the replicas lose.
void try_layouts(const FitRequest& q, FitSearch& search) {
  const ParallelDims& had = q.training.dims;
  for (int zero = had.zero + 1; zero <= 3 && had.dp_shard > 1; ++zero) {
    FrameworkTraining t = q.training;
    t.dims.zero = zero;
    if (zero >= 2 && had.pp > 1) break;  // a pipeline would sum every micro-batch's gradients apart
    if (search.add(format("parallel.zero = {}", zero), t)) break;
  }
  const auto grow = [&](const char* name, int ParallelDims::* axis, int limit) {
    for (int times = 2; had.*axis * times <= limit; times *= 2) {
      FrameworkTraining t = q.training;
      const bool of_shards = had.dp_shard % times == 0;
      if (!of_shards && had.dp_replicate % times != 0) return;
      t.dims.*axis = had.*axis * times;
      (of_shards ? t.dims.dp_shard : t.dims.dp_replicate) /= times;
      t.dims.sp |= t.dims.tp > 1;
      t.micro_batches =
          q.training.micro_batches *
          (axis == &ParallelDims::tp || axis == &ParallelDims::pp || axis == &ParallelDims::cp ? times : 1);
      if (search.add(format("parallel.{} = {}", name, t.dims.*axis), t)) return;
    }
  };
  grow("tp", &ParallelDims::tp, q.gpus_per_node);
  grow("pp", &ParallelDims::pp, static_cast<int>(q.model.layers));
  grow("cp", &ParallelDims::cp, 64);
}

void try_more_gpus(const FitRequest& q, FitSearch& search) {
  const int had = q.training.dims.world_size();
  for (int times = 2; times <= 4096; ++times) {
    for (int ParallelDims::* axis : {&ParallelDims::dp_shard, &ParallelDims::pp}) {
      FrameworkTraining t = q.training;
      if (axis == &ParallelDims::dp_shard && t.dims.zero == 0) continue;
      t.dims.*axis *= times;
      if (axis == &ParallelDims::dp_shard) {
        if (t.micro_batches % times != 0) continue;  // the batch stays what it is
        t.micro_batches /= times;
      }
      const char* name = axis == &ParallelDims::pp ? "pp" : "dp_shard";
      if (search.add(format("{} GPUs instead of {} (parallel.{} = {})", had * times, had, name, t.dims.*axis), t))
        return;
    }
  }
}

}  // namespace

FitAdvice advise_fit(const FitRequest& q) {
  FitAdvice advice;
  const WorstStage worst = worst_stage_memory(q.profile, q.model, q.training);
  advice.needed_bytes = worst.memory.total();
  advice.missing_bytes = advice.needed_bytes - q.device_bytes;
  advice.pp_rank = worst.pp_rank;
  advice.largest = largest_part(worst.memory);
  if (advice.fits()) return advice;
  FitSearch search(q, advice);
  if (q.may_recompute) try_recompute(q, search);
  if (q.may_relayout) try_layouts(q, search);
  if (q.may_offload) try_offload(q, search);
  if (q.may_add_gpus) try_more_gpus(q, search);
  return advice;
}

std::string FitAdvice::text() const {
  if (fits()) return format("fits: {} of a GPU are needed", gigabytes(needed_bytes));
  std::string said = format("a GPU of pipeline stage {} needs {}, {} more than it has, most of it for {}; ", pp_rank,
                            gigabytes(needed_bytes), gigabytes(missing_bytes), largest);
  if (changes.empty()) return said + "no single change makes it fit: combine recomputation, zero = 3 and more GPUs";
  std::vector<std::string> ways;
  for (const FitChange& change : changes) ways.push_back(format("{} ({})", change.what, gigabytes(change.bytes)));
  return said + "any one of these makes it fit: " + join(ways, "; ");
}

}  // namespace longhaul
