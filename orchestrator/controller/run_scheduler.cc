#include "orchestrator/controller/run_scheduler.h"

#include <algorithm>

#include "base/digest/hash.h"
#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/records/held_allocation.h"
#include "orchestrator/controller/jobs/maintenance.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/scheduler/local_scheduler.h"
#include "orchestrator/scheduler/port/open_slurm_port.h"
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"
#include "orchestrator/state/access/run_access.h"
#include "orchestrator/state/access/submit_environment.h"

namespace longhaul {
namespace {

// Variants of a stage with the same shape may be tasks of one array.
std::string shape_of(const JobPlan& plan) {
  std::string text;
  for (const Directive& directive : plan.directives) text += directive.option + "=" + directive.value + "\n";
  for (const auto* arguments : {&plan.launcher, &plan.container, &plan.prologue}) text += join(*arguments, "\n") + "\n";
  for (const JobStep& step : plan.steps) text += step.name + "\n" + join(step.launcher, "\n") + "\n";
  return xxh3_128_hex(text);
}

StageRules rules_of(const Site& site, const PlannedStage& stage, Diagnostics& diagnostics) {
  const JobPlan job = plan_job(site, stage, diagnostics);
  const JobOptions& asked = stage.common.job;
  const HostNeed hosts{job.nodes + job.spares, job.partition, asked.constraint, asked.exclude};
  const JobClass* const job_class = site.config.find_class(job.job_class);
  return {job.resumable,
          job.chain,
          job.wall_s,
          shape_of(job),
          hosts,
          job.job_class,
          job_class ? job_class->max_submitted : 0};
}

Result<SchedulingRules> rules_of(const Site& site, const RunPlan& plan) {
  SchedulingRules rules;
  Diagnostics diagnostics;
  rules.stages.reserve(plan.stages.size());
  for (const PlannedStage& stage : plan.stages) rules.stages.push_back(rules_of(site, stage, diagnostics));
  LH_CHECK(diagnostics.to_status("the frozen site file does not fit the plan"));
  rules.submitted_max = site.config.max_submitted;
  rules.can_exclude = site.config.can.exclude != "no";
  rules.submit_patience_ms = static_cast<std::int64_t>(site.config.submit_patience.value * 1e3);
  return rules;
}

Result<std::unique_ptr<SlurmScheduler>> make_slurm(const Site& site, const std::string& programs,
                                                   const std::vector<std::string>& environment, bool last_look,
                                                   Clock& clock, Logger& log) {
  const auto deadline_ms = static_cast<std::int64_t>(site.config.submit_deadline.value * 1e3);
  LH_TRY(OpenedSlurmPort opened, open_slurm_port(site.config.slurm_backend, programs, site.config.programs, deadline_ms,
                                                 site.config.cluster, environment));
  log.info(format("event=slurm backend='{}' why='{}'", opened.port->description(), opened.why));
  SlurmSchedulerOptions options;
  options.poll_interval_ms = static_cast<std::int64_t>(site.config.poll_interval.value * 1e3);
  options.settle_ms = std::clamp<std::int64_t>(options.poll_interval_ms, 2'000, 15'000);
  options.in_flight_ms = in_flight_ms_of(deadline_ms);
  options.comments = site.config.identity != "name";
  options.last_look = last_look;
  options.record_grace_ms = std::clamp<std::int64_t>(2 * options.poll_interval_ms, 10'000, 60'000);
  return std::make_unique<SlurmScheduler>(std::move(opened.port), options, clock, log);
}

// Nothing is known where Slurm does not answer: jobs are then asked for at their full length.
std::int64_t ask_maintenance_ms(SlurmPort& port, const std::set<std::string>& own, const Clock& clock) {
  const auto reservations = port.reservations();
  if (!reservations.ok() || reservations->empty()) return 0;
  int nodes_total = 0;
  if (const auto partitions = port.partitions(); partitions.ok())
    for (const SlurmPartition& partition : *partitions) nodes_total = std::max(nodes_total, partition.nodes_total);
  return 1000 * next_maintenance_s(*reservations, nodes_total, clock.wall_ms() / 1000, own);
}

}  // namespace

Result<StageRules> stage_rules(const Site& site, const PlannedStage& stage) {
  Diagnostics diagnostics;
  StageRules rules = rules_of(site, stage, diagnostics);
  LH_CHECK(diagnostics.to_status("its layout does not fit the site"));
  return rules;
}

Result<RunScheduler> make_run_scheduler(const std::string& run_dir, const FrozenRun& frozen, const TickOptions& options,
                                        Clock& clock, Logger& log) {
  RunScheduler made;
  const std::string site_path = join_path(run_dir, "site.toml");
  LH_TRY(const bool has_site, is_there(site_path));  // a run of a cluster must not be taken for one of this machine
  if (has_site) {
    LH_TRY(Site site, load_site(site_path, {}));
    if (site.config.is_slurm()) made.site = std::move(site);
  }
  if (made.site) {
    LH_TRY(made.rules, rules_of(*made.site, frozen.plan));
    const auto environment = read_submit_environment(driven_folder(run_dir, frozen));
    // The round of a job at its end, which no small job follows.
    const bool last_look = options.leave_refused && read_follower(run_dir).job.empty();
    LH_TRY(auto slurm,
           make_slurm(*made.site, driving_programs(run_dir, options.programs_dir), environment, last_look, clock, log));
    made.maintenance_ms = [&clock, port = &slurm->port(), own = own_reservations(*made.site, frozen.plan)] {
      return ask_maintenance_ms(*port, own, clock);
    };
    made.scheduler = std::move(slurm);
    made.rules.array_tasks_max = made.scheduler->array_tasks_max();
    return made;
  }
  auto local = std::make_unique<LocalScheduler>(run_dir, options.cpu_slots, clock, log);
  made.cores = local->slots();
  made.scheduler = std::move(local);
  return made;
}

}  // namespace longhaul
