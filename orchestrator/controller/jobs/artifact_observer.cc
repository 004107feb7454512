#include "orchestrator/controller/jobs/artifact_observer.h"

#include "base/files/files.h"
#include "orchestrator/forecast/measured_trainings.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/state/access/run_access.h"

namespace longhaul {
namespace {

// What a pretraining took, for later predictions at this site (measured_trainings.h). Nothing of this run depends on
// it; where nobody can predict such a training there is nothing to keep.
void keep_step_time(const ControlledRun& run, const StepPrediction& predict, const LedgerStage& stage,
                    const ArtifactSeen& artifact, std::int64_t at_ms) {
  constexpr double steps_min = 20;
  const PlannedStage& planned = run.planned_of(stage);
  const std::string constants = join_path(run.run_dir, constants_file_name);
  const double rate = artifact.figures.get_number("tokens_per_s");
  const Value* rampup = planned.settings.find("batch_rampup");
  const bool alike = !planned.settings.find("phase") && (!rampup || rampup->get_integer("start") == 0);
  if (!predict || planned.kind != "pretrain" || !alike || rate <= 0 || !file_exists(constants) ||
      artifact.figures.get_number("steps") < steps_min)
    return;
  const auto keep = [&]() -> Status {
    LH_TRY(const Site site, load_site(join_path(run.run_dir, "site.toml"), {}));
    auto one = predict(run.frozen.plan, planned, site.config);
    if (!one.ok() && one.error().code == ErrorCode::unsupported) return {};
    if (!one.ok()) return one.error();
    one->measured = static_cast<double>(planned.settings.get_integer("global_batch_size") *
                                        planned.settings.get_integer("sequence_length")) /
                    rate;
    MeasuringStage measuring{.run = run.frozen.name, .stage = stage.id, .site = site.config.name, .at_ms = at_ms};
    LH_TRY(measuring.constants_text, read_file(constants));
    return keep_measured(parent_path(run.run_dir), access_of(site.values), measuring, {std::move(*one)});
  };
  if (const Status kept = keep(); !kept.ok())
    run.log.warn("event=step_time_not_kept stage=" + stage.id + " error='" + kept.error().message() + "'");
}

}  // namespace

// A job that says it succeeded: is its artifact there? If so, other runs may find it from now on.
Status observe_artifact(const ControlledRun& run, const ArtifactUse& use, const LedgerStage& stage,
                        Observations& seen) {
  const auto job = seen.jobs.find(stage.newest()->key);
  if (job == seen.jobs.end() || job->second.state != JobState::ended || !job->second.record ||
      job->second.record->outcome != "succeeded")
    return {};
  auto artifact = read_artifact(join_path(stage_folder(run.run_dir, stage.id), "out"), stage.key);
  if (!artifact.ok() && artifact.error().code == ErrorCode::io) return artifact.error();  // it may be whole
  if (!artifact.ok()) {
    seen.broken[stage.id] = "its job succeeded, but its artifact is not whole: " + artifact.error().message();
    return {};
  }
  // One that was steered by orders, or that faults were injected into, may not be what its key says: no other run's.
  const bool steered = artifact->figures.find("steered") != nullptr || run.planned_of(stage).faults.allowed;
  const Status registered =
      steered ? Status() : register_artifact(run.frozen.artifact_root, stage.key, *artifact, use.trust);
  if (!registered.ok())
    run.log.warn("event=artifact_not_registered stage=" + stage.id + " error='" + registered.error().message() + "'");
  if (!steered) keep_step_time(run, use.predict, stage, *artifact, job->second.record->ended_ms);
  seen.artifacts.emplace(stage.id, std::move(artifact).value());
  return {};
}

}  // namespace longhaul
