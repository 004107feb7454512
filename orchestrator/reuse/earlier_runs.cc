#include "orchestrator/reuse/earlier_runs.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/reuse/prepare.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {
namespace {

constexpr std::size_t earlier_runs_max = 6;         // that are read
constexpr std::uint64_t plan_bytes_max = 16 << 20;  // of a run that is read: no sentence is worth more
constexpr std::size_t name_stamp_length = 20;       // "20260302-041109-1a2b"

std::optional<EarlierStage> earlier_stage(const std::string& path, const FrozenRun& frozen, const RunLedger& ledger,
                                          const std::string& id) {
  const LedgerStage* stage = ledger.find(id);
  if (!stage || stage->key.empty()) return std::nullopt;
  const PlannedStage& planned = frozen.plan.stages[static_cast<std::size_t>(stage - ledger.stages.data())];
  const auto complete = stage->layout.is_null() ? Result<PlannedStage>(planned) : with_found(planned, stage->layout);
  if (!complete.ok()) return std::nullopt;
  EarlierStage earlier;
  earlier.run = file_name(path);
  earlier.seen.task = make_task(*complete, frozen.name, *stage, 1);
  earlier.seen.files = read_input_files(stage_folder(path, id));
  earlier.state = stage->state;
  earlier.cause = stage->cause;
  earlier.artifact = stage->artifact;
  return earlier;
}

}  // namespace

EarlierRuns::EarlierRuns(std::string runs_dir, std::string workflow, std::string before)
    : runs_dir_(std::move(runs_dir)), workflow_(std::move(workflow)), before_(std::move(before)) {}

void EarlierRuns::list() {
  paths_.emplace();
  const auto names = list_directory(runs_dir_);
  if (!names.ok()) return;
  const std::string begin = workflow_ + "-";
  std::vector<std::string> of_workflow;
  // Of two that were made in the same second nobody knows which came first.
  const auto second_of = [&](const std::string& name) { return name.substr(0, name.rfind('-')); };
  for (const std::string& name : *names)
    if (starts_with(name, begin) && name.size() == begin.size() + name_stamp_length &&
        (before_.empty() || (name != before_ && second_of(name) <= second_of(before_))))
      of_workflow.push_back(name);
  std::ranges::sort(of_workflow, std::greater<>());  // names of one workflow sort by time
  for (const std::string& name : of_workflow) {
    if (paths_->size() == earlier_runs_max) break;
    const std::string path = join_path(runs_dir_, name);
    const auto bytes = file_size(join_path(path, "resolved.toml"));
    if (is_own(path) && bytes.ok() && *bytes <= plan_bytes_max) paths_->push_back(path);
  }
  read_.resize(paths_->size());
}

const EarlierRuns::Run* EarlierRuns::at(std::size_t number) {
  if (!read_[number]) {
    Run& run = read_[number].emplace();
    run.path = (*paths_)[number];
    auto frozen = read_frozen_run(run.path);
    const auto read = frozen.ok() ? read_epochs(run.path) : Result<EpochRead>(frozen.error());
    if (read.ok()) {
      run.frozen = std::move(frozen).value();
      run.ledger = RunLedger(run.frozen.stage_ids());
      for (const Fact& fact : read->facts) run.ledger.apply(fact);
    }
  }
  return &*read_[number];
}

bool EarlierRuns::any() {
  if (!paths_) list();
  return !paths_->empty();
}

std::optional<EarlierStage> EarlierRuns::find(const std::string& stage) {
  if (!paths_) list();
  std::optional<EarlierStage> newest;
  for (std::size_t i = 0; i < paths_->size(); ++i) {
    const Run* run = at(i);
    auto found = earlier_stage(run->path, run->frozen, run->ledger, stage);
    if (found && !found->artifact.empty()) return found;
    if (!newest) newest = std::move(found);
  }
  return newest;
}

}  // namespace longhaul
