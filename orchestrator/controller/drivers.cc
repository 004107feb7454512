#include "orchestrator/controller/drivers.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "base/process.h"
#include "base/text.h"
#include "orchestrator/controller/decide.h"
#include "orchestrator/controller/job_plan.h"
#include "orchestrator/controller/sbatch_text.h"
#include "orchestrator/scheduler/open_slurm_port.h"
#include "orchestrator/state/run_access.h"

namespace longhaul {
namespace {

constexpr std::int64_t scrontab_deadline_ms = 30'000;
constexpr double driver_job_s = 3600;       // of one driver job; the next one is queued behind it
constexpr double driver_job_margin_s = 90;  // for its end
constexpr double scrontab_margin_s = 10;    // between the end of one tick and the next

std::string scrontab_program(const Site& site) {
  const auto found = site.config.programs.find("scrontab");
  return found == site.config.programs.end() ? "scrontab" : found->second;
}

Result<std::string> read_scrontab(const Site& site) {
  SpawnSpec spec;
  spec.argv = {scrontab_program(site), "-l"};
  LH_TRY(const RunOutput output, run_captured(std::move(spec), scrontab_deadline_ms));
  if (output.status.success()) return output.out;
  if (output.err.find("no crontab") != std::string::npos || output.out.find("no crontab") != std::string::npos ||
      output.err.find("no table") != std::string::npos || trim(output.err).empty())
    return std::string();
  return make_error(ErrorCode::unavailable, "scrontab -l: " + trim(output.err));
}

Status write_scrontab(const std::string& run_dir, const Site& site, const std::string& table) {
  const std::string path = join_path(run_dir, format("driver/scrontab.{}", ::getpid()));
  LH_CHECK(make_directories(parent_path(path)));
  LH_CHECK(write_file_renamed(path, table));
  SpawnSpec spec;
  spec.argv = {scrontab_program(site), path};
  const auto output = run_captured(std::move(spec), scrontab_deadline_ms);
  (void)remove_tree(path).ok();
  if (!output.ok()) return output.error();
  if (output->status.success()) return {};
  return make_error(ErrorCode::unavailable, "scrontab: " + trim(output->err), "choose another --driver");
}

// What the driver's own jobs ask for: one core for an hour, where the site has shared nodes.
PlannedStage driver_stage() {
  PlannedStage stage;
  stage.stage = "driver";
  stage.kind = "command";
  stage.common.time_limit.value = driver_job_s;
  stage.common.threads = 1;
  stage.common.job.gpus_per_node = 0;
  stage.common.job.exclusive = "no";
  stage.common.job.requeue = "yes";
  return stage;
}

Result<std::vector<Directive>> driver_directives(const Site& site, double& wall_s) {
  Diagnostics diagnostics;
  const JobPlan plan = plan_job(site, driver_stage(), diagnostics);
  LH_CHECK(diagnostics.to_status("no job can drive the run at this site"));
  wall_s = plan.wall_s > 0 ? plan.wall_s : driver_job_s;
  std::vector<Directive> directives = plan.directives;
  std::erase_if(directives, [](const Directive& d) { return d.option == "signal" || d.option == "open-mode"; });
  return directives;
}

std::string driver_key(const FrozenRun& frozen) {
  return driver_job_key(frozen);
}

std::string driver_script(const std::string& run_dir) {
  return join_path(run_dir, "driver/driver.sbatch");
}

// Also where the site changes comments.
bool is_driver_job(const SlurmJob& job, const std::string& run_dir, const FrozenRun& frozen) {
  return !job.other_user && (job.comment == driver_key(frozen) || job.command == driver_script(run_dir));
}

std::string begin_mark(const std::string& run) {
  return "# longhaul run " + run + ": begin\n";
}
std::string end_mark(const std::string& run) {
  return "# longhaul run " + run + ": end\n";
}

// "*/5 * * * * longhaul tick RUN --until-quiet", or "--for 280s" where each tick stays to watch.
// Slurm's programs are found as they are here: the environment of its jobs is that of a login without modules.
std::string scrontab_line(const SiteConfig& site, const std::string& program, const std::string& run_dir,
                          const Environment& environment) {
  const int minutes = std::max(1, static_cast<int>(std::lround(site.driver_interval.value / 60)));
  const double stay_s = std::min(site.driver_stay.value, minutes * 60 - scrontab_margin_s);
  std::string variables;
  for (const char* name : {"PATH", "SLURM_CONF"})
    if (const auto value = environment ? environment(name) : std::nullopt; value && is_one_line(*value))
      variables += format("{}={} ", name, shell_quote(*value));
  const std::string every = minutes == 1 ? "*" : format("*/{}", minutes);  // scrontab refuses a step of 1
  return format("{} * * * * {}{} tick {} {}", every, variables, shell_quote(program), shell_quote(run_dir),
                stay_s > 0 ? format("--for {:.0f}s", stay_s) : std::string("--until-quiet"));
}

Status start_scrontab(const std::string& run_dir, const FrozenRun& frozen, const Site& site,
                      const TickOptions& options) {
  if (!is_one_line(run_dir))
    return make_error(ErrorCode::invalid_input, "'" + one_line(run_dir) + "' cannot stand in a scrontab",
                      "choose a folder without line ends in its name");
  double wall_s = 0;
  LH_TRY(const auto directives, driver_directives(site, wall_s));
  std::string lines;
  // One core is what a job gets that does not ask for more.
  for (const Directive& directive : directives) {
    const char* const routing[] = {"partition", "qos", "account", "reservation", "constraint", "time"};
    if (std::find(std::begin(routing), std::end(routing), directive.option) == std::end(routing)) continue;
    LH_TRY(const std::string word, sbatch_word(directive.value));
    lines += "#SCRON --" + directive.option + (directive.value.empty() ? "" : "=" + word) + "\n";
  }
  lines += "#SCRON --job-name=" + sbatch_job_name("lh-tick-" + frozen.name) + "\n";
  lines +=
      "#SCRON --open-mode=append\n#SCRON --output=" + sbatch_file_pattern(join_path(run_dir, "driver/tick.log")) + "\n";
  const std::string program = join_path(driving_programs(run_dir, options.programs_dir), "longhaul");
  lines += scrontab_line(site.config, program, run_dir, options.environment) + "\n";
  LH_CHECK(make_directories(join_path(run_dir, "driver")));
  LH_TRY(const std::string table, read_scrontab(site));
  if (without_scrontab_lines(table, frozen.name) != table) return {};  // written again it would end its own tick
  return write_scrontab(run_dir, site, with_scrontab_lines(table, frozen.name, lines));
}

// At most one driver job waits: behind this process's own job, if that is one, so that there is always a next one.
Status start_driver_job(const std::string& run_dir, const FrozenRun& frozen, const Site& site,
                        const std::string& own_job, const TickOptions& options, Logger& log) {
  const std::string programs = driving_programs(run_dir, options.programs_dir);
  LH_TRY(OpenedSlurmPort opened, open_slurm_port(site.config.slurm_backend, programs, site.config.programs,
                                                 submission_deadline_ms, site.config.cluster));
  LH_TRY(const auto jobs, opened.port->jobs());
  for (const SlurmJob& job : jobs)
    if (is_driver_job(job, run_dir, frozen) && job.id != own_job && (job.state == "PENDING" || job.state == "RUNNING"))
      return {};
  const auto words = [](double wall_s) {
    return format("--for {:.0f}s", std::max(30.0, wall_s - driver_job_margin_s));
  };
  LH_TRY(const std::string text, driver_job_text(run_dir, frozen, site, "driver", words, options));
  SlurmSubmission submission;
  submission.script = driver_script(run_dir);
  if (site.config.identity != "name") submission.options.emplace_back("comment", driver_key(frozen));
  if (!own_job.empty()) submission.options.emplace_back("dependency", "afterany:" + own_job);
  LH_CHECK(make_directories(join_path(run_dir, "driver")));
  LH_CHECK(write_file_renamed(submission.script, text, 0755));
  LH_TRY(const std::string id, opened.port->submit({submission}).front());
  log.info(format("event=driver_job_submitted job={} after={}", id, own_job));
  return {};
}

Status cancel_driver_jobs(const std::string& programs, const std::string& run_dir, const FrozenRun& frozen,
                          const Site& site, const std::string& own_job) {
  LH_TRY(OpenedSlurmPort opened, open_slurm_port(site.config.slurm_backend, programs, site.config.programs,
                                                 submission_deadline_ms, site.config.cluster));
  LH_TRY(const auto jobs, opened.port->jobs());
  for (const SlurmJob& job : jobs)
    if (is_driver_job(job, run_dir, frozen) && job.id != own_job && job.state == "PENDING")
      LH_CHECK(opened.port->cancel(job.id));
  return {};
}

}  // namespace

std::string driver_job_key(const FrozenRun& frozen) {
  return submission_key(frozen.name, "driver", 0);
}

Result<std::string> driver_job_text(const std::string& run_dir, const FrozenRun& frozen, const Site& site,
                                    const std::string& name, const std::function<std::string(double)>& words,
                                    const TickOptions& options) {
  double wall_s = 0;
  LH_TRY(const auto directives, driver_directives(site, wall_s));
  std::string text = "#!/bin/bash\n# Drives the run " + one_line(frozen.name) +
                     " from inside of a small job, behind which the next one is queued until the run has ended.\n";
  text += "#SBATCH --job-name=" + sbatch_job_name("lh-" + name + "-" + frozen.name) + "\n";
  for (const Directive& directive : directives) {
    LH_TRY(const std::string word, sbatch_word(directive.value));
    text += "#SBATCH --" + directive.option + (directive.value.empty() ? "" : "=" + word) + "\n";
  }
  text += "#SBATCH --open-mode=append\n#SBATCH --output=" +
          sbatch_file_pattern(join_path(run_dir, "driver/" + name + ".log")) + "\n";
  const std::string program = join_path(driving_programs(run_dir, options.programs_dir), "longhaul");
  text += format("exec {} tick {} {}\n", shell_quote(program), shell_quote(run_dir), words(wall_s));
  return text;
}

std::string without_scrontab_lines(const std::string& table, const std::string& run) {
  const std::size_t end = table.find(end_mark(run));
  const std::size_t begin = end == std::string::npos ? end : table.rfind(begin_mark(run), end);
  if (begin == std::string::npos) return table;
  return table.substr(0, begin) + table.substr(end + end_mark(run).size());
}

std::string with_scrontab_lines(const std::string& table, const std::string& run, const std::string& lines) {
  std::string others = without_scrontab_lines(table, run);
  if (!others.empty() && !ends_with(others, "\n")) others += "\n";
  return others + begin_mark(run) + lines + end_mark(run);
}

Result<std::string> choose_driver(const std::string& asked, const Site& site) {
  const SiteCapabilities& can = site.config.can;
  std::string driver = asked == "auto" ? site.config.driver : asked;
  if (!site.config.is_slurm()) {
    if (driver == "auto" || driver == "here") return std::string("here");
    return make_error(ErrorCode::unsupported, "a run on this machine is driven here, not by '" + driver + "'",
                      "leave --driver out, or take a site with scheduler = \"slurm\"");
  }
  if (driver == "auto") {
    if (can.submit_from_compute == "yes") return std::string("lead");
    if (can.scrontab == "yes") return std::string("scrontab");
    if (can.shared_nodes == "yes") return std::string("job");
    return std::string("here");
  }
  const auto refuse = [&](const std::string& why, const char* key) {
    return make_error(ErrorCode::unsupported, format("site '{}': {}", site.config.name, why),
                      format("choose another --driver, or correct can.{} in the site file", key));
  };
  if (driver == "lead" && can.submit_from_compute == "no")
    return refuse("jobs cannot submit jobs, so leads cannot drive a run", "submit_from_compute");
  if (driver == "scrontab" && can.scrontab == "no") return refuse("there is no scrontab", "scrontab");
  if (driver == "job" && can.shared_nodes == "no")
    return refuse("a job of one core would cost a whole node all the time", "shared_nodes");
  return driver;
}

void fit_site_to_driver(const std::string& driver, Site& site) {
  const std::string path = "ask.requeue";
  if (driver != "lead" || site.config.can.requeue == "no" || site.origins.contains(path)) return;
  site.config.ask.requeue = true;
  site.set_derived(path, Value(true), "driver lead", "a lead that is lost with its host submits nothing");
}

Status start_driver(const std::string& run_dir, const FrozenRun& frozen, const Site& site, const std::string& own_job,
                    const TickOptions& options, Logger& log) {
  if (frozen.driver == "scrontab") return start_scrontab(run_dir, frozen, site, options);
  if (frozen.driver == "job") return start_driver_job(run_dir, frozen, site, own_job, options, log);
  return {};
}

Status end_driver(const std::string& run_dir, const FrozenRun& frozen, const Site& site, const std::string& own_job,
                  const TickOptions& options, Logger&) {
  if (frozen.driver == "job")
    return cancel_driver_jobs(driving_programs(run_dir, options.programs_dir), run_dir, frozen, site, own_job);
  if (frozen.driver != "scrontab") return {};
  LH_TRY(const std::string table, read_scrontab(site));
  const std::string wanted = without_scrontab_lines(table, frozen.name);
  return wanted == table ? Status{} : write_scrontab(run_dir, site, wanted);
}

}  // namespace longhaul
