#include "orchestrator/state/run_folder.h"

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"

namespace longhaul {
namespace {
constexpr int run_format = 1;

ForkOrigin fork_from_value(const Value* table) {
  ForkOrigin fork;
  if (!table) return fork;
  fork.run = table->get_string("run");
  fork.stage = table->get_string("stage");
  fork.step = table->get_integer("step");
  if (const Value* sets = table->find("sets"); sets && sets->is_array())
    for (const Value& set : sets->as_array())
      if (set.is_string()) fork.sets.push_back(set.as_string());
  return fork;
}

Value fork_to_value(const ForkOrigin& fork) {
  Value table = Value::make_table();
  table.set("run", fork.run);
  table.set("stage", fork.stage);
  table.set("step", static_cast<long long>(fork.step));
  table.set("sets", ValueArray(fork.sets.begin(), fork.sets.end()));
  return table;
}
}  // namespace

std::string ForkOrigin::text() const {
  return format("a fork: {} goes on from step {} of run {}{}", stage, step, run,
                sets.empty() ? "" : ", with " + join(sets, ", "));
}

std::vector<std::string> FrozenRun::stage_ids() const {
  std::vector<std::string> ids;
  for (const PlannedStage& stage : plan.stages) ids.push_back(stage.id());
  return ids;
}

namespace {

Result<FrozenRun> header_from_value(const Value& value, const std::string& path) {
  if (value.get_string("file") != "longhaul run" || value.get_integer("format") != run_format)
    return make_error(ErrorCode::corrupt, path + " does not describe a run of format " + std::to_string(run_format));
  FrozenRun run;
  if (const Value* header = value.find("run")) {
    run.name = header->get_string("name");
    run.artifact_root = header->get_string("artifact_root");
    run.software = header->get_string("software");
    run.workflow_path = header->get_string("workflow_path");
    run.driver = header->get_string("driver", "here");
    run.created_ms = header->get_integer("created_ms");
    run.fork = fork_from_value(header->find("fork"));
    run.parent = header->get_string("parent");
    run.jobs_alone = header->get_bool("jobs_alone");
  }
  return run;
}

}  // namespace

Result<FrozenRun> read_frozen_header(const std::string& run_dir) {
  const std::string path = join_path(run_dir, "resolved.toml");
  LH_TRY(const std::string text, read_file(path));
  LH_TRY(const Value value, parse_toml(text.substr(0, text.find("\n[plan]")), path));
  return header_from_value(value, path);
}

Result<FrozenRun> read_frozen_run(const std::string& run_dir) {
  const std::string path = join_path(run_dir, "resolved.toml");
  LH_TRY(const std::string text, read_file(path));
  // Without the file's name in every place: with many stages those are most of the tree.
  auto parsed = parse_toml(text, "");
  if (!parsed.ok()) return parsed.error().with_context(path);
  const Value value = std::move(parsed).value();
  LH_TRY(FrozenRun run, header_from_value(value, path));
  const Value* plan = value.find("plan");
  if (!plan) return make_error(ErrorCode::corrupt, path + " has no plan");
  LH_TRY(run.plan, run_plan_from_value(*plan));
  return run;
}

std::string frozen_run_text(const FrozenRun& run) {
  Value value = Value::make_table();
  value.set("file", "longhaul run");
  value.set("format", run_format);
  Value header = Value::make_table();
  header.set("name", run.name);
  header.set("artifact_root", run.artifact_root);
  header.set("software", run.software);
  header.set("workflow_path", run.workflow_path);
  header.set("driver", run.driver);
  header.set("created_ms", static_cast<long long>(run.created_ms));
  if (!run.fork.empty()) header.set("fork", fork_to_value(run.fork));
  if (!run.parent.empty()) header.set("parent", run.parent);
  if (run.jobs_alone) header.set("jobs_alone", true);
  value.set("run", std::move(header));
  value.set("plan", run_plan_to_value(run.plan));
  return to_toml(value);
}

std::string driven_folder(const std::string& run_dir, const FrozenRun& run) {
  return run.parent.empty() ? run_dir : run.parent;
}
std::string doorbell_path(const std::string& run_dir) {
  return join_path(run_dir, "log/doorbell");
}

std::string stage_folder(const std::string& run_dir, const std::string& stage) {
  return join_path(run_dir, "stages/" + stage);
}
std::string attempt_folder(const std::string& run_dir, const std::string& stage, int attempt) {
  return join_path(stage_folder(run_dir, stage), format("attempts/{}", attempt));
}

}  // namespace longhaul
