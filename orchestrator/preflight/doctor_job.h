// The job of `longhaul doctor --job`: made like any job of the site, of two nodes for five minutes, with the doctor in
// the lead's place (worker/doctor/job_look.h).
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "contracts/records/doctor.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/scheduler/port/slurm_port.h"
#include "orchestrator/site/site_config.h"

namespace longhaul {

struct DoctorJob {
  std::string folder, script;
  std::string comment;  // of the submission
  JobPlan plan;
  DoctorOrder order;
};
// Which job that is. `job_class`: of the site; "": its class `debug` where the nodes fit there, else the default.
// invalid_input: the site takes no such job.
Result<DoctorJob> doctor_job(const Site& site, const std::string& job_class, const std::string& folder, int nodes);
// Its folder with script and order. `worker`: path of longhaul-worker.
Status write_doctor_job(const DoctorJob& job, const std::string& worker);

// What the wait reports, a line each: "job 7 waits: Priority", a fact.
using DoctorProgress = std::function<void(const std::string&)>;
struct DoctorLimits {
  double queue_s = 1800;  // until it starts
  double look_s = 420;    // from then on
  std::int64_t poll_ms = 2'000;
};
// Submits, waits, cancels, and adds what is seen from outside. Whatever happens, no job is left. unavailable, timeout,
// aborted (`stop`), invalid_input: Slurm refuses it, in its own message.
Result<std::vector<DoctorFact>> run_doctor_job(const DoctorJob& job, SlurmPort& port, const DoctorLimits& limits,
                                               const std::atomic<bool>& stop, Clock& clock,
                                               const DoctorProgress& report);

// What of the site file the job has shown to be right by having run: its routing, how it asked for GPUs and for an
// allocation that outlives a node. Each with its key. Pure; `found`: what the job has reported.
std::vector<DoctorFact> facts_of_request(const DoctorJob& job, const Site& site, const std::vector<DoctorFact>& found);

}  // namespace longhaul
