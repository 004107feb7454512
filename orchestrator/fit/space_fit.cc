#include "orchestrator/fit/space_fit.h"

#include <algorithm>
#include <optional>

#include "base/text/text.h"
#include "contracts/records/milestone.h"
#include "contracts/settings/job/resumable.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/fit/saved_bytes.h"
#include "orchestrator/runs/purge.h"

namespace longhaul {
namespace {

struct StageSpace {
  const PlannedStage* stage = nullptr;
  SavedBytes saved;
};

struct SpaceLimit {
  double bytes = 0;
  std::string text;  // "paths.scratch_quota of the site is 20 TiB"
};

std::vector<StageSpace> spaces_of(const FitCase& fit) {
  std::vector<StageSpace> all;
  for (const PlannedStage& stage : fit.plan.stages) {
    if (!trains(stage.kind) || fit.cached.contains(stage.id())) continue;
    if (const auto saved = saved_bytes(fit, stage)) all.push_back({&stage, *saved});
  }
  return all;
}

std::optional<SpaceLimit> limit_of(const FitCase& fit) {
  if (const std::int64_t quota = fit.site.config.paths.scratch_quota.value; quota > 0)
    return SpaceLimit{static_cast<double>(quota),
                      "the site's paths.scratch_quota is " + human_bytes(static_cast<double>(quota))};
  if (fit.machine.free_bytes > 0)
    return SpaceLimit{static_cast<double>(fit.machine.free_bytes),
                      human_bytes(static_cast<double>(fit.machine.free_bytes)) + " are free on the file system of " +
                          fit.machine.runs};
  return std::nullopt;
}

std::string parts_text(const StageSpace& one) {
  std::string text = format("{} checkpoint{} of {}", one.saved.kept_low, one.saved.kept_low == 1 ? "" : "s",
                            human_bytes(one.saved.checkpoint));
  if (!one.saved.interval.empty()) text += format(" ({})", one.saved.interval);
  if (one.saved.milestones > 0)
    text += format(", {} milestones of {}", one.saved.milestones, human_bytes(one.saved.model_low));
  return text + format(", a model of {}", human_bytes(one.saved.model_low));
}

// The key of the largest stage that would make all of it fit into `room` bytes for that stage.
std::string remedy_for(const StageSpace& one, double room) {
  const SavedBytes& saved = one.saved;
  const Value& settings = one.stage->settings;
  const Value* checkpoint = settings.find("checkpoint");
  const std::int64_t steps = configured_steps(settings);
  const double models = static_cast<double>(saved.milestones + 1) * saved.model_low;
  const auto fitting = static_cast<std::int64_t>(std::max(0.0, room - models) / saved.checkpoint);
  const std::int64_t last = std::min<std::int64_t>(saved.kept_low, 2);  // one, and the next while it is written
  if (saved.kept_for_good > 0 && fitting > last) {
    const std::int64_t every = std::max<std::int64_t>(1, checkpoint->get_integer("every_steps"));
    const std::int64_t apart = steps / (fitting - last) + 1;
    return format("checkpoint = {{ keep_every = {}, keep_last = 1 }} fits", (apart + every - 1) / every * every);
  }
  if (saved.kept_for_good == 0 && fitting >= last)
    return format("checkpoint.keep_last = {} fits", std::max<std::int64_t>(1, fitting - 1));
  if (const double left = room - static_cast<double>(last) * saved.checkpoint - saved.model_low;
      saved.milestones > 0 && left >= saved.model_low)
    return format("milestone_every = {} fits, with checkpoint.keep_last = 1",
                  steps / static_cast<std::int64_t>(left / saved.model_low) + 1);
  return format("one checkpoint and the next take {}: optimizer.moments = \"bf16\" makes them {}",
                human_bytes(2 * saved.checkpoint), human_bytes(2 * saved.checkpoint * 8 / 12));
}

void check_bytes(const FitCase& fit, const std::vector<StageSpace>& all, FitFindings& report) {
  const auto limit = limit_of(fit);
  if (!limit || all.empty()) return;
  double low = 0, high = 0;
  const StageSpace* largest = &all.front();
  for (const StageSpace& one : all) {
    low += one.saved.low(), high += one.saved.high();
    if (one.saved.low() > largest->saved.low()) largest = &one;
  }
  if (high <= limit->bytes) return;
  const SourcePos where =
      fit.place(*largest->stage, {"checkpoint.keep_every", "checkpoint.keep_last", "checkpoint", milestone_setting});
  const std::string most = format("most of it stage.{}: {}", largest->stage->id(), parts_text(*largest));
  const std::string remedy = remedy_for(*largest, limit->bytes - (low - largest->saved.low()));
  if (low > limit->bytes)
    report.refuse(FitSubject::space, where,
                  format("what the trainings save takes at least {}, {}, and {}", human_bytes(low), most, limit->text),
                  remedy);
  else
    report.warn(FitSubject::space, where,
                format("what the trainings save takes {} to {}, {}, and {}", human_bytes(low), human_bytes(high), most,
                       limit->text),
                remedy);
}

void check_files(const FitCase& fit, const std::vector<StageSpace>& all, FitFindings& report) {
  const std::int64_t limit = fit.site.config.paths.scratch_inodes;
  if (limit <= 0 || all.empty()) return;
  std::int64_t low = 0, high = 0;
  const StageSpace* largest = &all.front();
  for (const StageSpace& one : all) {
    low += one.saved.kept_low * one.saved.files_low, high += one.saved.kept * one.saved.files;
    if (one.saved.kept * one.saved.files > largest->saved.kept * largest->saved.files) largest = &one;
  }
  if (high <= limit) return;
  const SourcePos where = fit.place(*largest->stage, {"checkpoint.keep_every", "checkpoint.keep_last", "checkpoint"});
  const std::string remedy = format("{} checkpoints of stage.{} fit: lower checkpoint.keep_last, or raise keep_every",
                                    std::max<std::int64_t>(1, limit / largest->saved.files), largest->stage->id());
  const std::string and_limit = format("and the site's paths.scratch_inodes is {}", limit);
  if (low > limit)
    report.refuse(FitSubject::space, where, format("checkpoints are at least {} files, {}", low, and_limit), remedy);
  else
    report.warn(FitSubject::space, where, format("checkpoints are {} to {} files, {}", low, high, and_limit), remedy);
}

void check_purge(const FitCase& fit, FitFindings& report) {
  const double purge = fit.site.config.paths.scratch_purge.value;
  if (purge <= 0) return;
  if (!fit.plan.stages.empty()) report.note(purge_rule_text(purge));
  for_each_training(fit, [&](const FitTraining& t) {
    const auto saved = saved_bytes(fit, t.stage);
    if (!saved || t.forecast.steps <= 0 || t.high() <= purge) return;
    if (saved->kept_for_good == 0 && saved->milestones == 0) return;
    report.warn(
        FitSubject::space, fit.place(t.stage, {"checkpoint.keep_every", milestone_setting}),
        format("stage.{} takes up to {} by the forecast, and on scratch files that nobody uses for {} are removed "
               "(the site's paths.scratch_purge): what it keeps for good would not last",
               t.stage.id(), human_duration(t.high()), human_duration(purge)),
        "put `runs` of the site file where nothing is purged");
  });
}

}  // namespace

void check_space_fit(const FitCase& fit, FitFindings& report) {
  const std::vector<StageSpace> all = spaces_of(fit);
  check_bytes(fit, all, report);
  check_files(fit, all, report);
  check_purge(fit, report);
}

}  // namespace longhaul
