#include "orchestrator/fit/core_fit.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/settings/stages/alignment.h"
#include "contracts/settings/stages/hyper_search.h"

namespace longhaul {
namespace {

// The most ranks up to `most` that the layout's other axes and the batch divide; 0: none.
int fitting_ranks(const PlannedStage& stage, int most) {
  const int others = std::max(1, stage.dims.world_size() / std::max(1, stage.dims.dp()));
  const std::int64_t global = stage.settings.get_integer("global_batch_size"),
                     micro = std::max<std::int64_t>(1, stage.settings.get_integer("micro_batch_size"));
  const int drawing = rollout_ranks_of(stage.kind, stage.settings);  // beside the layout
  for (int ranks = std::min(most, stage.common.ranks) - drawing; ranks > 0; --ranks) {
    if (ranks % others != 0) continue;
    if (global == 0 || global % (micro * (ranks / others)) == 0) return ranks + drawing;
  }
  return 0;
}

// What would fit, and what to type for it.
std::string remedy_of(const FitCase& fit, const PlannedStage& stage, int cores) {
  const int ranks = fitting_ranks(stage, cores);
  if (ranks == 0)
    return format("use a layout of at most {} ranks: {} has more in every replica", cores, stage.dims.to_string());
  std::string typed;
  if (ranks != stage.common.ranks) typed = fit.written.set_text(stage, "ranks", std::to_string(ranks));
  if (stage.common.threads == 0) return format("ranks = {} fits ({})", ranks, typed);
  const int threads = std::min(stage.common.threads, cores / ranks);
  if (threads != stage.common.threads)
    typed += (typed.empty() ? "" : " ") + fit.written.set_text(stage, "threads", std::to_string(threads));
  return format("ranks = {} with threads = {} fit ({})", ranks, threads, typed);
}

}  // namespace

void check_core_fit(const FitCase& fit, FitFindings& report) {
  const int cores = fit.machine.cores;
  if (cores <= 0) return;
  for (const PlannedStage& stage : fit.plan.stages) {
    const bool own = stage.kind == "command" || stage.kind == "tune" || stage.kind == search_kind_name;
    if (own || fit.cached.contains(stage.id())) continue;
    const std::int64_t threads = std::max(1, stage.common.threads), ranks = stage.common.ranks;
    if (ranks * threads <= cores) continue;
    report.refuse(
        FitSubject::cores, fit.place(stage, {"ranks", "threads", "parallel"}),
        format("stage.{}: {} rank{} of {} thread{} need {} cores, and this machine has {} (site {}: cpu_slots)",
               stage.stage, ranks, ranks == 1 ? "" : "s", threads, threads == 1 ? "" : "s", ranks * threads, cores,
               fit.site.config.name),
        remedy_of(fit, stage, cores) + " here; --site NAME means another machine");
  }
}

}  // namespace longhaul
