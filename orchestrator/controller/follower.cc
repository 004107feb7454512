#include "orchestrator/controller/follower.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/controller/drivers.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/job/request/sbatch_text.h"
#include "orchestrator/scheduler/port/open_slurm_port.h"
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"
#include "orchestrator/state/access/run_access.h"
#include "orchestrator/state/access/submit_environment.h"
#include "orchestrator/state/run_status.h"

namespace longhaul {
namespace {

constexpr std::size_t behind_max = 20;
constexpr double follower_margin_s = 120;  // before the end of its job: to queue the next one

// Jobs of other runs that this one waits for are theirs to follow.
std::vector<LiveJob> live_jobs(const RunStatus& status, const FrozenRun& frozen, const Site& site) {
  std::vector<LiveJob> live;
  for (std::size_t i = 0; i < status.stages.size(); ++i) {  // in plan order
    const StageStatus& stage = status.stages[i];
    const bool open = stage.state == StageState::submitted || stage.state == StageState::running;
    if (!open || stage.job.empty() || stage.job.find_first_not_of("0123456789_") != std::string::npos) continue;
    Diagnostics ignored;
    const JobPlan plan = plan_job(site, frozen.plan.stages[i], ignored);
    live.push_back({stage.job, (plan.nodes + plan.spares) * std::max(1, plan.gpus_per_node)});
  }
  return live;
}

Result<std::string> submit_follower(SlurmPort& port, const std::string& run_dir, const FrozenRun& frozen,
                                    const Site& site, const std::vector<std::string>& behind,
                                    const TickOptions& options) {
  const auto tick_arguments = [&](double wall_s) {
    return format("--until-quiet --patience {:.0f}s", std::max(30.0, wall_s - follower_margin_s));
  };
  LH_TRY(const std::string text, driver_job_text(run_dir, frozen, site, "follower", tick_arguments, options));
  SlurmSubmission submission;
  submission.script = join_path(run_dir, "driver/follower.sbatch");
  if (site.config.identity != "name") submission.options.emplace_back("comment", driver_job_key(frozen));
  if (!behind.empty()) submission.options.emplace_back("dependency", follower_dependency(behind));
  LH_CHECK(make_directories(join_path(run_dir, "driver")));
  LH_CHECK(write_file_renamed(submission.script, text, 0755));
  return port.submit({submission}).front();
}

}  // namespace

FollowerPlan plan_follower(const Follower& now, const std::vector<LiveJob>& live, const std::string& inline_job,
                           bool open) {
  FollowerPlan plan;
  if (open && !inline_job.empty()) plan.behind.push_back(inline_job);
  for (const LiveJob& job : live)
    if (is_costly_to_hold(job.gpus) && job.id != inline_job && plan.behind.size() < behind_max)
      plan.behind.push_back(job.id);
    else if (is_costly_to_hold(job.gpus) && job.id == inline_job && !open)
      plan.behind.push_back(job.id);
  std::sort(plan.behind.begin(), plan.behind.end());
  const bool there = !now.job.empty() && now.job != inline_job;
  const bool wanted = open || !plan.behind.empty();
  using Act = FollowerPlan::Act;
  if (!wanted)
    plan.act = there ? Act::end : Act::keep;
  else if (!there)
    plan.act = Act::submit;
  else
    plan.act = now.behind == plan.behind ? Act::keep : Act::move;
  return plan;
}

std::string follower_dependency(const std::vector<std::string>& behind) {
  std::vector<std::string> parts;
  parts.reserve(behind.size());
  for (const std::string& id : behind) parts.push_back("afterany:" + id);
  return join(parts, "?");
}

Status tend_follower(const std::string& run_dir, const FrozenRun& frozen, const Site& site,
                     const std::string& inline_job, bool open, const TickOptions& options, Logger& log) {
  if (frozen.driver != "lead" || site.config.can.shared_nodes != "yes") return {};
  const Follower now = read_follower(run_dir);
  LH_TRY(const RunStatus status, read_run_status(run_dir));
  const bool running = status.state == RunState::running;
  const FollowerPlan plan = running ? plan_follower(now, live_jobs(status, frozen, site), inline_job, open)
                                    : plan_follower(now, {}, inline_job, false);
  using Act = FollowerPlan::Act;
  const bool itself = !inline_job.empty() && now.job == inline_job;
  if (plan.act == Act::keep && (itself || now.job.empty())) return write_follower(run_dir, {});
  LH_TRY(OpenedSlurmPort opened,
         open_slurm_port(site.config.slurm_backend, driving_programs(run_dir, options.programs_dir),
                         site.config.programs, submission_deadline_ms, site.config.cluster,
                         read_submit_environment(driven_folder(run_dir, frozen))));
  if (plan.act == Act::keep) {
    const auto jobs = opened.port->job(now.job);
    if (!jobs.ok() && jobs.error().code != ErrorCode::not_found) return jobs.error();
    if (jobs.ok() && std::ranges::any_of(*jobs, is_live)) return {};
    // Somebody has cancelled it: another one takes its place.
  }
  if (plan.act == Act::end) {
    const Status ended = opened.port->cancel(now.job);
    if (!ended.ok() && ended.error().code == ErrorCode::unavailable) return ended;
    return write_follower(run_dir, {});
  }
  if (plan.act == Act::move) {
    const Status moved = opened.port->update(now.job, {{"dependency", follower_dependency(plan.behind)}});
    if (moved.ok()) return write_follower(run_dir, {now.job, plan.behind});
    if (moved.error().code == ErrorCode::unavailable) return moved;
    // It runs already, or is gone: another one takes its place.
  }
  const auto id = submit_follower(*opened.port, run_dir, frozen, site, plan.behind, options);
  if (!id.ok() && itself) {  // what takes no further job takes back one that it has
    log.info("event=follower_queued_again job=" + inline_job + " why='" + id.error().message() + "'");
    return opened.port->requeue(inline_job, false);
  }
  if (!id.ok()) return id.error();
  log.info(format("event=follower_submitted job={} behind={}", *id, join(plan.behind, ",")));
  return write_follower(run_dir, {*id, plan.behind});
}

}  // namespace longhaul
