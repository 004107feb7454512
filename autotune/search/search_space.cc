#include "autotune/search/search_space.h"

#include <algorithm>
#include <numeric>

#include "base/error/diagnostics.h"
#include "base/text/text.h"
#include "contracts/plan/layout_check.h"
#include "contracts/settings/training/feature_table.h"

namespace longhaul {

TrainingLayout LayoutFamily::layout() const {
  TrainingLayout l;
  l.precision = precision, l.micro_batch_size = micro_batch_size, l.recompute = recompute;
  l.dims.tp = tp, l.dims.sp = sp, l.dims.cp = cp, l.dims.ep = ep, l.dims.etp = etp;
  return l;
}

namespace {

std::vector<int> divisors(std::int64_t of, std::int64_t at_most) {
  std::vector<int> found;
  for (std::int64_t i = 1; i <= std::min(of, at_most); ++i)
    if (of % i == 0) found.push_back(static_cast<int>(i));
  return found;
}

// `wanted`, or all of `possible`; what is wanted and cannot be goes to the problems.
std::vector<int> choose(const std::vector<int>& wanted, const std::vector<int>& possible, const char* name,
                        const std::string& because, Diagnostics& problems) {
  if (wanted.empty()) return possible;
  std::vector<int> chosen;
  for (const int value : wanted) {
    if (std::find(possible.begin(), possible.end(), value) != possible.end()) {
      chosen.push_back(value);
      continue;
    }
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < possible.size() && i < 16; ++i) texts.push_back(std::to_string(possible[i]));
    problems.add({}, format("{} = {} is not possible: {}", name, value, because), "possible are " + join(texts, ", "));
  }
  return chosen;
}

std::vector<int> tensor_choices(const SearchSpace& space, const TrainingTask& task, const Cluster& cluster,
                                Diagnostics& problems) {
  const ModelShape& s = task.shape;
  std::int64_t whole = std::gcd(s.num_attention_heads, s.num_key_value_heads);
  if (!s.is_moe()) whole = std::gcd(whole, s.intermediate_size);
  const int most = space.tp_max > 0 ? space.tp_max : 2 * cluster.domain;
  std::vector<int> possible =
      divisors(std::gcd(whole, std::int64_t{space.gpus}), space.tp.empty() ? most : std::int64_t{space.gpus});
  return choose(space.tp, possible, "tp",
                format("it has to divide {} attention heads, {} key-value heads{} and {} GPUs", s.num_attention_heads,
                       s.num_key_value_heads, s.is_moe() ? "" : format(", intermediate size {}", s.intermediate_size),
                       space.gpus),
                problems);
}

std::vector<int> context_choices(const SearchSpace& space, const TrainingTask& task, Diagnostics& problems) {
  std::vector<int> possible;
  for (int cp = 1; cp <= 64 && cp <= space.gpus; cp *= 2)
    if (cp == 1 || (task.sequence_length % (2 * cp) == 0 && task.sequence_length / cp >= 256)) possible.push_back(cp);
  return choose(space.cp, possible, "cp",
                format("2 * cp has to divide the sequence length {} and leave 256 tokens", task.sequence_length),
                problems);
}

std::vector<int> batch_choices(const SearchSpace& space, const TrainingTask& task, Diagnostics& problems) {
  std::vector<int> possible;
  for (const int size : divisors(task.global_batch_size, 128))
    if (!space.micro_batch_size.empty() || (size & (size - 1)) == 0) possible.push_back(size);
  return choose(space.micro_batch_size, possible, "micro_batch_size",
                format("it has to divide global_batch_size {}", task.global_batch_size), problems);
}

// Nothing; what frees most for least; whole layers, of a part of each stage or of all.
std::vector<Recompute> recompute_choices(const SearchSpace& space, const TrainingTask& task) {
  std::vector<Recompute> all(1);
  if (!space.recompute) return all;
  Recompute r;
  r.activation = true;
  all.push_back(r);
  r.norms = true;
  all.push_back(r);
  r.feed_forward = true;
  all.push_back(r);
  r = {}, r.attention = true;
  all.push_back(r);
  r = {}, r.block = true;
  for (const int eighths : {1, 2, 3, 4, 5, 6, 7}) {
    r.layers = task.shape.num_hidden_layers * eighths / 8;
    const bool fresh = !all.back().block || all.back().layers != r.layers;
    if (fresh && r.layers > 0 && r.layers < task.shape.num_hidden_layers) all.push_back(r);
  }
  r.layers = 0;
  all.push_back(r);
  return all;
}

std::vector<int> replica_shards(int dp, const ParallelDims& d, const Cluster& cluster) {
  std::vector<int> shards = {dp};
  for (int s = dp / 2, steps = 0; s > 1 && dp % s == 0 && steps < 3; s /= 2, ++steps) shards.push_back(s);
  const int inside = cluster.domain / std::max(1, d.tp * d.cp);
  if (inside > 1 && inside < dp && dp % inside == 0) shards.push_back(inside);
  std::sort(shards.begin(), shards.end(), std::greater<>());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  return shards;
}

bool wanted(const std::vector<int>& list, int value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

bool wanted(const std::vector<PipelineKind>& list, PipelineKind kind) {
  return list.empty() || std::find(list.begin(), list.end(), kind) != list.end();
}

// Chunks per rank that leave no rank with much more than its share.
std::vector<int> chunk_choices(const SearchSpace& space, std::int64_t layers, int pp) {
  std::vector<int> chunks = {1};
  for (int vp = 2; pp > 1 && std::int64_t{vp} * pp <= layers; ++vp) {
    const std::int64_t of_chunk = (layers + std::int64_t{vp} * pp - 1) / (std::int64_t{vp} * pp);
    if (!space.vp.empty() || of_chunk * vp * pp * 8 <= layers * 9) chunks.push_back(vp);
  }
  std::erase_if(chunks, [&](int vp) { return !wanted(space.vp, vp); });
  return chunks;
}

// What this engine would say of every layout of the family, whatever its stages and replicas are.
Status check_family(const LayoutFamily& family, const SearchSpace& space, const TrainingTask& task) {
  if (!space.engine) return {};
  EngineCase asked = *space.engine;
  const TrainingLayout layout = family.layout();
  asked.shape = task.shape;
  take_layout(layout, asked);
  LH_CHECK(check_engine(asked));
  LH_CHECK(check_low_precision(asked.low_precision, task.shape, layout.dims, asked.sequence_length));
  // How experts are sharded depends on the replicas.
  LayoutCheckInput input{task.shape, layout.dims, family.micro_batch_size, task.sequence_length, asked.cp_attention};
  input.dims.dp_replicate = layout.dims.ep * layout.dims.etp;
  return check_layout_of(input);
}

}  // namespace

void take_layout(const TrainingLayout& layout, EngineCase& asked) {
  asked.dims = layout.dims;
  asked.precision = layout.precision == Precision::f32 ? "f32" : "bf16";
  if (layout.precision == Precision::fp8 && !asked.low_precision.on()) asked.low_precision.recipe = "delayed";
  if (layout.precision == Precision::fp4) asked.low_precision.recipe = "mxfp4";
  asked.pipeline.schedule = layout.dims.pp > 1 ? to_string(layout.schedule) : "auto";
  if (!layout.offload_moments)
    asked.optimizer.offload = "none";
  else if (asked.optimizer.offload == "none")
    asked.optimizer.offload = "host";
}

Result<std::vector<LayoutFamily>> layout_families(const SearchSpace& space, const TrainingTask& task,
                                                  const Cluster& cluster) {
  Diagnostics problems;
  const ModelShape& s = task.shape;
  const auto tps = tensor_choices(space, task, cluster, problems);
  const auto cps = context_choices(space, task, problems);
  const auto sizes = batch_choices(space, task, problems);
  const auto experts = choose(
      space.ep, s.is_moe() ? divisors(s.num_local_experts, space.gpus) : std::vector<int>{1}, "ep",
      s.is_moe() ? format("it has to divide {} experts", s.num_local_experts) : std::string("the model has no experts"),
      problems);
  LH_CHECK(problems.to_status("no layout can be searched"));
  std::vector<LayoutFamily> families;
  Status refused;  // what the first one was refused for
  for (const Precision precision : space.precision) {
    if (cluster.gpu.gemm_rate(precision) <= 0) continue;
    for (const int tp : tps) {
      for (const bool sp : {false, true}) {
        if ((sp && tp == 1) || (!space.sp.empty() && tp > 1 && space.sp.front() != sp && space.sp.size() == 1))
          continue;
        for (const int cp : cps) {
          for (const int ep : experts) {
            for (const int etp : s.is_moe() && tp > 1 ? std::vector<int>{1, tp} : std::vector<int>{1}) {
              if (!wanted(space.etp, etp) || s.moe_intermediate_size % etp != 0) continue;
              for (const int size : sizes) {
                if (sp && (size * task.sequence_length) % (std::int64_t{tp} * cp) != 0) continue;
                if (Status accepted = check_family({precision, tp, cp, ep, etp, size, sp, {}}, space, task);
                    !accepted.ok()) {
                  if (refused.ok()) refused = std::move(accepted);
                  continue;
                }
                for (const Recompute& again : recompute_choices(space, task))
                  families.push_back({precision, tp, cp, ep, etp, size, sp, again});
              }
            }
          }
        }
      }
    }
  }
  if (families.empty() && !refused.ok()) return refused.error().with_context("no layout can be searched");
  return families;
}

void for_each_layout(const LayoutFamily& family, const SearchSpace& space, const TrainingTask& task,
                     const Cluster& cluster, const std::function<void(const TrainingLayout&)>& visit) {
  const std::int64_t layers = task.shape.num_hidden_layers;
  TrainingLayout layout = family.layout();
  ParallelDims& d = layout.dims;
  const int inner = d.tp * d.cp;
  if (space.gpus % inner != 0) return;
  std::optional<EngineCase> asked = space.engine;
  if (asked) asked->shape = task.shape, layout.context = context_kind_of(asked->cp_attention);
  const auto is_refused = [&] {
    if (!asked) return false;
    if (layout.offload_moments) asked->optimizer.offload = space.engine->optimizer.offload;  // or "host"
    take_layout(layout, *asked);
    return engine_refuses(*asked);
  };
  for (const int pp : divisors(space.gpus / inner, layers)) {
    if (!wanted(space.pp, pp)) continue;
    const int dp = space.gpus / inner / pp;
    const std::int64_t at_once = std::int64_t{family.micro_batch_size} * dp;
    if (task.global_batch_size % at_once != 0) continue;
    if (space.rampup.start > 0 && !check_batch_rampup(space.rampup, task.global_batch_size, at_once).ok()) continue;
    d.pp = pp;
    for (const int vp : chunk_choices(space, layers, pp)) {
      d.vp = vp;
      layout.recompute = family.recompute;
      if (family.recompute.layers > 0) {  // that share of each chunk
        const std::int64_t of_chunk = (layers + std::int64_t{pp} * vp - 1) / (std::int64_t{pp} * vp);
        const std::int64_t eighths = (family.recompute.layers * 8 + layers - 1) / layers;
        layout.recompute.layers = family.recompute.layers * of_chunk / layers;
        // None, or as many as an eighth less: that family has been there.
        if (layout.recompute.layers == layers * (eighths - 1) / 8 * of_chunk / layers) continue;
      }
      for (const PipelineKind kind : {PipelineKind::one_f_one_b, PipelineKind::interleaved, PipelineKind::zb_h1}) {
        if ((vp > 1) != (kind == PipelineKind::interleaved) && kind != PipelineKind::zb_h1) continue;
        if ((pp == 1 && kind != PipelineKind::one_f_one_b) || !wanted(space.schedule, kind)) continue;
        layout.schedule = kind;
        for (int zero = 0; zero <= 3; ++zero) {
          if (!wanted(space.zero, zero) || (zero > 0 && dp == 1)) continue;
          if (zero >= 2 && kind == PipelineKind::zb_h1) continue;  // contracts/settings/training/pipeline.cc says why
          d.zero = zero;
          for (const int shard : zero == 0 ? std::vector<int>{1} : replica_shards(dp, d, cluster)) {
            d.dp_shard = shard, d.dp_replicate = dp / shard;
            if (task.shape.is_moe() && !expert_dims_of(d).ok()) continue;
            for (const bool offload : {false, true}) {
              if (offload && !space.offload) continue;
              layout.offload_moments = offload;
              if (!is_refused()) visit(layout);
            }
          }
        }
      }
    }
  }
}

}  // namespace longhaul
