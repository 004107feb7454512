// Room resiliency/detect/loss
// Whether a training's loss makes sense: not a number, or far above what it was.
// loss_watch.h is the only header: the median of the last losses, with hysteresis.
// It decides nothing, and knows no fault class; the engine's own guard is engine/train/step/spike_guard.h.
//
// Whether a loss makes sense: not a number, or far above what it was.
//
// A spike is a loss that lies `spike_deviations` above the median of the last losses; the deviation is 1.4826 times the
// median of the distances from it (MAD), which for normal noise is the standard deviation (Rousseeuw & Croux 1993) and
// which a spike does not move. It is over when the loss is back within `calm_deviations` (hysteresis), so a loss that
// rings around the limit is one spike. Losses of a spike are no part of the median, unless it lasts `accept_after`
// steps: then that is the new level (another data set, another length).
#pragma once

#include <cstdint>
#include <deque>
#include <string>

namespace longhaul {

struct LossOptions {
  int window = 64;  // steps
  int least = 16;   // losses before any is judged
  double spike_deviations = 8;
  double calm_deviations = 4;
  double least_rise = 0.05;  // of the median: where noise is tiny, less is no spike
  int accept_after = 50;     // steps
};

enum class LossVerdict { fine, not_finite, spike, still_high, calm_again, new_level };
const char* to_string(LossVerdict verdict);

class LossWatch {
 public:
  explicit LossWatch(const LossOptions& options = {}) : options_(options) {}
  LossVerdict observe(std::int64_t step, double loss);
  bool high() const { return high_steps_ > 0; }
  // Of the losses that count; 0 where there is none.
  double median() const;
  double deviation() const;

 private:
  void keep(double loss);
  LossOptions options_;
  std::deque<double> losses_, high_losses_;
  std::int64_t high_steps_ = 0;
};

}  // namespace longhaul
