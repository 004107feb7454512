#include "worker/lead/monitor/training_watch.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"

namespace longhaul {
namespace {

// JSON has no such number: programs write null, or a text.
std::optional<double> loss_of(const Event& event) {
  const Value* loss = event.fields.is_table() ? event.fields.find("loss") : nullptr;
  if (!loss) return std::nullopt;
  if (loss->is_number()) return loss->as_number();
  return std::nan("");
}

}  // namespace

std::vector<int> peers_of(const Launch& launch, int others) {
  const int ranks = std::max(1, launch.ranks - others);
  std::vector<int> peers(static_cast<std::size_t>(ranks), 0);
  if (launch.dims.world_size() != ranks) return peers;
  for (int rank = 0; rank < ranks; ++rank) peers[static_cast<std::size_t>(rank)] = coordinates_of(launch.dims, rank).pp;
  return peers;
}

void TrainingWatch::new_launch(int launch, std::vector<int> peers) {
  launch_ = launch;
  stragglers_.new_launch(std::move(peers));
  not_finite_ = false;
  wish_.reset();
  demand_.reset();
}

WarningEvent TrainingWatch::warning(const char* kind, const char* fault_class) const {
  WarningEvent event;
  event.kind = kind, event.fault_class = fault_class;
  event.launch = launch_;
  return event;
}

std::vector<WarningEvent> TrainingWatch::look(const std::vector<RankObservation>& ranks, int spares) {
  std::vector<WarningEvent> warnings;
  for (const Straggler& one : stragglers_.look(ranks)) {
    const bool over = one.finding.kind == StragglerFinding::Kind::over;
    WarningEvent event = warning(over ? "straggler_over" : "straggler", "slow_rank");
    event.rank = one.finding.rank, event.host = one.host;
    event.step = one.finding.step, event.since_step = one.finding.since_step;
    event.relative_score = one.finding.relative_score, event.individual_score = one.finding.individual_score;
    if (!over) event.slowdown = one.finding.slowdown;
    event.text = one.finding.text();
    warnings.push_back(std::move(event));
  }
  if (settings_.on_straggler == "swap") {
    const std::optional<Straggler> slow = stragglers_.slowest();
    if (!slow)
      wish_.reset();
    else
      wish_to_leave(*slow, spares);
  }
  return warnings;
}

// Of several slow ranks the slowest goes first; another one's turn comes in the next launch, if it is slow there.
void TrainingWatch::wish_to_leave(const Straggler& slow, int spares) {
  if (spares == 0 || slow.host.empty()) {
    wish_.reset();
    return;
  }
  if (!wish_ || wish_->rank != slow.finding.rank) wish_ = Wish{slow.finding.rank, slow.finding.step, false};
}

bool TrainingWatch::wants_checkpoint() {
  if (!wish_ || wish_->ordered || demand_) return false;
  return wish_->ordered = true;
}

void TrainingWatch::saved(std::int64_t step) {
  const std::optional<Straggler> slow = stragglers_.slowest();
  if (!wish_ || !slow || demand_ || step < wish_->step) return;
  GuardFinding found;
  found.kind = GuardFinding::Kind::slow_rank;
  found.rank = slow->finding.rank, found.host = slow->host;
  found.step = step;
  found.cause = format("rank {} on {} is {}: it takes {:.0f} % longer since step {}; a checkpoint of step {} is there",
                       found.rank, found.host, to_string(slow->finding.kind), 100 * (slow->finding.slowdown - 1),
                       slow->finding.since_step, step);
  demand_ = std::move(found);
}

std::vector<WarningEvent> TrainingWatch::take(const std::vector<Event>& events) {
  std::vector<WarningEvent> warnings;
  for (const Event& event : events) {
    if (event.kind == "metric") take_loss(event, warnings);
    if (event.kind == "checkpoint") saved(event.fields.get_integer("step", -1));
  }
  return warnings;
}

void TrainingWatch::take_loss(const Event& event, std::vector<WarningEvent>& warnings) {
  const std::optional<double> loss = loss_of(event);
  const std::int64_t step = event.fields.is_table() ? event.fields.get_integer("step", -1) : -1;
  if (!loss) return;
  const LossVerdict verdict = losses_.observe(step, *loss);
  const bool first = verdict == LossVerdict::not_finite && !not_finite_;
  not_finite_ = verdict == LossVerdict::not_finite;
  if (first) {
    WarningEvent bad = warning("loss_nan", "loss_nan");
    bad.step = bad.since_step = step;
    bad.text = format("step {}: the loss is not a number", step);
    if (!demand_ && settings_.on_nan != "report") {
      GuardFinding found;
      found.kind = GuardFinding::Kind::bad_loss;
      found.step = step;
      found.cause = bad.text;
      demand_ = std::move(found);
    }
    warnings.push_back(std::move(bad));
  } else if (verdict == LossVerdict::spike) {
    high_since_ = step;
    WarningEvent high = warning("loss_spike", "loss_spike");
    high.step = high.since_step = step;
    high.text = format("step {}: the loss is {:.4g}, the median of the last ones {:.4g} (deviation {:.2g})", step,
                       *loss, losses_.median(), losses_.deviation());
    warnings.push_back(std::move(high));
  } else if (verdict == LossVerdict::calm_again || verdict == LossVerdict::new_level) {
    WarningEvent over = warning("loss_spike_over", "loss_spike");
    over.step = step, over.since_step = high_since_;
    over.text = format("step {}: the loss is {:.4g}, {}", step, *loss, to_string(verdict));
    warnings.push_back(std::move(over));
  }
}

}  // namespace longhaul
