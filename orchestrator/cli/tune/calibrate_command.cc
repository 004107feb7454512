// tune --calibrate: short runs through the site's scheduler, and the constants that follow from them.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/new_run.h"
#include "orchestrator/cli/session/site_constants.h"
#include "orchestrator/cli/session/status_document.h"
#include "orchestrator/render/plan/calibration_text.h"
#include "orchestrator/render/plan/plan_text.h"
#include "orchestrator/trials/calibration_run.h"

namespace longhaul {
namespace {

// In a run's folder, once its constants are written: such a calibration is over, and the next one measures anew.
constexpr const char* calibration_file_name = "calibration.json";

Status check_calibration_options(const CommandLine& line) {
  if (!line.workflow.empty() || !line.stage.empty())
    return make_error(ErrorCode::invalid_input, "a calibration has its own trainings",
                      "leave out WORKFLOW and --stage; --site says where");
  return {};
}

// GPUs are measured by what computes on them.
Status check_calibrated_device(const CommandLine& line, const SiteConfig& site) {
  if (site.node.gpus == 0 || line.processors) return {};
  return make_error(ErrorCode::unsupported,
                    format("site {} trains on GPUs ({}), and the engine of this version computes on processors only",
                           site.name, site.node.gpu),
                    "its forecasts keep the constants that ship; --processors measures the site's processors, for "
                    "stages with job.gpus_per_node = 0");
}

CalibrationSite asked_calibration(const CommandLine& line, const SiteConfig& site) {
  CalibrationSite asked;
  const int here = site.cpu_slots > 0 ? site.cpu_slots : static_cast<int>(std::thread::hardware_concurrency());
  const int cores = site.is_slurm() && site.node.cores > 0 ? site.node.cores : std::max(1, here);
  asked.threads = line.threads > 0 ? line.threads : 1;
  asked.ranks = line.ranks > 0 ? line.ranks : std::clamp(cores / asked.threads, 1, 2);
  asked.nodes = line.nodes > 0 ? line.nodes : site.is_slurm() ? asked.ranks : 1;
  return asked;
}

// Where the constants go, and that they can be written there, before hours are spent.
Result<std::string> constants_output_path(const CommandLine& line, const Site& site) {
  const std::string path = line.output.empty() ? site_constants_path(site) : absolute_path(line.output);
  if (path.empty())
    return make_error(ErrorCode::invalid_input, "site " + site.config.name + " has no file of its own",
                      "say --output FILE, and name it in a site file as constants = \"FILE\"");
  const std::string folder = parent_path(path);
  const Status made = make_directories(folder);
  if (!made.ok() || ::access(folder.c_str(), W_OK) != 0 || is_directory(path))
    return make_error(ErrorCode::io, "the constants cannot be written to " + path,
                      "say --output FILE, and name it in a site file as constants = \"FILE\"");
  return path;
}

// The workflow and what it reads, beside the runs: the same call writes the same, so that it finds its run again.
Result<LoadedWorkflow> load_calibration(CommandLine line, const Installation& installation, const Site& site,
                                        const CalibrationSite& asked) {
  LH_TRY(CalibrationPlan plan, plan_calibration(asked));
  if (line.steps > 0) plan.steps = line.steps;
  const std::string folder = join_path(join_path(runs_folder(line, site.config), ".calibration"), site.config.name);
  const std::string corpus = join_path(folder, "corpus");
  LH_CHECK(make_directories(corpus));
  LH_CHECK(write_file_atomic(join_path(corpus, "documents.jsonl"), calibration_documents()));
  line.workflow = join_path(folder, "workflow.toml");
  const std::string name = "calibrate-" + site.config.name;
  LH_CHECK(write_file_atomic(line.workflow, calibration_workflow(plan, asked, name, corpus)));
  LH_TRY(LoadedWorkflow loaded, load_workflow(line, installation));
  // What the tune stages are for is not trained itself.
  std::erase_if(loaded.plan.stages, [](const PlannedStage& stage) { return stage.kind == "pretrain"; });
  return loaded;
}

std::string calibration_date_text(std::int64_t wall_ms) {
  return utc_text(wall_ms).substr(0, 10);
}

std::vector<std::string> constants_head_of(const Calibration& calibration, const Site& site,
                                           const CalibrationSite& asked, const std::string& run,
                                           const std::string& date) {
  return {
      format("Constants of the time model for site {}, measured there on {} by longhaul tune --calibrate",
             site.config.name, date),
      format(
          "({} rank{} of {} thread{}, {} node{}; run {}). What is not here has the value of autotune/constants.toml.",
          asked.ranks, asked.ranks == 1 ? "" : "s", asked.threads, asked.threads == 1 ? "" : "s", asked.nodes,
          asked.nodes == 1 ? "" : "s", file_name(run)),
      format("Error of {} trainings: {} before, {} after,", calibration.trainings.size(),
             prediction_error_text(calibration.trainings, &CalibratedRun::before),
             prediction_error_text(calibration.trainings, &CalibratedRun::after)),
      format("and {} by constants that were fitted without the training they predict.",
             prediction_error_text(calibration.trainings, &CalibratedRun::left_out))};
}

// An earlier file is kept beside.
Status write_constants(const std::string& path, const std::string& text) {
  if (file_exists(path)) {
    const std::string kept = path + ".before";
    LH_TRY(const std::string old, read_file(path));
    LH_CHECK(write_file_atomic(kept, old));
    print(stderr, "{} is replaced; what it said lies in {}\n", path, kept);
  }
  return write_file_atomic(path, text);
}

void print_calibration(const Calibration& fitted, const CalibrationEvidence& evidence, const std::string& path,
                       const Site& site) {
  print_text(stdout, "\n" + calibration_text(fitted, evidence.set_aside));
  print(stdout, "\nconstants: {}\n", path);
  if (path != site_constants_path(site))
    print(stdout, "plan and tune use them once the site file says constants = \"{}\"\n", path);
}

Value calibration_document(const std::string& run_dir, const std::string& path, Value calibration) {
  Value document = document_of("longhaul tune", tune_document_format);
  document.set("run", run_dir);
  document.set("constants", path);
  document.set("calibration", std::move(calibration));
  return document;
}

Status fit_and_write(const CommandLine& line, const std::string& run_dir, const Installation& installation,
                     const Site& site, const CalibrationSite& asked, const std::string& path) {
  LH_TRY(const FrozenRun run, read_frozen_run(run_dir));
  const std::string shipped = installation.constants_path();  // a calibration begins anew, not at the one before
  LH_TRY(const std::string text, read_file(shipped));
  LH_TRY(ConstantTable table, ConstantTable::parse(text, shipped));
  LH_TRY(const TimeConstants constants, make_time_constants(table));
  LH_TRY(const CalibrationEvidence evidence, read_calibration(run_dir, run, site.config, constants, asked));
  LH_TRY(const auto parameters, processor_parameters(table));
  const std::string date = calibration_date_text(SystemClock().wall_ms());
  const std::string source = format("measured on {}, {}, by longhaul tune --calibrate", site.config.name, date);
  const auto fitted = calibrate(table, evidence.measured, parameters, source);
  if (!fitted.ok()) {
    for (const std::string& one : evidence.set_aside) print(stderr, "set aside: {}\n", one);
    return fitted.error();
  }
  LH_CHECK(write_constants(
      path, calibrated_constants_text(table, *fitted, constants_head_of(*fitted, site, asked, run_dir, date))));
  const Value value = calibration_value(*fitted, evidence.set_aside);
  LH_CHECK(write_file_atomic(join_path(run_dir, calibration_file_name), to_json_pretty(value)));
  if (line.json)
    print_text(stdout, to_json_pretty(calibration_document(run_dir, path, value)));
  else
    print_calibration(*fitted, evidence, path, site);
  return {};
}

// An interrupted one goes on; one that is over is not the next one's.
std::string calibration_to_go_on(const RunPlan& plan, const std::string& runs_dir) {
  const std::string newest = newest_run_of(plan, runs_dir);
  return newest.empty() || file_exists(join_path(newest, calibration_file_name)) ? std::string() : newest;
}

}  // namespace

ExitCode calibrate_site(const CommandLine& line, const Installation& installation) {
  if (const Status options = check_calibration_options(line); !options.ok()) return fail(line, options.error());
  const auto site = load_site(line.site, installation.site_folders(), site_sets(line.sets));
  if (!site.ok()) return fail(line, site.error());
  if (const Status device = check_calibrated_device(line, site->config); !device.ok())
    return fail(line, device.error());
  const auto path = constants_output_path(line, *site);
  if (!path.ok()) return fail(line, path.error());
  const CalibrationSite asked = asked_calibration(line, site->config);
  const auto loaded = load_calibration(line, installation, *site, asked);
  if (!loaded.ok()) return fail(line, loaded.error());
  if (!loaded->diagnostics.empty()) return refuse_input(line, loaded->diagnostics, "nothing was started");
  if (line.dry_run) {
    Value document = document_of("longhaul tune", tune_document_format);
    document.set("run", Value());
    document.set("plan", run_plan_to_value(loaded->plan));
    print_text(stdout, line.json ? to_json_pretty(document) : plan_text(loaded->plan, false));
    return ExitCode::ok;
  }
  std::string run = calibration_to_go_on(loaded->plan, runs_folder(line, loaded->site.config));
  if (!run.empty()) {
    print(stderr, "going on with {}\n", file_name(run));
    if (const Status plan = load_own_fault_plan(line); !plan.ok()) return fail(line, plan.error());
    if (const Status asked_to = ask_to_go_on(run); !asked_to.ok()) return fail(line, asked_to.error());
  } else {
    ExitCode exit = ExitCode::ok;
    const auto made = create_checked_run(line, installation, loaded, "here", false, exit);
    if (!made) return exit;
    run = made->run_dir;
  }
  const ExitCode exit = drive_to_end(line, {run, {}});
  if (exit != ExitCode::ok && exit != ExitCode::run_failed) return exit;  // left as it is
  const Status written = fit_and_write(line, run, installation, *site, asked, *path);
  return written.ok() ? ExitCode::ok : fail(line, written.error());
}

}  // namespace longhaul
