#include "orchestrator/fit/memory_fit.h"

#include "autotune/trials/layout_artifact.h"
#include "base/text/text.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/forecast/rollout_request.h"
#include "orchestrator/forecast/written_layout.h"
#include "orchestrator/preflight/memory_check.h"

namespace longhaul {
namespace {

// "parallel = { dp_shard = 256, zero = 1 }, micro_batch_size = 1"
std::string keys_text(const Value& settings) {
  std::vector<std::string> keys;
  for (const ValueMember& member : settings.as_table()) keys.push_back(member.key + " = " + inline_toml(member.value));
  return join(keys, ", ");
}

bool better_fits(const TrainingForecast& f) {
  return f.better && (f.tuning.candidates.empty() || f.tuning.candidates.back().memory <= f.memory_limit);
}

std::string better_text(const PlannedStage& stage, const TrainingForecast& f) {
  return format("the fastest layout that fits: {} ({})",
                keys_text(written_over(stage.settings, f.better->layout, f.on_gpus)), layout_text(f.better->layout));
}

std::string remedy_of(const PlannedStage& stage, const TrainingForecast& f) {
  if (better_fits(f)) return better_text(stage, f);
  std::string remedy =
      "no layout of its ranks that was looked at fits: use more nodes, shorter sequences, a smaller model";
  if (!f.notes.empty()) remedy += "; " + f.notes.back();
  return remedy;
}

void check_on_gpus(const FitCase& fit, const FitTraining& training, FitFindings& report) {
  const TrainingForecast& f = training.forecast;
  const SourcePos where = fit.place(training.stage, {"parallel"});
  if (f.memory * (1 - memory_deviation) > f.memory_limit)
    report.refuse(FitSubject::memory, where,
                  format("stage.{} does not fit: a rank needs {} and there are {} ({})", f.stage, human_bytes(f.memory),
                         human_bytes(f.memory_limit), f.device),
                  remedy_of(training.stage, f));
  else if (f.memory * (1 + memory_deviation) > f.memory_limit)
    report.warn(FitSubject::memory, where,
                format("stage.{} may not fit: a rank needs {}, give or take {:.0f} %, and there are {} ({})", f.stage,
                       human_bytes(f.memory), 100 * memory_deviation, human_bytes(f.memory_limit), f.device),
                remedy_of(training.stage, f));
  if (!f.rollout || f.rollout->drawing_ranks == 0) return;
  if (f.rollout->memory * (1 - memory_deviation) <= f.memory_limit) return;
  report.refuse(FitSubject::memory, fit.place(training.stage, {"rollout.ranks", "rollout"}),
                format("stage.{} does not fit: each rank that only draws needs {}, and there are {} ({})", f.stage,
                       human_bytes(f.rollout->memory), human_bytes(f.memory_limit), f.device),
                "use fewer rollout.slots or a shorter sequence_length");
}

GrantedMemory granted_to(const FitCase& fit, const JobPlan& job) {
  if (!fit.site.config.is_slurm()) {
    if (fit.site.config.node.memory.value > 0)
      return {fit.site.config.node.memory.value, fit.site.origin_of("node.memory")};
    return {fit.machine.memory, "this machine"};
  }
  for (const Directive& directive : job.directives)
    if (directive.option == "mem") return granted_memory(fit.site, directive.value, directive.origin);
  return granted_memory(fit.site, "", "");
}

// Those that only draw answers are the last ranks of a job, so that they are together on its last nodes.
void check_drawing_ranks(const FitCase& fit, const FitTraining& training, FitFindings& report) {
  const std::optional<RolloutForecast>& rollout = training.forecast.rollout;
  const auto there = static_cast<double>(granted_to(fit, training.job).bytes);
  if (!rollout || rollout->drawing_ranks == 0 || there <= 0) return;
  const double needed = drawing_memory_of_node(*rollout, training.job.ranks_per_node);
  if (needed * (1 - memory_deviation) <= there) return;
  report.refuse(
      FitSubject::memory, fit.place(training.stage, {"rollout.ranks", "rollout"}),
      format("stage.{} does not fit: each rank that only draws needs {}, those of a node {}, and there are {}",
             training.stage.stage, human_bytes(rollout->memory), human_bytes(needed), human_bytes(there)),
      "use fewer rollout.slots, a shorter sequence_length, fewer rollout.ranks, or more nodes");
}

void check_on_processors(const FitCase& fit, const FitTraining& training, FitFindings& report) {
  const PlannedStage& stage = training.stage;
  check_drawing_ranks(fit, training, report);
  const Status fits = check_stage_memory(with_vocabulary(stage, fit.plan), training.job, fit.site.config,
                                         granted_to(fit, training.job));
  if (fits.ok()) return;
  const TrainingForecast& f = training.forecast;
  report.refuse(FitSubject::memory, fit.place(stage, {"job.memory", "parallel"}),
                "stage." + stage.stage + ": " + fits.error().what,
                better_fits(f) ? better_text(stage, f) : fits.error().hint);
}

void check_server(const FitCase& fit, const ServingForecast& f, FitFindings& report) {
  const PlannedStage* stage = fit.plan.find(f.stage);
  if (stage == nullptr || !f.problem.empty() || f.memory_limit <= 0 || fit.cached.contains(f.stage)) return;
  if (f.memory * (1 - memory_deviation) <= f.memory_limit) return;
  report.refuse(
      FitSubject::memory, fit.place(*stage, {"slots"}),
      format("stage.{} does not fit: a server with slots = {} needs {} and there are {} ({})", f.stage,
             stage->settings.get_integer("slots"), human_bytes(f.memory), human_bytes(f.memory_limit), f.device),
      f.server.slots_fit > 0 ? format("slots = {} fits", f.server.slots_fit)
                             : format("not even slots = 1 fits: put a quantize stage before it, or use a "
                                      "model.max_position_embeddings below {}",
                                      f.task.context()));
}

}  // namespace

void check_memory_fit(const FitCase& fit, FitFindings& report) {
  for_each_training(fit, [&](const FitTraining& training) {
    if (training.forecast.on_gpus)
      check_on_gpus(fit, training, report);
    else
      check_on_processors(fit, training, report);
  });
  for (const ServingForecast& server : fit.servers) check_server(fit, server, report);
}

}  // namespace longhaul
