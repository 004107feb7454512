#include "orchestrator/preflight/timeout_check.h"

#include <cstdlib>
#include <set>
#include <utility>

#include "base/text/text.h"
#include "contracts/records/attempt.h"
#include "orchestrator/site/submission_times.h"
#include "resiliency/stage_timeouts.h"

namespace longhaul {
namespace {

class HierarchyOfJob {
 public:
  HierarchyOfJob(const Site& site, const PlannedStage& stage, const JobPlan& job)
      : site_(site),
        stage_(stage),
        job_(job),
        all_(hierarchy_of(resiliency_for(stage.common.resiliency, stage.kind), stage.kind)) {}

  TimeoutHierarchy run(const SlurmConfiguration* slurm) {
    for (Timeout* own : {&all_.host_silent, &all_.suspect, &all_.act, &all_.startup, &all_.ranks_gone})
      place(*own, own->setting);
    all_.startup_is_default = all_.startup_is_default && all_.startup.where.line == 0;
    if (stage_.common.time_limit.value > 0) all_.wall = of_stage(stage_.common.time_limit.value, "time_limit");
    all_.fabric_silence = of_site(site_.config.network.silence.value, "network.silence");
    if (job_.gpus_per_node > 0) add_transport();
    all_.stop.seconds = stopping_s(Attempt{}.grace_s, job_.launcher, job_.steps);
    if (!site_.config.is_slurm()) return all_;
    if (stage_.common.time_limit.value != job_.wall_s)
      all_.wall = of_stage(job_.wall_s, "time_limit");  // as the class says: another one may be asked for
    add_grace();
    all_.submission = of_site(site_.config.submit_deadline.value, "submit_deadline");
    all_.settle.seconds =
        seconds_of(in_flight_ms_of(static_cast<std::int64_t>(site_.config.submit_deadline.value * 1e3)));
    all_.driver_silent.seconds = seconds_of(driver_silence_ms);
    all_.slurmd_timeout = of_site(site_.config.slurmd_timeout.value, "slurmd_timeout");
    if (slurm) {
      all_.kill_wait.seconds = static_cast<double>(slurm->kill_wait_s);
      if (slurm->slurmd_timeout_s > 0) all_.slurmd_timeout = {static_cast<double>(slurm->slurmd_timeout_s)};
    }
    return all_;
  }

 private:
  void place(Timeout& timeout, const std::string& key) const {
    const SourcePos at = stage_.place_of(key);
    timeout.setting = "stage." + stage_.stage + "." + key;  // the last: `key` may be what stood there
    timeout.where = at == stage_.where ? SourcePos{} : at;
  }
  Timeout of_stage(double seconds, const std::string& key) const {
    Timeout timeout{seconds};
    place(timeout, key);
    return timeout;
  }
  Timeout of_site(double seconds, const std::string& path) const {
    const auto origin = site_.origins.find(path);
    return {seconds, "site." + path, origin == site_.origins.end() ? SourcePos{} : origin->second.where};
  }

  // A share of a short job, or the minute of one that saves nothing, was chosen by nobody.
  void add_grace() {
    if (stage_.common.job.stop_before.value > 0)
      all_.grace = of_stage(job_.stop_before_s, "job.stop_before");
    else if (job_.stop_before_s == site_.config.stop_before.value)
      all_.grace = of_site(job_.stop_before_s, "stop_before");
  }

  // NCCL's verbs transport, where somebody has set it: the defaults differ between its versions.
  void add_transport() {
    const auto chosen = [&](const char* variable) -> std::pair<std::string, Timeout> {
      const std::string key = std::string("environment.") + variable;
      const auto& own = stage_.common.job.environment;
      if (const auto found = own.find(variable); found != own.end()) return {found->second, of_stage(0, "job." + key)};
      const auto& all = site_.config.environment;
      if (const auto found = all.find(variable); found != all.end()) return {found->second, of_site(0, key)};
      return {};
    };
    const auto [timeout, origin] = chosen("NCCL_IB_TIMEOUT");
    const std::string retries = chosen("NCCL_IB_RETRY_CNT").first;
    if (timeout.empty()) return;
    constexpr int usual_retries = 7;  // NCCL_IB_RETRY_CNT of NCCL's documentation
    all_.transport = origin;
    all_.transport.setting = format("what {} gives (4.096 us * 2^{} for each of the tries)", origin.setting, timeout);
    all_.transport.seconds =
        infiniband_timeout_s(std::atoi(timeout.c_str()), retries.empty() ? usual_retries : std::atoi(retries.c_str()));
  }

  const Site& site_;
  const PlannedStage& stage_;
  const JobPlan& job_;
  TimeoutHierarchy all_;
};

}  // namespace

TimeoutHierarchy job_timeouts(const Site& site, const PlannedStage& stage, const JobPlan& job,
                              const SlurmConfiguration* slurm) {
  return HierarchyOfJob(site, stage, job).run(slurm);
}

void check_timeouts(const Site& site, const PlannedStage& stage, const JobPlan& job, Diagnostics& diagnostics,
                    const SlurmConfiguration* slurm) {
  for (TimeoutContradiction& found : judge_timeouts(job_timeouts(site, stage, job, slurm))) {
    if (!found.mendable) continue;
    Error error = std::move(found.error);
    error.what = "stage." + stage.stage + ": " + error.what;
    if (!error.where) error.where = stage.where;
    diagnostics.add(std::move(error));
  }
}

void check_timeouts(const Site& site, const RunPlan& plan, const std::vector<JobPlan>& jobs,
                    const SlurmConfiguration& slurm, Diagnostics& diagnostics) {
  Diagnostics all;
  for (std::size_t i = 0; i < jobs.size(); ++i) check_timeouts(site, plan.stages[i], jobs[i], all, &slurm);
  std::set<std::string> seen;
  for (const Error& error : all.errors())
    if (seen.insert(error.message()).second) diagnostics.add(error);
}

}  // namespace longhaul
