#include "autotune/trials/confirmation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/text/text.h"

namespace longhaul {
namespace {

class Confirmation {
 public:
  Confirmation(std::span<const Trial> candidates, std::span<const TrialResult> results,
               const ConfirmationLimits& limits)
      : trials_(candidates), limits_(limits), found_(candidates.size(), nullptr) {
    std::map<std::string, const TrialResult*> by_name;
    for (const TrialResult& result : results) by_name.emplace(result.name, &result);
    for (std::size_t i = 0; i < trials_.size(); ++i)
      if (const auto found = by_name.find(trials_[i].name); found != by_name.end()) found_[i] = found->second;
  }

  ConfirmationDecision decide() {
    for (std::size_t i = 0; i < trials_.size(); ++i) look_at(i);
    recalibrate();
    choose_leader();
    for (std::size_t i = 0; i < trials_.size(); ++i) predict(i);
    stop_what_lost();
    set_aside_what_cannot_win();
    choose_next();
    if (decision_.finished) finish();
    explain();
    return std::move(decision_);
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  CandidateVerdict& verdict(std::size_t i) { return decision_.candidates[i]; }

  void look_at(std::size_t i) {
    CandidateVerdict seen;
    seen.name = trials_[i].name;
    const TrialResult* result = found_[i];
    if (result) {
      seen.seconds = step_time_interval(result->step_seconds, limits_.confidence, limits_.repeat_sigma);
      const bool judged = result->outcome == TrialOutcome::measured || seen.seconds.steps >= limits_.steps_to_judge;
      if (!judged) seen.seconds = {};
      if (result->begun) ++decision_.runs;
      seen.state = state_of(*result, seen.seconds.known());
    }
    decision_.candidates.push_back(std::move(seen));
  }

  static CandidateState state_of(const TrialResult& result, bool known) {
    switch (result.outcome) {
      case TrialOutcome::waiting:
      case TrialOutcome::running: return CandidateState::running;
      case TrialOutcome::measured: return known ? CandidateState::measured : CandidateState::set_aside;
      case TrialOutcome::stopped: return known ? CandidateState::measured : CandidateState::failed;
      default: return CandidateState::failed;
    }
  }

  // What was measured over what was predicted, of those that have both: the median to be reported, and a correction of
  // the others, the more of it the more they are alike.
  void recalibrate() {
    std::vector<double> logs;
    std::vector<MeasuredRatio> ratios;
    double sigmas = 0;
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      if (verdict(i).state != CandidateState::measured || trials_[i].predicted_seconds <= 0) continue;
      logs.push_back(std::log(verdict(i).seconds.centre / trials_[i].predicted_seconds));
      ratios.push_back({trials_[i].like, logs.back()});
      sigmas += trials_[i].predicted_sigma;
    }
    if (logs.empty()) return;
    correction_.emplace(std::move(ratios), sigmas / static_cast<double>(logs.size()), limits_.repeat_sigma);
    std::sort(logs.begin(), logs.end());
    const std::size_t half = logs.size() / 2;
    decision_.scale = std::exp(logs.size() % 2 == 1 ? logs[half] : (logs[half - 1] + logs[half]) / 2);
  }

  bool is_compared(std::size_t i) { return verdict(i).seconds.known() && verdict(i).state != CandidateState::failed; }

  // How differently trials were disturbed: the deviation of the logarithm of a trial's centre over its fastest steps.
  // Where nobody disturbs, that ratio is the same for all.
  double disturbance() {
    double sum = 0, squares = 0;
    int count = 0;
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      if (!is_compared(i)) continue;
      const double ratio = std::log(verdict(i).seconds.centre / verdict(i).seconds.floor);
      sum += ratio, squares += ratio * ratio, ++count;
    }
    if (count < 3) return 0;
    return std::sqrt(std::max(0.0, (squares - sum * sum / count) / (count - 1)));
  }

  // Slower than the other one whatever the scatter of the steps and whoever disturbed which of the two.
  bool is_behind(std::size_t i, std::size_t other) {
    return verdict(i).seconds.low > verdict(other).seconds.high * (1 + normal_z(limits_.confidence) * disturbance_);
  }

  // Also of those that are still running, once they have shown enough. Of those that are not behind the fastest, the
  // one whose fastest steps are faster: on a machine that others use as well a trial has slow minutes.
  void choose_leader() {
    disturbance_ = disturbance();
    std::size_t fastest = none;
    for (std::size_t i = 0; i < trials_.size(); ++i)
      if (is_compared(i) && (fastest == none || verdict(i).seconds.centre < verdict(fastest).seconds.centre))
        fastest = i;
    leader_ = fastest;
    for (std::size_t i = 0; i < trials_.size(); ++i)
      if (is_compared(i) && !is_behind(i, fastest) && verdict(i).seconds.floor < verdict(leader_).seconds.floor)
        leader_ = i;
  }

  void predict(std::size_t i) {
    const Trial& trial = trials_[i];
    if (trial.predicted_seconds <= 0) return;
    MeasuredCorrection::Factor corrected{1, trial.predicted_sigma};
    if (correction_) corrected = correction_->at(trial.like);
    verdict(i).predicted_seconds = corrected.factor * trial.predicted_seconds;
    verdict(i).predicted_sigma = corrected.sigma;
    const double low = 1 - normal_z(limits_.confidence) * corrected.sigma;
    if (trial.predicted_sigma > 0) verdict(i).predicted_low = std::max(0.0, verdict(i).predicted_seconds * low);
  }

  // Once trials have corrected a prediction, they are what it is made from.
  std::optional<ForecastSource> source_of(std::size_t i) const {
    return correction_ && trials_[i].predicted_from ? ForecastSource::measured_here : trials_[i].predicted_from;
  }

  void stop_what_lost() {
    if (leader_ == none) return;
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      const CandidateVerdict& seen = verdict(i);
      if (i == leader_ || seen.state != CandidateState::running || !seen.seconds.known()) continue;
      const bool slower = seen.seconds.low > verdict(leader_).seconds.high;
      if (slower && seen.seconds.floor > verdict(leader_).seconds.floor) decision_.stop.push_back(seen.name);
    }
  }

  void set_aside_what_cannot_win() {
    const std::size_t starved = smallest_that_ran_out();
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      CandidateVerdict& seen = verdict(i);
      if (seen.state == CandidateState::set_aside && found_[i]) {
        seen.why = format("its results are partial: {} measured steps, {} are needed{}", found_[i]->step_seconds.size(),
                          steps_for_interval, found_[i]->what.empty() ? "" : "; " + found_[i]->what);
        continue;
      }
      if (seen.state != CandidateState::waiting) continue;
      if (starved != none && trials_[i].predicted_bytes >= trials_[starved].predicted_bytes) {
        seen.state = CandidateState::set_aside;
        seen.why = format("not run: it needs {}, and {} ran out of memory with {}",
                          human_bytes(static_cast<double>(trials_[i].predicted_bytes)), trials_[starved].name,
                          human_bytes(static_cast<double>(trials_[starved].predicted_bytes)));
      } else if (leader_ != none && seen.predicted_low > verdict(leader_).seconds.high) {
        seen.state = CandidateState::set_aside;
        seen.why =
            format("not run: predicted {:.4g} s, at least {:.4g} s, and {} takes {:.4g} s", seen.predicted_seconds,
                   seen.predicted_low, verdict(leader_).name, verdict(leader_).seconds.centre);
      }
    }
  }

  // Who needs as much as this one runs out of memory as well, whatever the estimate's own error is.
  std::size_t smallest_that_ran_out() const {
    std::size_t smallest = none;
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      if (!found_[i] || found_[i]->outcome != TrialOutcome::out_of_memory || trials_[i].predicted_bytes <= 0) continue;
      if (smallest == none || trials_[i].predicted_bytes < trials_[smallest].predicted_bytes) smallest = i;
    }
    return smallest;
  }

  void choose_next() {
    if (limits_.max_runs <= 0 || trials_.empty()) {
      decision_.finished = true;
      return;
    }
    std::vector<std::size_t> waiting;
    bool running = false;
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      if (verdict(i).state == CandidateState::waiting) waiting.push_back(i);
      running = running || verdict(i).state == CandidateState::running;
    }
    if (running) return;  // a round ends before the next begins
    const int left = limits_.max_runs - decision_.runs;
    if (waiting.empty() || left <= 0) {
      decision_.finished = true;
      return;
    }
    // In the order given until something was measured; then whoever could be fastest: well predicted, or unlike the
    // rest.
    const bool compared = std::ranges::all_of(waiting, [&](std::size_t i) { return !trials_[i].like.kind.empty(); });
    if (correction_ && compared)
      std::ranges::stable_sort(waiting, {}, [&](std::size_t i) { return verdict(i).predicted_low; });
    const auto size = std::min<std::size_t>(
        {waiting.size(), static_cast<std::size_t>(left), static_cast<std::size_t>(std::max(1, limits_.at_once))});
    for (std::size_t i = 0; i < size; ++i) decision_.run.push_back(trials_[waiting[i]].name);
  }

  void finish() {
    if (trials_.empty()) {
      decision_.problem = "there are no candidates";
      return;
    }
    if (limits_.max_runs <= 0) {
      decision_.by_prediction = true;
      leader_ = 0;
    }
    if (leader_ == none) {
      std::vector<std::string> ends;
      for (std::size_t i = 0; i < trials_.size(); ++i)
        if (found_[i])
          ends.push_back(format("{}: {}{}", trials_[i].name, to_string(found_[i]->outcome),
                                found_[i]->what.empty() ? "" : " (" + found_[i]->what + ")"));
      decision_.problem = "no candidate could be measured; " + join(ends, "; ");
      return;
    }
    verdict(leader_).won = true;
    decision_.winner = verdict(leader_).name;
    decision_.separated = true;
    for (std::size_t i = 0; i < trials_.size(); ++i)
      if (i != leader_ && verdict(i).state == CandidateState::measured && !is_behind(i, leader_))
        decision_.separated = false;
  }

  void explain() {
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      CandidateVerdict& seen = verdict(i);
      if (!seen.why.empty()) continue;
      if (seen.state == CandidateState::failed)
        seen.why = format("{}{}", to_string(found_[i]->outcome), found_[i]->what.empty() ? "" : ": " + found_[i]->what);
      else if (seen.state == CandidateState::measured)
        seen.why = measured_text(i);
      else if (seen.state == CandidateState::waiting)
        seen.why = waiting_text(i);
      else if (seen.seconds.known())
        seen.why = format("running: {:.4g} s ± {:.1f} % so far", seen.seconds.centre, share(seen.seconds));
      else
        seen.why = to_string(found_[i]->outcome);
    }
  }

  static double share(const StepTimeInterval& seconds) { return 100 * seconds.half_width() / seconds.centre; }

  std::string measured_text(std::size_t i) {
    const CandidateVerdict& seen = verdict(i);
    std::string text = format("measured {:.4g} s ± {:.1f} %", seen.seconds.centre, share(seen.seconds));
    const Trial& trial = trials_[i];
    if (trial.predicted_seconds > 0)
      text +=
          ", predicted " + forecast_seconds_text(trial.predicted_seconds, trial.predicted_sigma, trial.predicted_from);
    if (found_[i]->outcome == TrialOutcome::stopped) text += format(", stopped after {} steps", found_[i]->steps_done);
    if (i == leader_) return text + (seen.won ? ": the fastest" : "");
    const StepTimeInterval& first = verdict(leader_).seconds;
    const double behind = 100 * (seen.seconds.centre / first.centre - 1);
    const double floor_behind = 100 * (seen.seconds.floor / first.floor - 1);
    if (is_behind(i, leader_)) return text + format(": {:.1f} % slower than {}", behind, verdict(leader_).name);
    return text +
           format(
               ": {:+.1f} % beside {}, {:+.1f} % in their fastest steps; {:.0f} % confidence does not distinguish them",
               behind, verdict(leader_).name, floor_behind, 100 * limits_.confidence);
  }

  std::string waiting_text(std::size_t i) {
    const CandidateVerdict& seen = verdict(i);
    const std::string predicted =
        seen.predicted_seconds > 0
            ? "predicted " + forecast_seconds_text(seen.predicted_seconds, seen.predicted_sigma, source_of(i))
            : std::string();
    if (seen.won) return predicted.empty() ? "the first of the list; nothing was run" : predicted + "; nothing was run";
    if (!decision_.finished) return predicted.empty() ? "waits" : "waits; " + predicted;
    return format("not run: {} trials were allowed{}", limits_.max_runs, predicted.empty() ? "" : "; " + predicted);
  }

  std::span<const Trial> trials_;
  const ConfirmationLimits& limits_;
  std::vector<const TrialResult*> found_;  // by candidate; null: not submitted
  std::size_t leader_ = none;
  double disturbance_ = 0;                        // relative
  std::optional<MeasuredCorrection> correction_;  // once something was measured that had been predicted
  ConfirmationDecision decision_;
};

}  // namespace

ConfirmationDecision decide_confirmation(std::span<const Trial> candidates, std::span<const TrialResult> results,
                                         const ConfirmationLimits& limits) {
  return Confirmation(candidates, results, limits).decide();
}

}  // namespace longhaul
