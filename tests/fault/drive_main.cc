// A controller to be killed: creates a run of `command` stages and drives it, with a fault plan of its own.
//
//   fault_drive create RUNS_DIR ARTIFACTS STAGES.json   prints the run's folder; STAGES: [{id, script, needs: [..]}]
//   fault_drive drive RUN [--plan PLAN] [--worker-plan PLAN] [--slots N]
//   fault_drive request RUN cancel|resume
//   fault_drive status RUN
//   fault_drive verify RUN                              every artifact deeply; prints what is wrong
//   fault_drive points PREFIX                           the fault points of that prefix, a line each
// Exit codes: 0 succeeded, 1 failed or cancelled, 3 error, 4 another controller took over.
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/process/process.h"
#include "base/value/json.h"
#include "contracts/records/manifest.h"
#include "contracts/settings/stages/command.h"
#include "orchestrator/controller/tick.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/state/run_folder.h"

namespace {

using namespace longhaul;

std::atomic<bool> stop_asked{false};
void ask_stop(int) {
  stop_asked.store(true);
}

Result<RunPlan> read_stages(const std::string& path) {
  LH_TRY(const std::string text, read_file(path));
  LH_TRY(const Value list, parse_json(text, path));
  RunPlan plan;
  plan.workflow = "killtest";
  for (const Value& entry : list.as_array()) {
    PlannedStage stage;
    stage.stage = entry.get_string("id");
    stage.kind = "command";
    stage.common.threads = static_cast<int>(entry.get_integer("threads", 1));
    stage.common.retries = static_cast<int>(entry.get_integer("retries", 1));
    stage.common.on_failure = entry.get_string("on_failure", "stop");
    CommandSettings settings;
    settings.script = entry.get_string("script");
    stage.settings = command_fields().to_value(settings);
    if (const Value* needs = entry.find("needs"))
      for (const Value& need : needs->as_array()) {
        stage.needs.push_back(need.as_string());
        PlannedInput input;
        input.name = need.as_string();
        input.stages = {need.as_string()};
        stage.inputs.push_back(std::move(input));
      }
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

Result<int> create(const std::string& runs, const std::string& artifacts, const std::string& stages) {
  LH_TRY(const RunPlan plan, read_stages(stages));
  SystemClock clock;
  RunOrigin origin;
  origin.workflow_path = stages;
  origin.artifact_root = artifacts;
  origin.programs_dir = parent_path(own_program_path());
  origin.software = "longhaul test";
  LH_TRY(const std::string run, create_run(runs, plan, origin, clock));
  std::puts(run.c_str());
  return 0;
}

Result<int> drive_run(const std::string& run, const std::vector<std::string>& options) {
  TickOptions tick_options;
  for (std::size_t i = 0; i + 1 < options.size(); i += 2) {
    if (options[i] == "--plan") LH_CHECK(load_fault_plan(options[i + 1]));
    if (options[i] == "--worker-plan") tick_options.worker_fault_plan = options[i + 1];
    if (options[i] == "--slots") tick_options.cpu_slots = std::atoi(options[i + 1].c_str());
  }
  SystemClock clock;
  Logger log("controller", "run=" + file_name(run));
  std::signal(SIGTERM, ask_stop);
  std::signal(SIGINT, ask_stop);
  const auto status = drive(run, tick_options, clock, log, stop_asked, nullptr, nullptr);
  if (!status.ok() && status.error().code == ErrorCode::conflict) return 4;
  if (!status.ok()) return status.error();
  std::printf("%s\n", to_string(status->state));
  return status->state == RunState::succeeded ? 0 : 1;
}

Result<int> verify(const std::string& run) {
  LH_TRY(const FrozenRun frozen, read_frozen_run(run));
  LH_TRY(const RunStatus status, read_run_status(run));
  int wrong = 0;
  for (const StageStatus& stage : status.stages) {
    const std::string out = join_path(stage_folder(run, stage.id), "out");
    if (!file_exists(out)) continue;
    const auto manifest = read_manifest(out);
    const Status whole = manifest.ok() ? verify_artifact(out, *manifest, true) : Status(manifest.error());
    if (whole.ok()) continue;
    std::printf("%s: %s\n", stage.id.c_str(), whole.error().message().c_str());
    ++wrong;
  }
  return wrong == 0 ? 0 : 1;
}

Result<int> run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 4 && arguments[0] == "create") return create(arguments[1], arguments[2], arguments[3]);
  if (arguments.size() >= 2 && arguments[0] == "drive")
    return drive_run(arguments[1], {arguments.begin() + 2, arguments.end()});
  if (arguments.size() == 2 && arguments[0] == "verify") return verify(arguments[1]);
  if (arguments.size() == 2 && arguments[0] == "points") {
    for (const std::string& name : fault_point_names(arguments[1])) std::puts(name.c_str());
    return 0;
  }
  SystemClock clock;
  if (arguments.size() == 3 && arguments[0] == "request") {
    LH_CHECK(request(arguments[1], arguments[2], Value::make_table(), clock));
    return 0;
  }
  if (arguments.size() == 2 && arguments[0] == "status") {
    LH_TRY(const RunStatus status, read_run_status(arguments[1]));
    std::fputs(to_json_pretty(run_status_to_value(status)).c_str(), stdout);
    return 0;
  }
  return make_error(ErrorCode::invalid_input, "usage: fault_drive create|drive|request|status|verify|points ...");
}

}  // namespace

int main(int argc, char** argv) {
  const auto code = run({argv + 1, argv + argc});
  if (code.ok()) return *code;
  std::fprintf(stderr, "fault_drive: %s\n", code.error().message().c_str());
  return 3;
}
