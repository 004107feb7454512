#include "orchestrator/fit/wall_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text/text.h"
#include "orchestrator/fit/saved_bytes.h"

namespace longhaul {
namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();

// Seconds that the steps of a training may take.
struct TimeForSteps {
  double of_job = no_limit;  // in one job, of a chain in each but the first
  double of_all = no_limit;
  int jobs = 1;  // that share the time limit
};

// `read_s`: what a job that goes on reads its checkpoint in, at least.
TimeForSteps time_for_steps(const PlannedStage& stage, const JobPlan& job, double read_s) {
  TimeForSteps time;
  const double limit = stage.common.time_limit.value, wall = job.wall_s > 0 ? job.wall_s : limit;
  if (wall <= 0) return time;
  time.of_job = std::max(0.0, wall - job.stop_before_s);
  if (!job.chain) {
    time.of_all = time.of_job;
    return time;
  }
  time.of_job = std::max(0.0, time.of_job - read_s);
  if (limit > 0) {
    time.jobs = static_cast<int>(std::ceil(limit / wall));
    time.of_all = std::max(0.0, limit - time.jobs * job.stop_before_s - (time.jobs - 1) * read_s);
  }
  return time;
}

class WallCheck {
 public:
  WallCheck(const FitCase& fit, const FitTraining& training, FitFindings& report)
      : fit_(fit),
        t_(training),
        report_(report),
        saved_(saved_bytes(fit, training.stage)),
        time_(time_for_steps(training.stage, training.job, saved_ ? saved_->read_s : 0)),
        where_(fit.place(training.stage, {"time_limit"})) {}

  void run() {
    if (!one_step_fits()) return;
    all_steps_fit();
    one_checkpoint_fits();
  }

 private:
  double with_saves(double steps_s) const { return saved_ ? saved_->with_saves(steps_s) : steps_s; }
  std::string name() const { return "stage." + t_.forecast.stage; }
  std::string limit_text() const {
    const double limit = t_.stage.common.time_limit.value;
    if (limit > 0) return "time_limit = " + human_duration(limit);
    return "its job's wall time, " + human_duration(t_.job.wall_s);
  }
  std::string before_end_text() const {
    return t_.job.stop_before_s >= 1 ? format(", the last {} of {} kept for saving",
                                              human_duration(t_.job.stop_before_s), time_.jobs > 1 ? "each job" : "it")
                                     : std::string();
  }

  bool one_step_fits() {
    if (t_.step_low() <= time_.of_job) return true;
    report_.refuse(
        FitSubject::wall, where_,
        format("{}: a job of {} is shorter than one step, which takes at least {} by the forecast ({}){}", name(),
               human_duration(t_.job.wall_s > 0 ? t_.job.wall_s : t_.stage.common.time_limit.value),
               human_duration(t_.step_low()), t_.forecast.device, before_end_text()),
        format("a job of {} holds one step", written_duration(1.02 * t_.forecast.high + t_.job.stop_before_s)));
    return false;
  }

  void all_steps_fit() {
    const TrainingForecast& f = t_.forecast;
    const double low = with_saves(t_.low()), high = with_saves(t_.high());
    if (f.steps <= 0 || high <= time_.of_all) return;
    const double each = with_saves(f.duration()) / static_cast<double>(f.steps);  // phases differ
    const auto steps = static_cast<std::int64_t>(time_.of_all / each);
    const std::string took = format("{} steps{} take {} to {} by the forecast ({})", f.steps, saves_text(low),
                                    human_duration(low), human_duration(high), f.device);
    const std::string remedy = format("time_limit = \"{}\" holds all of them, and steps = {} fit{}",
                                      written_duration(1.02 * high + time_.jobs * t_.job.stop_before_s),
                                      std::max<std::int64_t>(steps, 1), fewer_saves(low));
    const std::string against =
        format("{} has {} for them{}", limit_text(), human_duration(time_.of_all), before_end_text());
    if (low > time_.of_all)
      report_.refuse(FitSubject::wall, where_, format("{}: {}, and {}", name(), took, against), remedy);
    else
      report_.warn(FitSubject::wall, where_, format("{}: {}, and {}: it may end before them", name(), took, against),
                   remedy);
  }

  // Where they take a twentieth of the time or more.
  bool saves_count(double low) const { return low > 1.05 * t_.low(); }
  std::string saves_text(double low) const {
    if (!saves_count(low)) return {};
    return format(" with {} saves of {}, each at least {} by {}", saved_->made, human_bytes(saved_->checkpoint),
                  human_duration(saved_->write_s), saved_->write_from);
  }
  // So that the steps alone decide: none waits for the one before, or all of them take a twentieth of the time.
  std::string fewer_saves(double low) const {
    if (!saves_count(low)) return {};
    const double of_steps = saved_->beside ? t_.low() : 0.05 * t_.low();
    const auto saves = static_cast<std::int64_t>(of_steps / saved_->write_s);
    if (saves < 1) return {};
    return format("; with checkpoint.every_steps = {} {}", t_.forecast.steps / saves + 1,
                  saved_->beside ? "none waits for the one before" : "they take a twentieth of the time");
  }

  // What the rates of the site say, which a training has to share with others.
  void one_checkpoint_fits() {
    if (!saved_ || t_.job.stop_before_s <= 0 || saved_->write_s <= t_.job.stop_before_s) return;
    report_.refuse(FitSubject::wall, fit_.place(t_.stage, {"job.stop_before", "time_limit"}),
                   format("{}: a checkpoint of {} takes at least {} by {}, and the end of a job is known {} before it",
                          name(), human_bytes(saved_->checkpoint), human_duration(saved_->write_s), saved_->write_from,
                          human_duration(t_.job.stop_before_s)),
                   format("job.stop_before = \"{}\" is enough for it alone", written_duration(1.25 * saved_->write_s)));
  }

  const FitCase& fit_;
  const FitTraining& t_;
  FitFindings& report_;
  std::optional<SavedBytes> saved_;
  TimeForSteps time_;
  SourcePos where_;
};

}  // namespace

void check_wall_fit(const FitCase& fit, FitFindings& report) {
  for_each_training(fit, [&](const FitTraining& training) { WallCheck(fit, training, report).run(); });
}

}  // namespace longhaul
