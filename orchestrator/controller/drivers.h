// Who ticks a run on a cluster when nobody sits before it: the leads of its own jobs, the user's scrontab, or a small
// job that renews itself. Each only calls `longhaul tick`; any number of them at once does no harm.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/process/log.h"
#include "orchestrator/controller/tick.h"
#include "orchestrator/job/driver_text.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/state/run_folder.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

struct ChosenDriver {
  std::string name;  // here | lead | scrontab | job
  std::string why;   // "jobs may submit jobs at site 'x' (can.submit_from_compute)"; "as it was asked for"
};

// The driver that `asked` ("auto", "here", "lead", "scrontab", "job") comes to at this site. `auto`: leads, wherever
// the site does not say that jobs cannot submit; then what does not wait for GPU nodes; then `here`. unsupported: the
// site says that it cannot be (no submission from compute nodes, no scrontab, no shared nodes for a job of one core),
// or that a tick would be paid with GPU nodes.
Result<ChosenDriver> choose_driver(const std::string& asked, const Site& site);

// For a person, before anything is submitted: "driver: here: this command stays in the foreground, because ...".
std::string driver_line(const ChosenDriver& driver);

// Under the driver `lead` nobody is left when a host takes the run's only job with it. Unless the site's files say how
// requeueing is asked for, or that jobs are not requeued there, Slurm starts such a job again.
void fit_site_to_driver(const std::string& driver, Site& site);

// Puts the driver of a run to work; again where it has gone, or where Slurm has disabled its lines in the scrontab:
// doing it twice changes nothing. `inline_job`: the Slurm job that this process runs in, "" outside of one: the next
// driver job then waits for its end. `options`: of the controller; its environment is that of the one who asks for the
// run, and where Slurm's programs are found is kept for the ticks of scrontab.
Status start_driver(const std::string& run_dir, const FrozenRun& frozen, const Site& site,
                    const std::string& inline_job, const TickOptions& options, Logger& log);
// When the run has ended: nothing of it is left behind in scrontab or queue.
Status end_driver(const std::string& run_dir, const FrozenRun& frozen, const Site& site, const std::string& inline_job,
                  const TickOptions& options, Logger& log);

// The script of a job of one core that ticks the run: of a driver "job", or one that follows a lead. `tick_arguments`:
// of the tick, by how long the job may be.
Result<std::string> driver_job_text(const std::string& run_dir, const FrozenRun& frozen, const Site& site,
                                    const std::string& name, const std::function<std::string(double)>& tick_arguments,
                                    const TickOptions& options);
std::string driver_job_key(const FrozenRun& frozen);  // the comment of such jobs

// What the caller's scrontab says of a run that it drives. unavailable: it cannot be read.
Result<ScrontabState> look_at_scrontab(const std::string& run_dir, const FrozenRun& frozen, const Site& site);

}  // namespace longhaul
