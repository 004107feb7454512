// Successive halving: rungs and promotions against small cases worked out by hand, then properties of random searches.
#include "autotune/hyper/halving.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/value/json.h"
#include "tests/support/sanitized.h"
#include "tests/support/seed.h"
#include "tests/unit/autotune/hyper/toy_search.h"

namespace longhaul::hyper {
namespace {

HyperSearchSettings search(const char* method, int trials, int eta, std::int64_t min_steps, std::int64_t max_steps) {
  HyperSearchSettings s;
  s.method = method, s.trials = trials, s.eta = eta, s.min_steps = min_steps, s.max_steps = max_steps;
  s.finalists = 1;
  s.space = {toy::range("x", 0, 1)};
  return s;
}

Trial trial(int index, std::vector<RungResult> results) {
  return {trial_name(index), Value(ValueTable{{"x", 0.01 * index, {}}}), std::move(results)};
}

RungResult done(int rung, double metric) {
  return {rung, RungEnd::done, metric, 1};
}

std::vector<std::string> names_of(const Decision& decision) {
  std::vector<std::string> names;
  for (const TrialStart& start : decision.starts) names.push_back(start.trial);
  return names;
}

using Names = std::vector<std::string>;
using Set = std::set<std::string>;

}  // namespace

TEST_CASE("rungs are each an eta-th of the next, the last one is a whole training") {
  const auto steps_of = [](std::int64_t min_steps, std::int64_t max_steps, int eta) {
    const Halving h(search("asha", 4, eta, min_steps, max_steps));
    std::vector<std::int64_t> steps;
    for (int rung = 0; rung < h.rungs(); ++rung) steps.push_back(h.steps(rung));
    return steps;
  };
  CHECK(steps_of(1, 9, 3) == std::vector<std::int64_t>{1, 3, 9});
  CHECK(steps_of(100, 1600, 4) == std::vector<std::int64_t>{100, 400, 1600});
  CHECK(steps_of(101, 1600, 4) == std::vector<std::int64_t>{400, 1600});
  CHECK(steps_of(0, 1000, 4) == std::vector<std::int64_t>{63, 250, 1000});  // a sixteenth, at least
  CHECK(steps_of(5, 5, 2) == std::vector<std::int64_t>{5});
  CHECK(steps_of(1, 1, 2) == std::vector<std::int64_t>{1});
  CHECK(steps_of(1, 1'000'000'000'000, 2).size() == 41);
}

TEST_CASE("rounds: nine, three, one, each an array of its own that goes on from the one before") {
  const Halving h(search("rounds", 9, 3, 1, 9));
  std::vector<std::pair<std::size_t, int>> arrays;  // size and rung
  const auto history =
      toy::carry_out(h, 4, 1, toy::by_loss([](const Value& c, std::int64_t) { return c.get_number("x"); }),
                     [&](const std::vector<Trial>&, const Decision& d) {
                       if (d.starts.empty()) return;
                       arrays.emplace_back(d.starts.size(), d.starts[0].rung);
                       for (const TrialStart& s : d.starts) {
                         CHECK(s.rung == d.starts[0].rung);
                         CHECK(s.from_step == (s.rung == 0 ? 0 : h.steps(s.rung - 1)));
                         CHECK(s.to_step == h.steps(s.rung));
                       }
                     });
  CHECK(arrays == std::vector<std::pair<std::size_t, int>>{{9, 0}, {3, 1}, {1, 2}});
  // 9 * 1 + 3 * 2 + 1 * 6 of 9 * 9.
  CHECK(h.cost(history).steps == 21);
  CHECK(h.planned_cost().steps == 21);
  CHECK(h.cost(history).grid_steps == 81);
  const auto best = h.best(history);
  REQUIRE(best.has_value());
  CHECK(best->whole);
  double least = 1;
  for (const Trial& t : history) least = std::min(least, t.settings.get_number("x"));
  CHECK(best->metric == least);
}

TEST_CASE("asha promotes as soon as a trial is among the best of a full group, topmost rung first") {
  HyperSearchSettings s = search("asha", 100, 3, 1, 9);
  s.proposals = "tpe";
  const Halving h(s);
  // Two of three: nobody can be sure yet.
  std::vector<Trial> history = {trial(0, {done(0, 5)}), trial(1, {done(0, 4)})};
  CHECK(names_of(h.decide(history, 1)) == Names{"t0002"});
  history.push_back(trial(2, {done(0, 6)}));
  auto d = h.decide(history, 2);
  REQUIRE(names_of(d) == Names{"t0001", "t0003"});
  CHECK(d.starts[0].rung == 1);
  CHECK(d.starts[0].from_step == 1);
  CHECK(d.starts[0].to_step == 3);
  CHECK(d.starts[1].rung == 0);
  // A better one that comes later takes the place of the next group only.
  history = {trial(0, {done(0, 5)}), trial(1, {done(0, 4), {1, RungEnd::running, 0, 0}}), trial(2, {done(0, 6)}),
             trial(3, {done(0, 1)})};
  CHECK(names_of(h.decide(history, 1)) == Names{"t0003"});
  // Rung 1 has three: its best comes before those of rung 0.
  history = {trial(0, {done(0, 1), done(1, 3)}), trial(1, {done(0, 2), done(1, 2)}),
             trial(2, {done(0, 3), done(1, 9)})};
  for (int i = 3; i < 12; ++i) history.push_back(trial(i, {done(0, 4 + i)}));
  d = h.decide(history, 2);
  REQUIRE(names_of(d) == Names{"t0001", "t0003"});
  CHECK(d.starts[0].rung == 2);
  CHECK(d.starts[1].rung == 1);
}

TEST_CASE("what no result can change begins before anything goes on") {
  const Halving h(search("asha", 4, 3, 1, 9));
  const std::vector<Trial> history = {trial(0, {done(0, 5)}), trial(1, {done(0, 4)}), trial(2, {done(0, 6)})};
  const auto d = h.decide(history, 2);
  REQUIRE(names_of(d) == Names{"t0003", "t0001"});
  CHECK(d.starts[0].rung == 0);
  CHECK(d.starts[1].rung == 1);
}

TEST_CASE("so many finalists train to the end, and no more than there are") {
  for (const char* method : {"asha", "rounds"})
    for (const int finalists : {1, 2, 3, 9}) {
      CAPTURE(method);
      CAPTURE(finalists);
      HyperSearchSettings s = search(method, 8, 4, 10, 160);
      s.finalists = finalists;
      const Halving h(s);
      const auto history =
          toy::carry_out(h, 8, 1, toy::by_loss([](const Value& c, std::int64_t) { return c.get_number("x"); }));
      int whole = 0;
      for (const Trial& t : history) whole += t.results.back().rung == 2;
      CHECK(whole == std::min(finalists, 8));
      CHECK(h.cost(history).steps == h.planned_cost().steps);
    }
}

TEST_CASE("ties are broken by name, and a large metric is good where the mode says so") {
  HyperSearchSettings s = search("rounds", 4, 2, 5, 10);
  const std::vector<Trial> history = {trial(0, {done(0, 2)}), trial(1, {done(0, 1)}), trial(2, {done(0, 1)}),
                                      trial(3, {done(0, 1)})};
  CHECK(names_of(Halving(s).decide(history, 9)) == Names{"t0001", "t0002"});
  s.mode = "max";
  CHECK(names_of(Halving(s).decide(history, 9)) == Names{"t0000", "t0001"});
}

TEST_CASE("what diverged is the worst, what failed has had its turn, neither goes on") {
  const Halving h(search("rounds", 6, 2, 5, 10));
  std::vector<Trial> history = {
      trial(0, {{0, RungEnd::diverged, 0, 3}}), trial(1, {{0, RungEnd::out_of_memory, 0, 0}}), trial(2, {done(0, 8)}),
      trial(3, {{0, RungEnd::crashed, 0, 1}}),  trial(4, {{0, RungEnd::hung, 0, 2}}),          trial(5, {done(0, 7)})};
  CHECK(names_of(h.decide(history, 9)) == Names{"t0005", "t0002"});
  history[3].results[0].end = RungEnd::stopped;  // by a person: the same
  CHECK(names_of(h.decide(history, 9)) == Names{"t0005", "t0002"});
  // All of them: it ends, and says how.
  for (Trial& t : history) t.results = {{0, RungEnd::diverged, 0, 3}};
  const Decision d = h.decide(history, 9);
  CHECK(d.starts.empty());
  CHECK(d.finished);
  CHECK(d.why.find("6 diverged") != std::string::npos);
  CHECK(d.why.find("none has a heldout_loss") != std::string::npos);
  CHECK(!h.best(history));
}

TEST_CASE("in the place of a finalist that fails on the way the next best goes on") {
  for (const char* method : {"asha", "rounds"}) {
    CAPTURE(method);
    const Halving h(search(method, 5, 5, 4, 100));
    std::vector<Trial> history;
    for (int i = 0; i < 5; ++i) history.push_back(trial(i, {done(0, 5 - i)}));
    CHECK(names_of(h.decide(history, 9)) == Names{"t0004"});
    history[4].results.push_back({1, RungEnd::crashed, 0, 0});
    CHECK(names_of(h.decide(history, 9)) == Names{"t0003"});
    // Also from further up.
    history[3].results.push_back(done(1, 3));
    CHECK(names_of(h.decide(history, 9)) == Names{"t0003"});
    history[3].results.push_back({2, RungEnd::diverged, 0, 0});
    const auto d = h.decide(history, 9);
    REQUIRE(names_of(d) == Names{"t0002"});
    CHECK(d.starts[0].rung == 1);
  }
}

TEST_CASE("a lost trial is started again at its rung, until it was lost too often") {
  HyperSearchSettings s = search("asha", 2, 2, 5, 10);
  s.losses_max = 2;
  const Halving h(s);
  std::vector<Trial> history = {trial(0, {done(0, 1), {1, RungEnd::lost, 0, 3}}), trial(1, {done(0, 2)})};
  auto d = h.decide(history, 1);
  REQUIRE(names_of(d) == Names{"t0000"});
  CHECK(d.starts[0].rung == 1);
  CHECK(!d.finished);
  history[0].results.push_back({1, RungEnd::lost, 0, 3});
  CHECK(names_of(h.decide(history, 9)) == Names{"t0001"});
  CHECK(h.cost(history).steps == 8);  // what was lost was paid
}

TEST_CASE("a result that was set aside is made again, in either method") {
  for (const char* method : {"asha", "rounds"}) {
    CAPTURE(method);
    const Halving h(search(method, 2, 2, 5, 10));
    const std::vector<Trial> history = {trial(0, {}), trial(1, {done(0, 2)})};
    const auto d = h.decide(history, 1);
    REQUIRE(names_of(d) == Names{"t0000"});
    CHECK(d.starts[0].rung == 0);
    CHECK(d.starts[0].settings == history[0].settings);
  }
}

TEST_CASE("rounds: who can have no place in the next rung is left behind, but for one in reserve for each finalist") {
  const Halving h(search("rounds", 8, 4, 10, 160));  // two places in rung 1, one finalist
  const RungResult running0{0, RungEnd::running, 0, 0};
  std::vector<Trial> history;
  for (int i = 0; i < 3; ++i) history.push_back(trial(i, {done(0, 1 + i)}));
  for (int i = 3; i < 8; ++i) history.push_back(trial(i, {running0}));
  CHECK(h.left_behind(history) == Set{"t0002"});  // two are better, whatever becomes of the five
  for (int i = 3; i < 8; ++i) history[static_cast<std::size_t>(i)].results = {done(0, 1 + i)};
  const Set six = {"t0002", "t0003", "t0004", "t0005", "t0006", "t0007"};
  CHECK(h.left_behind(history) == six);
  for (int i = 0; i < 2; ++i) history[static_cast<std::size_t>(i)].results.push_back({1, RungEnd::running, 0, 0});
  CHECK(h.left_behind(history) == six);
  for (int i = 0; i < 2; ++i) history[static_cast<std::size_t>(i)].results.back() = done(1, 1 + i);
  CHECK(names_of(h.decide(history, 9)) == Names{"t0000"});
  CHECK(h.left_behind(history) == six);  // the second is in reserve
  history[0].results.push_back({2, RungEnd::running, 0, 0});
  CHECK(h.left_behind(history) == six);
  history[0].results.back() = done(2, 1);
  CHECK(h.left_behind(history).size() == 8);
}

TEST_CASE("asha: a place may come as long as trials may come to the rung") {
  for (const int finalists : {1, 2}) {
    CAPTURE(finalists);
    HyperSearchSettings s = search("asha", 12, 4, 10, 160);
    s.proposals = "tpe";
    s.finalists = finalists;
    const Halving h(s);
    std::vector<Trial> history;
    for (int i = 0; i < 5; ++i) history.push_back(trial(i, {done(0, 1 + i)}));
    // The first goes on at once; of twelve three will, and with two finalists one more is in reserve.
    CHECK(names_of(h.decide(history, 1)) == Names{"t0000"});
    CHECK(h.left_behind(history) == (finalists == 1 ? Set{"t0003", "t0004"} : Set{"t0004"}));
    // A better one later pushes the third out.
    history.push_back(trial(5, {done(0, 0.5)}));
    CHECK(h.left_behind(history) == (finalists == 1 ? Set{"t0002", "t0003", "t0004"} : Set{"t0003", "t0004"}));
  }
}

TEST_CASE("what failed is left behind at once, what was lost is not, and nobody is for certain") {
  HyperSearchSettings s = search("rounds", 5, 5, 4, 20);
  s.losses_max = 2;
  const Halving h(s);
  std::vector<Trial> history = {trial(0, {{0, RungEnd::diverged, 0, 3}}), trial(1, {{0, RungEnd::hung, 0, 3}}),
                                trial(2, {{0, RungEnd::lost, 0, 3}}), trial(3, {{0, RungEnd::running, 0, 0}}),
                                trial(4, {})};
  CHECK(h.left_behind(history) == Set{"t0000", "t0001"});
  history[2].results.push_back({0, RungEnd::lost, 0, 3});
  CHECK(h.left_behind(history) == Set{"t0000", "t0001", "t0002"});
  // One place, one in reserve; when both have failed the third goes on though it was left behind.
  for (int i = 0; i < 5; ++i) history[static_cast<std::size_t>(i)].results = {done(0, 1 + i)};
  CHECK(h.left_behind(history) == Set{"t0002", "t0003", "t0004"});
  for (int i = 0; i < 2; ++i) history[static_cast<std::size_t>(i)].results.push_back({1, RungEnd::crashed, 0, 0});
  CHECK(names_of(h.decide(history, 9)) == Names{"t0002"});
  CHECK(h.left_behind(history) == Set{"t0000", "t0001", "t0004"});
}

TEST_CASE("with fewer trials than eta the best still trains to the end") {
  for (const char* method : {"asha", "rounds"})
    for (int trials : {1, 2, 3, 5}) {
      CAPTURE(method);
      CAPTURE(trials);
      const Halving h(search(method, trials, 4, 1, 64));
      const auto history =
          toy::carry_out(h, 2, 3, toy::by_loss([](const Value& c, std::int64_t) { return c.get_number("x"); }));
      CHECK(static_cast<int>(history.size()) == trials);
      REQUIRE(h.best(history).has_value());
      CHECK(h.best(history)->whole);
    }
}

TEST_CASE("trials of other batch sizes train as many tokens, and cost as much") {
  HyperSearchSettings s = search("rounds", 3, 3, 30, 90);
  s.space = {toy::list("global_batch_size", {16, 32, 64})};
  const Halving h(s, 32);
  const auto steps = [&](int rung, int batch) {
    return h.steps(rung, Value(ValueTable{{"global_batch_size", batch, {}}}));
  };
  CHECK(steps(0, 32) == 30);
  CHECK(steps(0, 16) == 60);
  CHECK(steps(1, 64) == 45);
  const auto history = toy::carry_out(
      h, 9, 1, toy::by_loss([](const Value& c, std::int64_t) { return c.get_number("global_batch_size"); }));
  CHECK(h.cost(history).steps == doctest::Approx(3 * 30 + 60));
  CHECK(Halving(s).steps(0, Value(ValueTable{{"global_batch_size", 16, {}}})) == 30);
}

TEST_CASE("a space with fewer configurations than trials is tried once and whole") {
  HyperSearchSettings s = search("rounds", 50, 4, 10, 160);
  s.space = {toy::list("a", {1, 2, 3, 4}), toy::list("b", {"x", "y", "z"})};
  const Halving h(s);
  const auto first = h.decide({}, 1);
  CHECK(first.starts.size() == 12);
  std::set<std::string> seen;
  for (const TrialStart& start : first.starts) seen.insert(to_json(start.settings));
  CHECK(seen.size() == 12);
  CHECK(h.cost({}).grid_steps == 12 * 160);
}

TEST_CASE("brackets follow each other, and the trials are distributed over them") {
  HyperSearchSettings s = search("rounds", 10, 2, 5, 10);
  s.brackets = 3;
  std::vector<std::size_t> arrays;
  const auto history =
      toy::carry_out(Halving(s), 100, 1, toy::by_loss([](const Value& c, std::int64_t) { return c.get_number("x"); }),
                     [&](const std::vector<Trial>&, const Decision& d) {
                       if (!d.starts.empty()) arrays.push_back(d.starts.size());
                     });
  CHECK(arrays == std::vector<std::size_t>{3, 1, 3, 1, 4, 2});
  CHECK(history.size() == 10);
}

TEST_CASE("schedules and warm-ups whose prefixes cannot be compared are refused by name") {
  OptimizerSettings o;
  o.lr_schedule = "constant", o.warmup_steps = 20;
  CHECK(check_prefixes(o, 40).ok());
  REQUIRE(!check_prefixes(o, 39).ok());
  CHECK(check_prefixes(o, 39).error().what.find("warmup_steps = 20") != std::string::npos);
  o.lr_schedule = "cosine";
  REQUIRE(!check_prefixes(o, 40).ok());
  CHECK(check_prefixes(o, 40).error().what.find("\"cosine\"") != std::string::npos);
}

namespace {

bool has_failed(const Trial& trial, const HyperSearchSettings& settings) {
  const RungEnd end = trial.results.back().end;
  if (end == RungEnd::lost)
    return std::ranges::count(trial.results, RungEnd::lost, &RungResult::end) >= settings.losses_max;
  return end != RungEnd::done && end != RungEnd::running;
}

// What must hold of every search, whatever happens in it.
void check_search(const HyperSearchSettings& settings, int slots, std::uint64_t seed) {
  const Halving h(settings);
  const toy::Curves curves(seed);
  PhiloxSequence faults(seed, 5);
  const auto train = [&](const TrialStart& start) {
    RungResult result = toy::by_loss(
        [&](const Value& c, std::int64_t step) { return curves.measured(c.get_number("x"), step); })(start);
    const double luck = faults.next_uniform();
    if (luck < 0.05)
      result = {start.rung, RungEnd::lost, 0, result.steps / 2};
    else if (luck < 0.08)
      result = {start.rung, RungEnd::out_of_memory, 0, 0};
    else if (luck < 0.10)
      result = {start.rung, RungEnd::hung, 0, result.steps / 3};
    return result;
  };
  bool finished = false;
  std::map<std::string, std::ptrdiff_t> left;  // behind: since so many trials had failed
  const auto after = [&](const std::vector<Trial>& history, const Decision& d) {
    const std::ptrdiff_t failed =
        std::ranges::count_if(history, [&](const Trial& t) { return has_failed(t, settings); });
    const Set now = h.left_behind(history);
    for (const TrialStart& s : d.starts) {
      CHECK(!now.contains(s.trial));
      const auto found = left.find(s.trial);
      if (found == left.end()) continue;
      CHECK(failed - found->second > settings.finalists);  // otherwise nobody would have needed its checkpoint
      left.erase(found);
    }
    for (const std::string& name : now) left.emplace(name, failed);
    // The history alone is enough: written, read and asked again, it gives the same answer.
    std::vector<std::string> aside;
    const auto text = parse_json(to_json(history_to_value(history)));
    REQUIRE(text.ok());
    const auto again = history_from_value(*text, aside);
    REQUIRE(again.ok());
    CHECK(aside.empty());
    const int room = slots - static_cast<int>(std::ranges::count_if(
                                 history, [](const Trial& t) { return t.results.back().end == RungEnd::running; }));
    const Decision same = Halving(settings).decide(*again, std::max(0, room));
    REQUIRE(names_of(same) == names_of(d));
    for (std::size_t i = 0; i < d.starts.size(); ++i) {
      CHECK(same.starts[i].settings == d.starts[i].settings);
      CHECK(same.starts[i].rung == d.starts[i].rung);
    }
    if (settings.method == "asha") CHECK(static_cast<int>(d.starts.size()) <= std::max(0, room));
    // Who goes on was done one rung below, and no more than one in eta (or one) goes on from a rung at a time.
    for (const TrialStart& s : d.starts) {
      const auto t = std::ranges::find(history, s.trial, &Trial::name);
      if (t == history.end()) continue;
      const RungResult& last = t->results.back();
      CHECK(((last.end == RungEnd::done && s.rung == last.rung + 1) ||
             (last.end == RungEnd::lost && s.rung == last.rung)));
      CHECK(s.from_step == (s.rung == 0 ? 0 : h.steps(s.rung - 1)));
    }
    finished = d.finished;
  };
  const auto history = toy::carry_out(h, slots, seed, train, after);
  CHECK(finished);
  CHECK(static_cast<int>(history.size()) == settings.trials);
  for (const Trial& t : history) {
    std::map<int, int> ends;  // per rung: done at most once, so nothing is paid twice
    for (const RungResult& r : t.results) {
      CHECK(r.end != RungEnd::running);
      if (r.end == RungEnd::done) CHECK(++ends[r.rung] == 1);
    }
    std::int64_t trained = 0;
    for (const RungResult& r : t.results)
      if (r.end == RungEnd::done) trained += r.steps;
    if (t.results.back().end == RungEnd::done) CHECK(trained == h.steps(t.results.back().rung));
  }
  // Whole trainings, unless everything failed on the way.
  const auto is_over = [&](const Trial& t) { return t.results.back().end != RungEnd::done; };
  const bool all_failed = std::ranges::all_of(history, is_over);
  CHECK((h.best(history) && h.best(history)->whole) != all_failed);
}

}  // namespace

TEST_CASE("random searches with faults: resumable from the history, nothing paid twice, always an end") {
  const std::uint64_t seed = testing::seed(20261123);
  CAPTURE(seed);
  PhiloxSequence draws(seed);
  for (int i = 0; i < (testing::sanitized ? 12 : 60); ++i) {
    HyperSearchSettings s =
        search(draws.next_below(2) ? "asha" : "rounds", 1 + static_cast<int>(draws.next_below(40)),
               2 + static_cast<int>(draws.next_below(3)), 1 + static_cast<std::int64_t>(draws.next_below(20)),
               100 + static_cast<std::int64_t>(draws.next_below(400)));
    s.space = {toy::range("x", 1e-5, 1e-1, "log")};
    s.proposals = draws.next_below(2) ? "tpe" : "spread";
    s.brackets = s.method == "rounds" ? 1 + static_cast<int>(draws.next_below(3)) : 1;
    s.finalists = 1 + static_cast<int>(draws.next_below(3));
    s.seed = static_cast<std::int64_t>(draws.next_below(1000));
    const int slots = 1 + static_cast<int>(draws.next_below(8));
    CAPTURE(i);
    CAPTURE(s.method);
    CAPTURE(s.trials);
    CAPTURE(s.eta);
    check_search(s, slots, draws.next_u64());
  }
}

}  // namespace longhaul::hyper
