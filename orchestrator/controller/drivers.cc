#include "orchestrator/controller/drivers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "orchestrator/decide/decide.h"
#include "orchestrator/job/request/sbatch_text.h"
#include "orchestrator/scheduler/port/open_slurm_port.h"
#include "orchestrator/state/access/run_access.h"
#include "orchestrator/state/access/submit_environment.h"

namespace longhaul {
namespace {

constexpr std::int64_t scrontab_deadline_ms = 30'000;

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

// Where another's run is driven, the programs of the installation do it, and so a script of its own.
DriverContext driver_context(const std::string& run_dir, const FrozenRun& frozen, const std::string& installed) {
  const std::string script = installed.empty() ? "driver/tick.sh" : format("driver/tick-{}.sh", ::geteuid());
  return {frozen.name, run_dir, driving_programs(run_dir, installed), join_path(run_dir, script)};
}

// One that this user has written, and that does the same: its PATH is that of the shell it was written from, which a
// tick of scrontab does not have.
bool is_written(const std::string& path, const std::string& text) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  if (info.st_uid != ::geteuid() || (info.st_mode & S_IWOTH) != 0) return false;
  const auto written = read_file(path);
  return written.ok() && ends_with(*written, text.substr(text.rfind("\nexec ")));
}

Status start_scrontab(const std::string& run_dir, const FrozenRun& frozen, const Site& site, const TickOptions& options,
                      Logger& log) {
  const DriverContext context = driver_context(run_dir, frozen, options.programs_dir);
  LH_TRY(const std::string lines, scrontab_lines(site, context));
  const auto variable = [&](const char* name) {
    const auto value = options.environment ? options.environment(name) : std::nullopt;
    return value && is_one_line(*value) ? *value : std::string();
  };
  const std::string script = tick_script(site, context, variable("PATH"), variable("SLURM_CONF"));
  LH_CHECK(make_directories(parent_path(context.tick_script)));
  if (!is_written(context.tick_script, script)) LH_CHECK(write_file_renamed(context.tick_script, script, 0755));
  LH_TRY(const std::string table, read_scrontab(site));
  const ScrontabState state = scrontab_state(table, frozen.name, shell_quoted(context.tick_script));
  if (state == ScrontabState::active) return {};  // written again it would end its own tick
  if (state == ScrontabState::disabled)
    log.warn("event=scrontab_enabled_again why='Slurm had disabled the lines of this run, as after a maintenance'");
  return write_scrontab(run_dir, site, with_scrontab_lines(table, frozen.name, lines));
}

Result<OpenedSlurmPort> open_driver_port(const std::string& run_dir, const FrozenRun& frozen, const Site& site,
                                         const std::string& programs) {
  return open_slurm_port(site.config.slurm_backend, programs, site.config.programs, submission_deadline_ms,
                         site.config.cluster, read_submit_environment(driven_folder(run_dir, frozen)));
}

std::string driver_script(const std::string& run_dir) {
  return join_path(run_dir, "driver/driver.sbatch");
}

// Also where the site changes comments.
bool is_driver_job(const SlurmJob& job, const std::string& run_dir, const FrozenRun& frozen) {
  return !job.other_user && (job.comment == driver_job_key(frozen) || job.command == driver_script(run_dir) ||
                             job.name == driver_job_name(frozen.name));
}

// At most one driver job waits: behind this process's own job, if that is one, so that there is always a next one.
Status start_driver_job(const std::string& run_dir, const FrozenRun& frozen, const Site& site,
                        const std::string& inline_job, const TickOptions& options, Logger& log) {
  const DriverContext context = driver_context(run_dir, frozen, options.programs_dir);
  LH_TRY(OpenedSlurmPort opened, open_driver_port(run_dir, frozen, site, context.programs));
  LH_TRY(const auto jobs, opened.port->jobs());
  for (const SlurmJob& job : jobs)
    if (is_driver_job(job, run_dir, frozen) && job.id != inline_job &&
        (job.state == "PENDING" || job.state == "RUNNING"))
      return {};
  LH_TRY(const std::string text, driver_job_script(site, context));
  SlurmSubmission submission;
  submission.script = driver_script(run_dir);
  if (site.config.identity != "name") submission.options.emplace_back("comment", driver_job_key(frozen));
  if (!inline_job.empty()) submission.options.emplace_back("dependency", "afterany:" + inline_job);
  LH_CHECK(make_directories(join_path(run_dir, "driver")));
  LH_CHECK(write_file_renamed(submission.script, text, 0755));
  LH_TRY(const std::string id, opened.port->submit({submission}).front());
  log.info(format("event=driver_job_submitted job={} after={}", id, inline_job));
  return {};
}

Status cancel_driver_jobs(const std::string& run_dir, const FrozenRun& frozen, const Site& site,
                          const std::string& inline_job, const std::string& programs) {
  LH_TRY(OpenedSlurmPort opened, open_driver_port(run_dir, frozen, site, programs));
  LH_TRY(const auto jobs, opened.port->jobs());
  for (const SlurmJob& job : jobs)
    if (is_driver_job(job, run_dir, frozen) && job.id != inline_job && job.state == "PENDING")
      LH_CHECK(opened.port->cancel(job.id));
  return {};
}

// What an `auto` that comes to the foreground has tried before.
std::string why_here(const Site& site) {
  const SiteCapabilities& can = site.config.can;
  const std::string of_class = driver_class_problem(site);
  std::vector<std::string> reasons = {"jobs cannot submit jobs there (can.submit_from_compute)"};
  if (can.scrontab != "yes")
    reasons.emplace_back(can.scrontab == "no" ? "there is no scrontab"
                                              : "nobody has said that there is a scrontab (can.scrontab)");
  if (can.shared_nodes != "yes")
    reasons.emplace_back(can.shared_nodes == "no"
                             ? "a job of one core would take a whole node"
                             : "nobody has said that a job of one core leaves the node to others (can.shared_nodes)");
  const bool class_decides = can.scrontab == "yes" || can.shared_nodes == "yes";
  if (class_decides && !of_class.empty()) reasons.push_back(of_class + " (classes.NAME.kinds = [\"driver\"])");
  return join(reasons, "; ");
}

ChosenDriver automatic_driver(const Site& site) {
  const SiteCapabilities& can = site.config.can;
  if (can.submit_from_compute == "yes") return {"lead", "jobs may submit jobs there (can.submit_from_compute)"};
  if (can.submit_from_compute.empty())
    return {"lead",
            "each job submits the next ones at its end; nobody has said whether that is allowed there "
            "(can.submit_from_compute)"};
  const bool affordable = driver_class_problem(site).empty();
  if (can.scrontab == "yes" && affordable)
    return {"scrontab", "jobs cannot submit jobs there, and there is a scrontab"};
  if (has_class_for_drivers(site) || (can.shared_nodes == "yes" && affordable))
    return {"job", "jobs cannot submit jobs there, and there is no scrontab"};
  return {"here", why_here(site)};
}

}  // namespace

std::string driver_job_key(const FrozenRun& frozen) {
  return submission_key(frozen.name, "driver", 0);
}

Result<std::string> driver_job_text(const std::string& run_dir, const FrozenRun& frozen, const Site& site,
                                    const std::string& name, const std::function<std::string(double)>& tick_arguments,
                                    const TickOptions& options) {
  return driver_job_script(site, driver_context(run_dir, frozen, options.programs_dir), name, tick_arguments);
}

Result<ChosenDriver> choose_driver(const std::string& asked, const Site& site) {
  const SiteCapabilities& can = site.config.can;
  const std::string driver = asked == "auto" ? site.config.driver : asked;
  if (!site.config.is_slurm()) {
    if (driver == "auto" || driver == "here") return ChosenDriver{"here", "the jobs run on this machine"};
    return make_error(ErrorCode::unsupported, "a run on this machine is driven here, not by '" + driver + "'",
                      "leave --driver out, or take a site with scheduler = \"slurm\"");
  }
  if (driver == "auto") return automatic_driver(site);
  const auto refuse = [&](const std::string& why, const std::string& remedy) {
    return make_error(ErrorCode::unsupported, format("site '{}': {}", site.config.name, why),
                      "choose another --driver, or " + remedy);
  };
  const auto correct = [](const char* key) { return format("correct can.{} in the site file", key); };
  if (driver == "lead" && can.submit_from_compute == "no")
    return refuse("jobs cannot submit jobs, so leads cannot drive a run", correct("submit_from_compute"));
  if (driver == "scrontab" && can.scrontab == "no") return refuse("there is no scrontab", correct("scrontab"));
  if (driver == "job" && can.shared_nodes == "no" && !has_class_for_drivers(site))
    return refuse("a job of one core would cost a whole node all the time", correct("shared_nodes"));
  if (const std::string problem = driver_class_problem(site);
      !problem.empty() && (driver == "scrontab" || driver == "job"))
    return refuse("a tick would wait for GPUs and pay for them: " + problem,
                  "add [classes.driver] with kinds = [\"driver\"] and the route of small jobs to the site file");
  return ChosenDriver{driver, asked == "auto" ? "the site file says so (driver)" : "as it was asked for"};
}

std::string driver_line(const ChosenDriver& driver) {
  if (driver.name == "here")
    return "driver: here: this command stays in the foreground, because: " + driver.why +
           ". It has to outlive your session: start it in tmux or screen\n";
  return "driver: " + driver.name + ": " + driver.why + "\n";
}

void fit_site_to_driver(const std::string& driver, Site& site) {
  const std::string path = "ask.requeue";
  if (driver != "lead" || site.config.can.requeue == "no" || site.origins.contains(path)) return;
  site.config.ask.requeue = true;
  site.set_derived(path, Value(true), "driver lead", "a lead that is lost with its host submits nothing");
}

Status start_driver(const std::string& run_dir, const FrozenRun& frozen, const Site& site,
                    const std::string& inline_job, const TickOptions& options, Logger& log) {
  if (frozen.driver == "scrontab") return start_scrontab(run_dir, frozen, site, options, log);
  if (frozen.driver == "job") return start_driver_job(run_dir, frozen, site, inline_job, options, log);
  return {};
}

Status end_driver(const std::string& run_dir, const FrozenRun& frozen, const Site& site, const std::string& inline_job,
                  const TickOptions& options, Logger&) {
  if (frozen.driver == "job")
    return cancel_driver_jobs(run_dir, frozen, site, inline_job, driving_programs(run_dir, options.programs_dir));
  if (frozen.driver != "scrontab") return {};
  LH_TRY(const std::string table, read_scrontab(site));
  const std::string wanted = without_scrontab_lines(table, frozen.name);
  return wanted == table ? Status{} : write_scrontab(run_dir, site, wanted);
}

Result<ScrontabState> look_at_scrontab(const std::string& run_dir, const FrozenRun& frozen, const Site& site) {
  LH_TRY(const std::string table, read_scrontab(site));
  return scrontab_state(table, frozen.name, shell_quoted(driver_context(run_dir, frozen, {}).tick_script));
}

}  // namespace longhaul
