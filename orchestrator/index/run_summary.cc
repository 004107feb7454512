#include "orchestrator/index/run_summary.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/events/event.h"
#include "contracts/model/model_shape.h"
#include "orchestrator/state/budget.h"
#include "orchestrator/state/epoch_log.h"

namespace longhaul {
namespace {

constexpr std::uint64_t progress_tail_bytes = 16 << 10;  // some hundred lines: the newest step and loss are among them
// Of a plan or a log: whoever may make a folder here could have everybody else read a disk full.
constexpr std::int64_t strangers_bytes_max = 64 << 20;
constexpr std::size_t kept_cause_bytes = 300;

void put_figure(StageSummary& stage, const std::string& name, double value) {
  for (auto& [known, old] : stage.figures)
    if (known == name) {
      old = value;
      return;
    }
  stage.figures.emplace_back(name, value);
}

// So that queries by figure find them too.
void put_progress_figures(StageSummary& stage) {
  if (stage.step >= 0) put_figure(stage, "step", static_cast<double>(stage.step));
  if (stage.loss) put_figure(stage, "loss", *stage.loss);
}

// Without the embedding where the vocabulary is not known before the data is.
std::string model_of(const PlannedStage& planned, const Value& figures) {
  if (const Value* model = planned.settings.find("model"); planned.kind == "pretrain" && model) {
    const auto written = model_shape_fields().parse(*model, "");
    const auto shape = written.ok() ? resolve_shape(*written) : Result<ModelShape>(written.error());
    if (!shape.ok()) return {};
    const double counted = figures.is_table() ? figures.get_number("parameters") : 0;
    return shape->architecture + " " +
           human_count(counted > 0 ? counted : static_cast<double>(shape->parameter_count()));
  }
  for (const PlannedInput& input : planned.inputs)
    if (input.name == "model" && input.paths.size() == 1) return file_name(input.paths.front());
  return {};
}

// A stage's model is its own, or that of the stage whose model it takes.
void inherit_models(const RunPlan& plan, std::vector<StageSummary>& stages) {
  for (std::size_t i = 0; i < stages.size(); ++i) {  // sources come before what takes them
    if (!stages[i].model.empty()) continue;
    for (const PlannedInput& input : plan.stages[i].inputs) {
      if (input.name != "model" || input.stages.empty()) continue;
      const auto source =
          std::ranges::find(stages, input.stages.front(), [](const StageSummary& stage) { return stage.id; });
      if (source != stages.end()) stages[i].model = source->model;
    }
  }
}

StageSummary summarize_stage(const PlannedStage& planned, const LedgerStage& ledger) {
  StageSummary stage;
  stage.id = ledger.id;
  stage.kind = planned.kind;
  stage.state = to_string(ledger.state);
  stage.model = model_of(planned, ledger.figures);
  stage.cause = ledger.cause.substr(0, kept_cause_bytes);
  stage.artifact = ledger.artifact;
  stage.attempts = static_cast<int>(ledger.attempts.size());
  stage.submitted_ms = ledger.submitted_ms;
  stage.started_ms = ledger.started_ms;
  stage.ended_ms = ledger.ended_ms;
  stage.nodes = planned.common.nodes_with_spares();
  stage.node_ms = spent_node_ms(ledger, planned, 0);
  stage.steps = planned.settings.get_integer("steps");
  if (ledger.figures.is_table())
    for (const ValueMember& figure : ledger.figures.as_table())
      if (figure.value.is_number()) stage.figures.emplace_back(figure.key, figure.value.as_number());
  for (const auto& [name, value] : stage.figures) {
    if (name == "steps") stage.step = static_cast<std::int64_t>(value);
    if (name == "loss" || (name == "heldout_loss" && !stage.loss)) stage.loss = value;
  }
  if (const LedgerAttempt* newest = ledger.newest()) {
    stage.job = newest->job;
    if (!ledger.has_artifact()) {
      stage.step = newest->step;
      stage.events = format("stages/{}/attempts/{}/events.jsonl", ledger.id, newest->number);
    }
  }
  put_progress_figures(stage);
  return stage;
}

}  // namespace

const StageSummary* RunSummary::telling_stage() const {
  const auto first = [&](const auto& is_it) -> const StageSummary* {
    const auto found = std::ranges::find_if(stages, is_it);
    return found == stages.end() ? nullptr : &*found;
  };
  const auto last = [&](const auto& is_it) -> const StageSummary* {
    const auto found = std::find_if(stages.rbegin(), stages.rend(), is_it);
    return found == stages.rend() ? nullptr : &*found;
  };
  for (const char* wanted : {"running", "submitted", "failed"})
    if (const StageSummary* found = first([&](const StageSummary& stage) { return stage.state == wanted; }))
      return found;
  if (!ended())
    for (const char* wanted : {"ready", "waiting"})
      if (const StageSummary* found = first([&](const StageSummary& stage) { return stage.state == wanted; }))
        return found;
  if (const StageSummary* found = last([](const StageSummary& stage) { return stage.step >= 0; })) return found;
  if (const StageSummary* found = last([](const StageSummary& stage) { return stage.attempts > 0; })) return found;
  return stages.empty() ? nullptr : &stages.back();
}

RunSummary summarize(const FrozenRun& frozen, const RunLedger& ledger) {
  RunSummary run;
  run.name = frozen.name;
  run.workflow = frozen.plan.workflow;
  run.state = to_string(ledger.state);
  run.created_ms = frozen.created_ms;
  run.ended_ms = ledger.ended ? ledger.ended_ms : 0;
  run.epoch = ledger.epoch;
  run.driver = frozen.driver;
  run.driver_host = ledger.driver_host;
  run.driver_pid = ledger.driver_pid;
  run.driver_start_ticks = ledger.driver_start_ticks;
  const std::size_t count = std::min(ledger.stages.size(), frozen.plan.stages.size());
  for (std::size_t i = 0; i < count; ++i)  // both in plan order
    run.stages.push_back(summarize_stage(frozen.plan.stages[i], ledger.stages[i]));
  inherit_models(frozen.plan, run.stages);
  return run;
}

void read_stage_progress(const std::string& run_dir, StageSummary& stage) {
  const std::string path = join_path(run_dir, stage.events);
  stage.events_stamp = stamp_of(path);
  const auto bytes = static_cast<std::uint64_t>(stage.events_stamp.bytes);
  std::uint64_t offset = bytes > progress_tail_bytes ? bytes - progress_tail_bytes : 0;
  const auto events = read_events(path, offset);  // a first line cut in half does not parse and is skipped
  if (!events.ok()) return;
  for (const Event& event : *events) {
    if (event.kind == "metric") {
      stage.step = std::max(stage.step, event.fields.get_integer("step", -1));
      if (const Value* loss = event.fields.find("loss"); loss && loss->is_number()) stage.loss = loss->as_number();
    } else if (event.kind == "progress" && event.fields.get_string("unit") == "steps") {
      stage.step = std::max(stage.step, static_cast<std::int64_t>(event.fields.get_number("done")));
      stage.steps = static_cast<std::int64_t>(event.fields.get_number("total"));
    } else if (event.kind == "figure") {
      if (const Value* value = event.fields.find("value"); value && value->is_number())
        put_figure(stage, event.fields.get_string("name"), value->as_number());
    }
  }
  put_progress_figures(stage);
}

std::string epoch_file(std::int64_t epoch) {
  return format("log/{:06}.jsonl", epoch);
}

std::optional<RunSummary> read_run_summary(const std::string& run_dir, std::int64_t now_ms) {
  const FileStamp plan = stamp_of(join_path(run_dir, "resolved.toml"));
  if (!plan.there()) return std::nullopt;
  RunSummary run;
  // The stamps first: what changes while the rest is read is seen the next time.
  RunStamp stamp;
  stamp.log = stamp_of(join_path(run_dir, "log"));
  const auto newest = newest_epoch(run_dir);
  if (newest.ok()) stamp.newest = stamp_of(join_path(run_dir, epoch_file(*newest)));
  if (struct stat info{}; ::lstat(run_dir.c_str(), &info) == 0) run.owner_uid = info.st_uid;
  if (run.owner_uid != static_cast<std::int64_t>(::geteuid()) &&
      std::max(plan.bytes, stamp.newest.bytes) > strangers_bytes_max) {
    run.name = file_name(run_dir);
    run.state = "unreadable";
    run.problem = "another user's, and larger than is read unasked; `longhaul status` reads it";
    return run;
  }
  const auto frozen = read_frozen_run(run_dir);
  if (!frozen.ok() && frozen.error().code == ErrorCode::not_found) return std::nullopt;
  const auto read = frozen.ok() ? read_epochs(run_dir) : Result<EpochRead>(frozen.error());
  if (read.ok()) {
    RunLedger ledger(frozen->stage_ids());
    for (const Fact& fact : read->facts) ledger.apply(fact);
    const std::int64_t owner = run.owner_uid;
    run = summarize(*frozen, ledger);
    run.owner_uid = owner;
    for (StageSummary& stage : run.stages)
      if (!stage.events.empty()) read_stage_progress(run_dir, stage);
  } else {
    run.state = "unreadable";
    run.problem = read.error().message();
  }
  run.name = file_name(run_dir);
  if (run.ended()) stamp.newest = {};
  const bool whole = read.ok() && newest.ok() && read->newest == *newest && !read->torn;
  if (whole && is_settled(stamp.log, now_ms)) run.stamp = stamp;
  return run;
}

}  // namespace longhaul
