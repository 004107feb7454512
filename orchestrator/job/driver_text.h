// What the drivers of a run ask Slurm for, as text: the script of the small job that renews itself, the lines of a
// scrontab and the script that they start. Pure.
#pragma once

#include <functional>
#include <string>

#include "base/error/result.h"
#include "orchestrator/site/site_config.h"

namespace longhaul {

// Of one run and one driver.
struct DriverContext {
  std::string run;          // name
  std::string run_dir;      // absolute
  std::string programs;     // folder of `longhaul`
  std::string tick_script;  // path of the script that the scrontab starts
};

// The class of jobs that drives runs at this site: the one whose `kinds` name "driver", else the one that stages take
// by default; nullptr: the site has no classes.
const JobClass* driver_class(const Site& site);

// Whether the site has a class that says so: it may have whole nodes, or GPUs.
bool has_class_for_drivers(const Site& site);

// Why neither a small job nor a scrontab line should drive a run there, though Slurm might take them: they would wait
// for GPU nodes and pay for them. "": nothing speaks against it, or the site says by `kinds` that it is meant so.
std::string driver_class_problem(const Site& site);

// A job of one core for an hour, or as long as its class lets it, which ticks the run: of a driver "job" (`name`
// "driver"), or one that follows a lead. `tick_arguments`: of the tick, by how long the job may be, in seconds.
Result<std::string> driver_job_script(const Site& site, const DriverContext& context, const std::string& name,
                                      const std::function<std::string(double)>& tick_arguments);
// driver.sbatch: ticks all the time.
Result<std::string> driver_job_script(const Site& site, const DriverContext& context);

// The name of such a job: by it one is found whatever the site does with comments.
std::string driver_job_name(const std::string& run);

// The run's lines between its marks: `#SCRON` with the route, then the schedule and the script.
Result<std::string> scrontab_lines(const Site& site, const DriverContext& context);

// The script that they start. `path`, `slurm_conf`: of the shell that submits, so that Slurm's programs are found as
// there; "": as in a login without modules. A crontab line would be too short for them, and lends `%` a meaning.
std::string tick_script(const Site& site, const DriverContext& context, const std::string& path,
                        const std::string& slurm_conf);

// A scrontab with and without the lines of one run, between marks that name it.
std::string with_scrontab_lines(const std::string& table, const std::string& run, const std::string& lines);
std::string without_scrontab_lines(const std::string& table, const std::string& run);

// What stands in a table for a run. disabled: scancel or a maintenance has commented lines out ("#DISABLED: ", as
// scrontab -l shows it). absent: also where nothing between the marks starts `command` any more.
enum class ScrontabState { absent, active, disabled };
ScrontabState scrontab_state(const std::string& table, const std::string& run, const std::string& command);

}  // namespace longhaul
