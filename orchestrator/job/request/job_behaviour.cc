#include <cmath>

#include "base/text/text.h"
#include "orchestrator/job/request/job_directives.h"
#include "orchestrator/job/request/sbatch_text.h"

namespace longhaul {

bool ask_for_behaviour(const JobSources& from, const JobLength& length, JobDirectives& lines) {
  const SiteConfig& config = from.config();
  const JobOptions& job = from.job();
  if (length.wall_s > 0) {
    Chosen wall = length.decided;
    wall.value = sbatch_time(length.wall_s);
    lines.add("time", wall);
  }
  if (length.stop_before_s >= 1) {
    Chosen signal = job.stop_before.value > 0 ? from.of_user("", "job.stop_before") : from.of_site("", "stop_before");
    if (job.stop_before.value == 0 && length.stop_before_s < config.stop_before.value)
      signal.origin += length.resumable ? ", a quarter of the job at most" : ", 60 s at most where nothing is saved";
    signal.value = format("B:USR1@{:.0f}", std::floor(length.stop_before_s));
    lines.add("signal", signal);
  }
  const bool requeues = job.requeue.empty() ? config.ask.requeue : job.requeue == "yes";
  if (requeues && config.can.requeue == "no")
    from.problem("job.requeue", from.site_text() + " lets no job be requeued", "remove it");
  Chosen requeue = job.requeue.empty() ? from.of_site("", "ask.requeue") : from.of_user("", "job.requeue");
  lines.add(requeues ? "requeue" : "no-requeue", requeue);
  if (const std::string key = outlives_nodes_by(from.stage.common); !key.empty()) {
    if (config.can.no_kill == "no")
      from.problem(key, from.site_text() + " ends every job that loses a node", "remove " + key);
    lines.add("no-kill", from.of_user("", key));
  }
  return requeues;
}

}  // namespace longhaul
