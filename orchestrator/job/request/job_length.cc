#include "orchestrator/job/request/job_length.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/settings/job/resumable.h"
#include "orchestrator/job/request/job_wall.h"
#include "orchestrator/job/request/sbatch_text.h"
#include "orchestrator/job/request/stage_wall.h"

namespace longhaul {
namespace {

constexpr double final_signal_s = 60;   // what the lead of a job that cannot go on needs to write its record
constexpr double signal_max_s = 65535;  // of --signal

void check_wall(const JobSources& from, const JobWall& wall, int nodes) {
  if (wall.too_many_nodes)
    from.problem("nodes",
                 format("{} nodes: a job of the class '{}' of {} has at most {} node-minutes", nodes,
                        from.job_class.name, from.site_text(), from.job_class.max_node_minutes),
                 "use fewer nodes, or another job.class");
  if (wall.too_long)
    from.problem("time_limit",
                 from.name("time_limit") + " = " + sbatch_time(from.stage.common.time_limit.value) +
                     ": a job of the class '" + from.job_class.name + "' of " + from.site_text() + " ends after " +
                     sbatch_time(wall.longest_s) + ", and a " + from.stage.kind + " stage cannot go on in another job",
                 from.stage.kind == "command"
                     ? "use less, another job.class, or job.resumable = \"yes\" if the program goes on "
                       "from its own saved state"
                     : "use less, or another job.class");
}

void plan_warning(const JobSources& from, JobLength& length) {
  const double asked_s = from.job().stop_before.value;
  length.stop_before_s = warning_s(length.wall_s, length.resumable, asked_s, from.config().stop_before.value);
  if (asked_s > 0 && (asked_s >= length.wall_s || asked_s > signal_max_s))
    from.problem(
        "job.stop_before",
        from.name("job.stop_before") + " = " + sbatch_time(asked_s) + " of a job of " + sbatch_time(length.wall_s),
        "use less than the job's time, and at most 18 hours");
}

}  // namespace

double warning_s(double wall_s, bool resumable, double asked_s, double of_site_s) {
  if (wall_s <= 0) return 0;
  if (asked_s > 0) return asked_s;
  const double most_s = std::min(of_site_s, wall_s / 4);
  return resumable ? most_s : std::min(most_s, final_signal_s);
}

JobLength length_of(const JobSources& from, int nodes) {
  JobLength length;
  const JobOptions& job = from.job();
  length.resumable = is_resumable(from.stage.kind, job);
  if (job.resumable == "yes" && !length.resumable) {
    from.problem("job.resumable",
                 from.name("job.resumable") + ": a " + from.stage.kind + " stage keeps no state between jobs",
                 "remove it");
  }
  const double asked_s = from.stage.common.time_limit.value;
  length.wall_s = asked_s;
  if (!from.config().is_slurm()) return length;
  const JobWall wall = choose_wall(from.config(), from.job_class, nodes, asked_s, length.resumable);
  length.wall_s = wall.wall_s;
  length.chain = wall.chain;
  length.decided = wall.decided_by.empty() ? from.of_user("", "time_limit") : from.of_site("", wall.decided_by);
  const double forecast_s = from.stage.forecast_s, by_forecast_s = wall_by_forecast(forecast_s);
  if (asked_s == 0 && forecast_s > 0 && !length.resumable && by_forecast_s < wall.wall_s) {
    length.longer_wall_s = wall.wall_s, length.wall_s = by_forecast_s;
    length.decided.origin = format("a forecast of {}, times {:g}, at least {}", human_duration(forecast_s),
                                   forecast_wall_factor, human_duration(forecast_wall_min_s));
  }
  check_wall(from, wall, nodes);
  if (length.wall_s > 0) plan_warning(from, length);
  return length;
}

}  // namespace longhaul
