#include "autotune/hyper/halving.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "autotune/hyper/proposals.h"
#include "base/text/text.h"

namespace longhaul::hyper {
namespace {

constexpr const char* batch_setting = "global_batch_size";

// From the top down, so that the last rung is a whole training and every other an eta-th of the next.
std::vector<std::int64_t> rung_steps(const HyperSearchSettings& s) {
  const std::int64_t eta = s.eta;
  const std::int64_t least = s.min_steps > 0 ? s.min_steps : std::max<std::int64_t>(1, s.max_steps / 16);
  std::vector<std::int64_t> steps = {s.max_steps};
  while (steps.front() / eta >= least && steps.front() > 1)
    steps.insert(steps.begin(), (steps.front() + eta - 1) / eta);
  return steps;
}

const RungResult* result_at(const Trial& trial, int rung) {
  const auto found =
      std::find_if(trial.results.rbegin(), trial.results.rend(), [&](const RungResult& r) { return r.rung == rung; });
  return found == trial.results.rend() ? nullptr : &*found;
}

int losses_of(const Trial& trial) {
  return static_cast<int>(std::ranges::count(trial.results, RungEnd::lost, &RungResult::end));
}

}  // namespace

// The trials that compete with each other: numbers first .. last - 1.
struct Halving::Pool {
  int first = 0, last = 0;
  bool whole_rungs = false;  // promotions wait for all of a rung
  std::vector<const Trial*> trials;
  int losses_max = 3;

  void fill(const std::vector<Trial>& history) {
    trials.clear();
    for (const Trial& trial : history)
      if (const int index = trial_index(trial.name); index >= first && index < last) trials.push_back(&trial);
  }
  // Has the trial come to its end at the rung, one way or the other?
  bool ended(const Trial& trial, int rung) const {
    const RungResult* const r = result_at(trial, rung);
    if (!r || r->end == RungEnd::running) return false;
    return r->end != RungEnd::lost || losses_of(trial) >= losses_max;
  }
  // To be started at `rung`: it never was, or it was lost.
  bool waits(const Trial& trial, int rung) const {
    const RungResult* const r = result_at(trial, rung);
    if (rung == 0 && !r) return true;
    return r && r->end == RungEnd::lost && losses_of(trial) < losses_max;
  }
  // Nothing more can come to the rung: all trials have begun, and nobody runs or may be promoted below it.
  bool drained(int rung, const Halving& rules) const {
    bool no_more = static_cast<int>(trials.size()) == last - first;
    for (int r = 0; no_more && r <= rung; ++r) {
      no_more =
          std::ranges::all_of(trials, [&](const Trial* t) { return ended(*t, r) || (r > 0 && !result_at(*t, r)); });
      no_more = no_more && (r == rung || promotable(r, true, rules).empty());
    }
    return no_more;
  }
  // Whoever came to the end of the rung, best first.
  std::vector<const Trial*> ended_at(int rung, const Halving& rules) const {
    std::vector<const Trial*> there;
    for (const Trial* trial : trials)
      if (ended(*trial, rung)) there.push_back(trial);
    const double sign = rules.settings().mode == "max" ? -1 : 1;
    const auto score = [&](const Trial* t) {
      const RungResult* const r = result_at(*t, rung);
      const int group = r->end == RungEnd::done ? 0 : r->end == RungEnd::diverged ? 1 : 2;
      return std::tuple(group, group == 0 ? sign * r->metric : 0.0, t->name);
    };
    std::ranges::sort(there, std::less{}, score);
    return there;
  }
  // Those that may go on from the rung now, best first. `no_more`: it is drained.
  std::vector<const Trial*> promotable(int rung, bool no_more, const Halving& rules) const {
    if (whole_rungs && !no_more) return {};
    const std::vector<const Trial*> there = ended_at(rung, rules);
    const std::size_t places = there.size() / static_cast<std::size_t>(rules.settings().eta);
    const auto finalists = static_cast<std::size_t>(rules.settings().finalists);
    std::vector<const Trial*> chosen;
    std::size_t sound = 0;  // went on, or may, and have not failed since
    for (std::size_t i = 0; i < there.size() && result_at(*there[i], rung)->end == RungEnd::done; ++i) {
      if (i >= places && (!no_more || sound >= finalists)) break;
      if (failed(*there[i])) continue;
      ++sound;
      if (!result_at(*there[i], rung + 1)) chosen.push_back(there[i]);
    }
    return chosen;
  }
  // It will not go on any more, whatever it promised.
  bool failed(const Trial& trial) const {
    const RungEnd end = trial.results.back().end;
    if (end == RungEnd::lost) return losses_of(trial) >= losses_max;
    return end != RungEnd::done && end != RungEnd::running;
  }
  // Done at the end of the last rung: it cannot fail any more.
  bool whole(const Trial& trial, const Halving& rules) const {
    return trial.results.back().end == RungEnd::done && trial.results.back().rung + 1 == rules.rungs();
  }
  // Those whose turn to go on from the rung may come yet, of the ones that came to its end well and stayed there.
  // `come_max`: so many may have come to its end at last.
  std::vector<const Trial*> in_line(int rung, std::size_t come_max, const Halving& rules) const {
    const std::vector<const Trial*> there = ended_at(rung, rules);
    const std::size_t places = come_max / static_cast<std::size_t>(rules.settings().eta);
    const auto finalists = static_cast<std::size_t>(rules.settings().finalists);
    std::vector<const Trial*> waiting;
    std::size_t certain = 0, uncertain = 0;  // of the better ones: trained to the end; may fail yet
    for (std::size_t i = 0; i < there.size() && result_at(*there[i], rung)->end == RungEnd::done; ++i) {
      const bool by_failures = certain + (uncertain > finalists ? uncertain - finalists : 0) < finalists;
      if (i >= places && !by_failures) break;
      if (failed(*there[i])) continue;
      ++(whole(*there[i], rules) ? certain : uncertain);
      if (!result_at(*there[i], rung + 1)) waiting.push_back(there[i]);
    }
    return waiting;
  }
};

Halving::Halving(HyperSearchSettings settings, std::int64_t batch)
    : settings_(std::move(settings)), batch_(batch), steps_(rung_steps(settings_)) {
  // No search has more trials than its space has configurations.
  if (const auto size = SearchSpace(settings_.space).size(); size && *size < settings_.trials)
    settings_.trials = static_cast<int>(*size);
  settings_.brackets = std::clamp(settings_.brackets, 1, std::max(1, settings_.trials));
}

double Halving::batch_factor(const Value& configuration) const {
  const auto own = configuration.get_number(batch_setting, 0);
  return batch_ > 0 && own > 0 ? own / static_cast<double>(batch_) : 1;
}

std::int64_t Halving::steps(int rung, const Value& configuration) const {
  const double own = static_cast<double>(steps(rung)) / batch_factor(configuration);
  return std::max<std::int64_t>(rung + 1, std::llround(own));  // every rung trains something
}

TrialStart Halving::start_of(const Trial& trial, int rung, std::string why) const {
  return {
      trial.name,    trial.settings, rung, rung > 0 ? steps(rung - 1, trial.settings) : 0, steps(rung, trial.settings),
      std::move(why)};
}

std::optional<TrialStart> Halving::new_trial(const Pool& pool, const std::vector<Trial>& history) const {
  for (int index = pool.first; index < pool.last; ++index) {
    if (std::ranges::find(history, trial_name(index), &Trial::name) != history.end()) continue;
    const auto proposal = propose(settings_, history, index);
    if (!proposal) return std::nullopt;
    return start_of({trial_name(index), proposal->settings, {}}, 0, proposal->why);
  }
  return std::nullopt;
}

std::optional<TrialStart> Halving::promotion(const Pool& pool) const {
  for (int rung = rungs() - 1; rung-- > 0;)
    if (const auto best = pool.promotable(rung, pool.drained(rung, *this), *this); !best.empty()) {
      const auto ended = std::ranges::count_if(pool.trials, [&](const Trial* t) { return pool.ended(*t, rung); });
      return start_of(*best.front(), rung + 1, format("among the best of {} of rung {}", ended, rung));
    }
  return std::nullopt;
}

std::optional<TrialStart> Halving::next_start(const Pool& pool, const std::vector<Trial>& history) const {
  // What was lost has been paid for already.
  for (int rung = rungs(); rung-- > 0;)
    for (const Trial* trial : pool.trials)
      if (pool.waits(*trial, rung)) {
        const bool lost = result_at(*trial, rung) != nullptr;
        return start_of(*trial, rung, lost ? format("lost {} times", losses_of(*trial)) : "its result was set aside");
      }
  const bool new_first = settings_.proposals == "spread";
  if (new_first)
    if (auto start = new_trial(pool, history)) return start;
  if (auto start = promotion(pool)) return start;
  return new_first ? std::nullopt : new_trial(pool, history);
}

// Every start is put into a copy of the history, so that the next one knows of it.
Decision Halving::decide_pool(const Pool& pool, const std::vector<Trial>& history, int slots) const {
  Decision decision;
  std::vector<Trial> known = history;
  Pool now = pool;
  now.fill(known);
  while (static_cast<int>(decision.starts.size()) < slots) {
    auto start = next_start(now, known);
    if (!start) break;
    const auto trial = std::ranges::find(known, start->trial, &Trial::name);
    const RungResult running{start->rung, RungEnd::running, 0, 0};
    if (trial != known.end())
      trial->results.push_back(running);
    else
      known.insert(std::ranges::lower_bound(known, start->trial, {}, &Trial::name),
                   {start->trial, start->settings, {running}});
    decision.starts.push_back(std::move(*start));
    now.fill(known);
  }
  const bool runs = std::ranges::any_of(
      known, [](const Trial& t) { return !t.results.empty() && t.results.back().end == RungEnd::running; });
  decision.finished = !runs && slots > 0;
  decision.why = summary(now, known);
  return decision;
}

std::string Halving::summary(const Pool& pool, const std::vector<Trial>& history) const {
  std::map<std::string, int> ends;
  for (const Trial* trial : pool.trials)
    if (!trial->results.empty()) ++ends[to_string(trial->results.back().end)];
  std::vector<std::string> parts;
  for (const auto& [end, count] : ends) parts.push_back(format("{} {}", count, end));
  std::string text = format("{} of {} trials", pool.trials.size(), pool.last - pool.first);
  if (!parts.empty()) text += ": " + join(parts, ", ");
  if (!ends.contains("running") && !history.empty() && !best(history))
    text += "; none has a " + settings_.metric + ": narrow the space, or look at the first trial's log";
  return text;
}

Halving::Pool Halving::pool_of(int bracket, const std::vector<Trial>& history) const {
  Pool pool;
  pool.losses_max = settings_.losses_max;
  pool.whole_rungs = settings_.method == "rounds";
  pool.first = settings_.trials * bracket / brackets();
  pool.last = settings_.trials * (bracket + 1) / brackets();
  pool.fill(history);
  return pool;
}

Decision Halving::decide(const std::vector<Trial>& history, int slots) const {
  if (settings_.method != "rounds") return decide_pool(pool_of(0, history), history, slots);
  Decision decision;
  for (int bracket = 0; bracket < brackets(); ++bracket) {
    decision = decide_pool(pool_of(bracket, history), history, slots > 0 ? settings_.trials : 0);
    if (!decision.finished) break;
  }
  return decision;
}

// From the first rung up: who may go on from one may come to all above it. That counts too many where several rungs lie
// between, and so keeps rather too much.
std::set<std::string> Halving::left_behind(const std::vector<Trial>& history) const {
  std::set<std::string> left;
  for (int bracket = 0; bracket < brackets(); ++bracket) {
    const Pool pool = pool_of(bracket, history);
    std::set<const Trial*> going_on;  // it trains, will again, or may
    for (const Trial* trial : pool.trials)
      if (trial->results.empty() || (trial->results.back().end != RungEnd::done && !pool.failed(*trial)))
        going_on.insert(trial);
    const std::size_t not_begun = static_cast<std::size_t>(pool.last - pool.first) - pool.trials.size();
    for (int rung = 0; rung + 1 < rungs(); ++rung) {
      const auto come_max = std::ranges::count_if(pool.trials, [&](const Trial* trial) {
        return result_at(*trial, rung) != nullptr || going_on.contains(trial);
      });
      for (const Trial* trial : pool.in_line(rung, not_begun + static_cast<std::size_t>(come_max), *this))
        going_on.insert(trial);
    }
    for (const Trial* trial : pool.trials)
      if (!going_on.contains(trial)) left.insert(trial->name);
  }
  return left;
}

SearchCost Halving::cost(const std::vector<Trial>& history) const {
  SearchCost cost;
  for (const Trial& trial : history)
    for (const RungResult& r : trial.results) cost.steps += static_cast<double>(r.steps) * batch_factor(trial.settings);
  cost.grid_steps = static_cast<double>(settings_.trials) * static_cast<double>(settings_.max_steps);
  return cost;
}

SearchCost Halving::planned_cost() const {
  SearchCost cost;
  cost.grid_steps = static_cast<double>(settings_.trials) * static_cast<double>(settings_.max_steps);
  for (int bracket = 0; bracket < settings_.brackets; ++bracket) {
    int there = settings_.trials * (bracket + 1) / settings_.brackets - settings_.trials * bracket / settings_.brackets;
    for (int rung = 0; rung < rungs(); ++rung) {
      cost.steps += static_cast<double>(there) * static_cast<double>(steps(rung) - (rung > 0 ? steps(rung - 1) : 0));
      there = std::min(there, std::max(settings_.finalists, there / settings_.eta));
    }
  }
  return cost;
}

std::optional<BestTrial> Halving::best(const std::vector<Trial>& history) const {
  std::optional<BestTrial> best;
  const double sign = settings_.mode == "max" ? -1 : 1;
  for (const Trial& trial : history)
    for (const RungResult& r : trial.results) {
      if (r.end != RungEnd::done) continue;
      const auto rank = [&](int rung, double metric, const std::string& name) {
        return std::tuple(-rung, sign * metric, name);
      };
      if (!best || rank(r.rung, r.metric, trial.name) < rank(best->rung, best->metric, best->trial))
        best = {trial.name, trial.settings, r.metric, r.rung, r.rung + 1 == rungs()};
    }
  return best;
}

Status check_prefixes(const OptimizerSettings& optimizer, std::int64_t first_rung_steps) {
  const std::string& schedule = optimizer.lr_schedule;
  if (schedule != "constant" && schedule != "inverse_sqrt")
    return make_error(
        ErrorCode::invalid_input,
        format(
            "optimizer.lr_schedule = \"{}\" depends on the number of steps: rungs of different lengths are trained by "
            "different rates, and a trial that goes on has decayed too early",
            schedule),
        "search with lr_schedule = \"constant\" and keep the schedule for the final training");
  if (2 * optimizer.warmup_steps > first_rung_steps)
    return make_error(
        ErrorCode::invalid_input,
        format(
            "optimizer.warmup_steps = {} is more than half of the first rung's {} steps: it would warm up faster than "
            "the rungs above it",
            optimizer.warmup_steps, first_rung_steps),
        format("set min_steps = {} or shorten the warm-up", 2 * optimizer.warmup_steps));
  return {};
}

}  // namespace longhaul::hyper
