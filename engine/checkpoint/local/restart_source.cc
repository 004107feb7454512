#include "engine/checkpoint/local/restart_source.h"

#include <algorithm>
#include <cstdlib>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {

std::vector<RestartSource> restart_order(std::span<const LocalStep> copies, std::span<const std::string> checkpoints) {
  std::vector<RestartSource> order;
  for (const LocalStep& step : copies) order.push_back({step.step, step, ""});
  for (const std::string& name : checkpoints)
    order.push_back({std::atoll(name.substr(name.find('-') + 1).c_str()), std::nullopt, name});
  std::ranges::stable_sort(order, [](const RestartSource& a, const RestartSource& b) { return a.step > b.step; });
  return order;
}

Result<LoadedState> load_newest_state(CollectiveGroup& group, const CheckpointStore& checkpoints,
                                      const LocalCopies* copies, TrainingState& state, int threads,
                                      const TimeLine& line) {
  LoadedState loaded;
  LocalSteps local;
  if (copies) {
    LH_TRY(local, local_steps(group, copies->folder()));
  }
  loaded.passed_over = local.unreadable;
  LH_TRY(const std::vector<std::string> names, checkpoints.list_together(group));
  int damaged_checkpoints = 0;
  for (const RestartSource& source : restart_order(local.steps, names)) {
    if (!source.copies) {
      const std::string path = join_path(checkpoints.folder(), source.checkpoint);
      Status status =
          retried(checkpoints.retry(), [&] { return checkpoints.load_together(group, path, state, threads); });
      if (status.ok() || status.error().code == ErrorCode::corrupt)
        loaded.judged_step = std::max(loaded.judged_step, source.step);
      if (status.ok() && !line.holds(state.progress.step, state.extra))
        status = make_error(ErrorCode::corrupt, path + " was abandoned by a roll-back");
      if (status.ok()) {
        loaded.from = "checkpoint", loaded.path = path;
        return loaded;
      }
      if (ends_a_search(status.error())) return status.error();
      loaded.passed_over.push_back(status.error().message());
      ++damaged_checkpoints;
      continue;
    }
    if (!source.copies->missing.empty()) {
      loaded.passed_over.push_back(format("copies of step {}: no node has {}", source.step, source.copies->missing));
      continue;
    }
    LH_TRY(LocalLoad from_nodes,
           load_local_step(group, copies->folder(), copies->key(), *source.copies, state, threads, line));
    for (std::string& why : from_nodes.passed_over) loaded.passed_over.push_back(std::move(why));
    if (from_nodes.refused.empty()) {
      loaded.judged_step = std::max(loaded.judged_step, source.step);
      loaded.from = "copies", loaded.path = format("copies of step {} in {}", source.step, copies->folder());
      loaded.own_copies = from_nodes.own_copies, loaded.partner_copies = from_nodes.partner_copies;
      return loaded;
    }
    loaded.passed_over.push_back(std::move(from_nodes.refused));
  }
  if (damaged_checkpoints == 0) return loaded;
  return make_error(
      ErrorCode::corrupt,
      format("no good checkpoint is left in {}: {}", checkpoints.folder(), join(loaded.passed_over, "; ")),
      "remove the folder to start from the beginning");
}

Status may_begin_at(std::int64_t step, std::int64_t at_least_step, const LoadedState& loaded, const TimeLine& line) {
  const std::int64_t least = line.least_step(at_least_step);
  if (step >= least || loaded.judged_step >= least) return {};
  return make_error(
      ErrorCode::unavailable,
      format("the training would begin at step {}, and a checkpoint of step {} is known to have been saved", step,
             least),
      "the file system does not show it now; nothing was changed, and the next launch looks again");
}

}  // namespace longhaul
