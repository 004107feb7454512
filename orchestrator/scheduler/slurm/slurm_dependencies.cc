// A job that is to start after another one, where Slurm knows the other one no more, or says nothing of it.
#include <algorithm>

#include "base/text/text.h"
#include "orchestrator/scheduler/slurm/slurm_job_text.h"
#include "orchestrator/scheduler/slurm/slurm_submitter.h"

namespace longhaul {

// Since 23.11 a dependency on a forgotten job is refused. If the predecessor has really ended there is nothing to wait
// for.
Result<std::string> SlurmSubmitter::submit_without_dependency(const JobSpec& spec, const Error& refusal) {
  const auto jobs = access_.port.job(spec.after);
  const bool forgotten = !jobs.ok() && jobs.error().code == ErrorCode::not_found;
  const bool ended = jobs.ok() && std::none_of(jobs->begin(), jobs->end(), is_live);
  if (!forgotten && !ended) return refusal;
  access_.log.info(
      format("event=dependency_left_out key={} predecessor={} reason='it has ended'", spec.key, spec.after));
  return access_.port.submit({submission_of(spec, false, access_.options.comments)}).front();
}

// 22.05 accepts a dependency on a job that it has forgotten, drops it, and starts the dependent.
void SlurmSubmitter::check_dependencies(const std::vector<JobSpec>& specs, const std::vector<std::string>& ids) {
  const auto jobs = access_.port.jobs();
  if (!jobs.ok()) {
    access_.log.warn(format("event=dependencies_not_checked jobs={} error='{}'", ids.size(), jobs.error().message()));
    return;
  }
  for (std::size_t i = 0; i < specs.size(); ++i) mend_dependency(specs[i], ids[i], *jobs);
}

void SlurmSubmitter::mend_dependency(const JobSpec& spec, const std::string& id, const std::vector<SlurmJob>& jobs) {
  const SlurmJob* dependent = nullptr;
  bool predecessor_lives = false;
  const std::string predecessor = spec.after.substr(0, spec.after.find('_'));
  for (const SlurmJob& job : jobs) {
    if (submission_id(job) == id) dependent = &job;
    if ((submission_id(job) == predecessor || job.id == spec.after) && is_live(job)) predecessor_lives = true;
  }
  if (!dependent || !dependent->dependency.empty() || !predecessor_lives) return;
  const Status mended = is_pending(*dependent) ? access_.port.update(id, {{"dependency", "afterany:" + spec.after}})
                                               : Status(make_error(ErrorCode::conflict, "it has started"));
  if (mended.ok()) {
    access_.log.warn(format("event=dependency_restored key={} job={} predecessor={}", spec.key, id, spec.after));
    return;
  }
  // Better none than two at once: it comes back as cancelled, and the controller decides.
  const Status cancelled = access_.port.cancel(id);
  access_.log.error(format("event=dependency_lost key={} job={} predecessor={} error='{}' cancelled={}", spec.key, id,
                           spec.after, mended.error().message(), cancelled.ok()));
}

}  // namespace longhaul
