#include "orchestrator/workflow/layout/stage_layout.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/plan/shrunken_layout.h"
#include "contracts/settings/job/resumable.h"
#include "contracts/settings/stages/alignment.h"
#include "orchestrator/workflow/layout/feature_check.h"
#include "orchestrator/workflow/layout/layout_check.h"

namespace longhaul {
namespace {

// Most of a job's nodes have to be heard of when one is lost (worker/lead/job_lead.h).
constexpr int nodes_of_a_majority = 3;

// A training that may shrink has a smaller layout to shrink to.
void check_shrink(const std::string& stage, const StageKind& kind, const Value& settings, const Value& written,
                  const StageCommon& common, const ParallelDims& dims, Diagnostics& diagnostics) {
  if (!common.resiliency.shrink) return;
  const SourcePos at = place_of_setting(written, {"resiliency.shrink"}, written.pos);
  const std::string what = "stage." + stage + ".resiliency.shrink: ";
  const auto rules = shrink_rules_of(kind.name, settings, dims, common.nodes, common.resiliency.min_replicas);
  if (!rules.ok()) {
    diagnostics.add(at, what + rules.error().what, "remove it; " + rules.error().hint);
    return;
  }
  if (common.nodes_with_spares() < nodes_of_a_majority) {
    diagnostics.add(at,
                    what + format("of {} node{} no majority is left when one is lost, and nobody may decide",
                                  common.nodes_with_spares(), common.nodes_with_spares() == 1 ? "" : "s"),
                    format("remove it, or use nodes = {} or more", nodes_of_a_majority));
    return;
  }
  if (!shrunken_layouts(*rules).empty()) return;
  diagnostics.add(
      at,
      what +
          format("the layout {} on {} nodes has no smaller one that fits fewer: at least {} replica{}, whole nodes of "
                 "{} ranks, and global_batch_size a multiple of micro_batch_size({}) * replicas",
                 dims.to_string(), common.nodes, rules->min_replicas, rules->min_replicas == 1 ? "" : "s",
                 rules->ranks_per_node(), rules->micro_batch_size),
      "remove it, or use more replicas, a smaller min_replicas or another global_batch_size");
}

// What is left for the layout of a stage's ranks where the last of them only draw answers; 0 where that cannot be.
int ranks_that_train(const std::string& stage, int drawing, const Value& written, const StageCommon& common,
                     Diagnostics& diagnostics) {
  if (drawing == 0) return common.ranks;
  const SourcePos at = place_of_setting(written, {"rollout.ranks", "rollout"}, written.pos);
  const std::string what = format("stage.{}: rollout.ranks = {}", stage, drawing);
  if (!layout_stage_of(written).empty()) {
    diagnostics.add(at, what + " with a layout that a tune stage finds: it lays out all ranks of the stage",
                    "write the layout, or leave rollout.ranks out");
    return 0;
  }
  if (common.ranks <= drawing) {
    diagnostics.add(at,
                    format("{}, and the stage has {} rank{}: none is left to train", what, common.ranks,
                           common.ranks == 1 ? "" : "s"),
                    format("use ranks = {} or more", drawing + 1));
    return 0;
  }
  if (common.resiliency.shrink)
    diagnostics.add(at, what + " with resiliency.shrink: a smaller layout leaves no ranks that only draw",
                    "leave one of them out");
  return common.ranks - drawing;
}

}  // namespace

std::string layout_stage_of(const Value& written) {
  const Value* parallel = written.find("parallel");
  const std::string text = parallel && parallel->is_string() ? parallel->as_string() : "";
  return starts_with(text, "@") ? text.substr(1) : "";
}

ParallelDims read_layout(const std::string& stage, const StageKind& kind, const Value& settings, const Value& written,
                         StageCommon& common, Diagnostics& diagnostics) {
  const std::string where = "stage." + stage;
  const Value* parallel = written.find("parallel");
  const auto place_of = [&](const char* key) { return written.find(key) ? written.find(key)->pos : written.pos; };
  ParallelDims dims;
  const std::size_t before = diagnostics.size();
  if (parallel && parallel->is_table())
    dims = parallel_dims_fields().parse(*parallel, where + ".parallel", diagnostics);
  if (diagnostics.size() != before) return dims;
  if (!parallel || !parallel->find("dp_replicate")) dims.dp_replicate = 0;  // what is left, unless the user says it
  const int drawing = rollout_ranks_of(kind.name, settings);
  if (!parallel && !written.find("ranks")) common.ranks += drawing;
  if (parallel && parallel->is_table() && !written.find("ranks")) {
    const std::int64_t needed =
        std::int64_t{1} * dims.tp * dims.cp * dims.pp * dims.dp_shard * std::max(1, dims.dp_replicate) + drawing;
    if (needed > ranks_max) {
      diagnostics.add(parallel->pos,
                      format("{}.parallel multiplies up to {} ranks; a job has at most {}", where, needed, ranks_max),
                      "make an axis smaller");
      return dims;
    }
    common.ranks = static_cast<int>(needed);
  }
  if (!kind.parallel && common.ranks > 1)
    diagnostics.add(place_of("ranks"),
                    format("{}.ranks = {}, but the stage kind '{}' runs on one rank", where, common.ranks, kind.name),
                    "use threads for more cores");
  // One a GPU, until candidates or a search say how many.
  if (!layout_stage_of(written).empty() && !written.find("ranks"))
    common.ranks = common.nodes * std::max(1, common.job.gpus_per_node);
  if (common.ranks % common.nodes != 0 && !settings.find("step"))  // steps divide theirs themselves
    diagnostics.add(place_of("nodes"),
                    format("{}: {} ranks cannot be shared evenly by {} nodes", where, common.ranks, common.nodes),
                    "use ranks that are a multiple of nodes");
  const int training = ranks_that_train(stage, drawing, written, common, diagnostics);
  if (training == 0) return dims;
  if (parallel && parallel->is_string()) {
    if (layout_stage_of(written).empty())
      diagnostics.add(parallel->pos, where + ".parallel = \"" + parallel->as_string() + "\" is not a layout",
                      "write it, for example { dp_replicate = 2 }, or name the tune stage that finds it: \"@layout\"");
    else if (!trains(kind.name))
      diagnostics.add(
          parallel->pos,
          format("{}.parallel = \"{}\", but the kind '{}' does not train", where, parallel->as_string(), kind.name),
          "layouts are found for pretrain, sft and align");
    dims.dp_replicate = common.ranks;  // until it is known
    // What no layout changes.
    if (const auto asked = engine_case_of_stage(kind.name, settings, {}, dims))
      check_features(stage, *asked, written, written.pos, diagnostics);
    return dims;
  }
  if (parallel && !parallel->is_table()) {
    diagnostics.add(parallel->pos, where + ".parallel is " + parallel->kind_name() + ", expected a table",
                    "for example { tp = 2 }");
    return dims;
  }
  const SourcePos at = parallel ? parallel->pos : place_of("ranks");
  auto resolved = resolve_dims(dims, training);
  if (!resolved.ok()) {
    const std::string of = drawing > 0 ? format(" ({} less rollout.ranks = {})", common.ranks, drawing) : "";
    diagnostics.add(at, where + ": " + resolved.error().what + of, resolved.error().hint);
    return dims;
  }
  const std::size_t sound = diagnostics.size();
  check_layout(stage, kind, settings, written, *resolved, at, diagnostics);
  if (diagnostics.size() == sound) check_shrink(stage, kind, settings, written, common, *resolved, diagnostics);
  return *resolved;
}

}  // namespace longhaul
