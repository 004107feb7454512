// Room autotune/hyper
// The search for hyperparameters: which configurations are tried, for how long, and which go on.
// Start with halving.h (successive halving); proposals.h chooses configurations, hyper_artifact.h is the result.
// How large a model should be stands here too: scaling_law.h, training_budget.h, shape_for_parameters.h.
// It knows neither layouts nor step times, and does not run trials: it decides from trial_history.h alone.
//
// Successive halving: many configurations train a little, the best of them go on, and only a few train to the end.
//
// The rule, shared by both methods: trials that came to the end of a rung are ordered by their metric; the best
// floor(n / eta) of n may go on to the next rung, which is eta times as long. A trial goes on from its own checkpoint,
// so what it has trained is never paid twice. What diverged counts as the worst there is; what ran out of memory,
// crashed or hung has had its turn as well: such trials count in n and never go on. Ties are broken by name. When
// nothing more can come to a rung, at least `finalists` of it go on if they can: every search that is not all failures
// ends with whole trainings. Two finalists are the default, because rungs are biased: a short training favours large
// rates (they fall faster and end higher), so the first of the last but one rung is often the neighbour of the one that
// wins.
//
// A trial is left behind when it is clear that it will not go on, so that nobody needs its checkpoint: it has failed or
// trained to the end; or neither the places of its rung, however many come to it yet, nor the failure of so many of the
// better ones as there are finalists would bring its turn. If still more fail, it goes on all the same, from its
// beginning.
//
//   asha    Li et al. 2018 (1810.05934), algorithm 2: whenever there is room, the topmost rung that has a trial to
//           promote gives it, else a new configuration begins. No room is ever empty, but a promotion may turn out to
//           have been too early, so it can cost more than rounds. Where new configurations do not depend on results
//           (proposals = "spread"), they come before promotions, which spares most of that.
//   rounds  the synchronous form (Jamieson & Talwalkar 2016, 1502.07943; Li et al. 2016, 1603.06560): all trials of a
//           rung are one array of jobs, which is the cheapest thing to queue; the next rung waits for the last of them.
//           With several brackets, the configurations of later ones know the results of earlier ones (Falkner et al.
//           2018, 1807.01774).
//
// Metrics of a rung are comparable where the learning rate up to there does not depend on how long the whole training
// is: check_prefixes.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autotune/hyper/trial_history.h"
#include "contracts/settings/stages/hyper_search.h"
#include "contracts/settings/training/training.h"

namespace longhaul::hyper {

// What to start: the trial trains from `from_step` (its own checkpoint; 0: from the beginning) to `to_step`.
struct TrialStart {
  std::string trial;
  Value settings;
  int rung = 0;
  std::int64_t from_step = 0, to_step = 0;  // in the trial's own steps
  std::string why;                          // "best 2 of 8 of rung 0"
};

struct Decision {
  std::vector<TrialStart> starts;
  bool finished = false;  // nothing runs, nothing is left to start
  std::string why;        // what is waited for, or how it ended
};

// In steps of the stage's own batch size.
struct SearchCost {
  double steps = 0;       // trained so far
  double grid_steps = 0;  // of all configurations trained to the end
  double share() const { return grid_steps > 0 ? steps / grid_steps : 0; }
};

struct BestTrial {
  std::string trial;
  Value settings;
  double metric = 0;
  int rung = 0;
  bool whole = false;  // trained to the end
};

// Immutable; everything it answers follows from the settings and the history.
class Halving {
 public:
  // `settings` as parse_hyper_search took them. `batch`: the stage's own global batch size. Where global_batch_size
  // varies, a trial with half the batch trains twice the steps, so that trials of a rung have seen the same tokens;
  // without a batch (0) all train the same steps.
  explicit Halving(HyperSearchSettings settings, std::int64_t batch = 0);

  int rungs() const { return static_cast<int>(steps_.size()); }
  // Steps from the very beginning to the end of a rung, of the stage's own batch size, or of a configuration's.
  std::int64_t steps(int rung) const { return steps_[static_cast<std::size_t>(rung)]; }
  std::int64_t steps(int rung, const Value& configuration) const;

  // What to start in `slots` free places. Rounds start a rung as a whole, whatever the slots (but none: nothing).
  Decision decide(const std::vector<Trial>& history, int slots) const;
  SearchCost cost(const std::vector<Trial>& history) const;
  // What rounds will cost if nothing fails.
  SearchCost planned_cost() const;
  std::optional<BestTrial> best(const std::vector<Trial>& history) const;
  // Names of the trials that are left behind (above). None of them is started again, unless more trials fail from then
  // on than there are finalists.
  std::set<std::string> left_behind(const std::vector<Trial>& history) const;
  const HyperSearchSettings& settings() const { return settings_; }

 private:
  struct Pool;
  int brackets() const { return settings_.method == "rounds" ? settings_.brackets : 1; }
  // Of one bracket: its trials are those of the history.
  Pool pool_of(int bracket, const std::vector<Trial>& history) const;
  Decision decide_pool(const Pool& pool, const std::vector<Trial>& history, int slots) const;
  std::optional<TrialStart> next_start(const Pool& pool, const std::vector<Trial>& history) const;
  std::optional<TrialStart> new_trial(const Pool& pool, const std::vector<Trial>& history) const;
  std::optional<TrialStart> promotion(const Pool& pool) const;
  TrialStart start_of(const Trial& trial, int rung, std::string why) const;
  std::string summary(const Pool& pool, const std::vector<Trial>& history) const;
  double batch_factor(const Value& configuration) const;

  HyperSearchSettings settings_;
  std::int64_t batch_;
  std::vector<std::int64_t> steps_;
};

// Is a trial's state after n steps the same whatever the number of all steps is? True for constant and inverse_sqrt
// rates where the first rung is at least twice the warm-up (a shorter run warms up in its first half;
// engine/train/optimizer/lr_schedule.h). `first_rung_steps` are the fewest that any trial trains. The error says what
// to do instead.
Status check_prefixes(const OptimizerSettings& optimizer, std::int64_t first_rung_steps);

}  // namespace longhaul::hyper
