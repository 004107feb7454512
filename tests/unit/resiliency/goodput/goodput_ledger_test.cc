// The accounting of time: a run given second by second, then sums over random facts.
#include "resiliency/goodput/goodput_ledger.h"

#include <doctest/doctest.h>

#include <random>

#include "base/text/text.h"
#include "contracts/events/fault_event.h"
#include "contracts/events/roll_back_event.h"
#include "resiliency/goodput/goodput_events.h"
#include "tests/support/seed.h"

namespace longhaul {
namespace {

using Kind = GoodputFact::Kind;

GoodputFact at(double second, Kind kind, std::int64_t step = -1, double part_s = 0) {
  GoodputFact fact;
  fact.at_ms = static_cast<std::int64_t>(second * 1000);
  fact.kind = kind;
  fact.step = step;
  fact.part_ms = static_cast<std::int64_t>(part_s * 1000);
  return fact;
}

// "training 10.0 s, start 2.0 s": classes that are not 0.
std::string breakdown(const GoodputLedger& ledger) {
  std::vector<std::string> parts;
  for (int time = 0; time < time_classes; ++time)
    if (const auto ms = ledger.ms(static_cast<TimeClass>(time)); ms != 0)
      parts.push_back(format("{} {:g}", to_string(static_cast<TimeClass>(time)), static_cast<double>(ms) / 1e3));
  return join(parts, ", ");
}

GoodputLedger fold_facts(const std::vector<GoodputFact>& facts, double end_s, std::int64_t begin_ms = 0) {
  GoodputLedger ledger(begin_ms);
  for (const GoodputFact& fact : facts) ledger.add(fact);
  ledger.advance_to(static_cast<std::int64_t>(end_s * 1000));
  return ledger;
}

std::int64_t sum_of_classes(const GoodputLedger& ledger) {
  std::int64_t sum = 0;
  for (int time = 0; time < time_classes; ++time) sum += ledger.ms(static_cast<TimeClass>(time));
  return sum;
}

}  // namespace

TEST_CASE("a run without faults") {
  const auto ledger =
      fold_facts({at(5, Kind::submitted), at(65, Kind::job_started), at(66, Kind::launched), at(80, Kind::ready, 0, 4),
                  at(90, Kind::step, 1), at(100, Kind::step, 2), at(103, Kind::stalled, 2, 2), at(112, Kind::step, 3),
                  at(113, Kind::ranks_ended), at(115, Kind::job_ended)},
                 120);
  CHECK(breakdown(ledger) == "training 31, checkpoint_stall 2, stop 2, start 11, load 4, queue 60, idle 10");
  CHECK(ledger.effective() == doctest::Approx(31 / 120.0));
  CHECK(ledger.faults() == 0);
  CHECK(ledger.trained());
}

TEST_CASE("ranks that save, end and start with more of them cost stop, start and load, and no step") {
  const auto ledger =
      fold_facts({at(0, Kind::job_started), at(0, Kind::launched), at(10, Kind::ready, 0, 2), at(20, Kind::step, 1),
                  at(30, Kind::step, 2), at(33, Kind::stalled, 2, 3), at(34, Kind::stopped, 2),
                  at(36, Kind::ranks_ended), at(37, Kind::launched), at(45, Kind::ready, 2, 3), at(55, Kind::step, 3)},
                 55);
  CHECK(breakdown(ledger) == "training 31, checkpoint_stall 3, stop 3, start 13, load 5");
  CHECK(ledger.lost_steps() == 0);
  CHECK(ledger.faults() == 0);
}

TEST_CASE("a fault costs detection, stop, start, load, and the steps that are done again") {
  GoodputFact fault = at(147, Kind::fault, 4, 2);
  fault.fault = "killed";
  fault.tier = "in_job";
  const auto ledger = fold_facts(
      {at(0, Kind::job_started), at(0, Kind::launched), at(100, Kind::ready, 0), at(110, Kind::step, 1),
       at(120, Kind::step, 2), at(130, Kind::step, 3), at(140, Kind::step, 4), fault, at(150, Kind::ranks_ended),
       at(151, Kind::launched), at(170, Kind::ready, 1, 5), at(200, Kind::step, 4), at(210, Kind::step, 5)},
      210);
  // 140 to 145 is the step that was cut short.
  CHECK(breakdown(ledger) == "training 55, detect 2, stop 3, start 115, load 5, recompute 30");
  CHECK(ledger.lost_steps() == 3);
  REQUIRE(ledger.costs().size() == 1);
  const FaultCost& cost = ledger.costs()[0];
  CHECK(cost.fault == "killed");
  CHECK(cost.tier == "in_job");
  CHECK(cost.at_ms == 145'000);
  CHECK(cost.step == 4);
  CHECK(cost.lost_steps == 3);
  CHECK(cost.total_ms() == 55'000);  // 2 + 3 + 15 + 5 + 30
}

TEST_CASE("a stretch with steps old and new is divided by their share") {
  const auto ledger =
      fold_facts({at(0, Kind::launched), at(0, Kind::ready, 0), at(100, Kind::step, 10), at(100, Kind::fault, 10),
                  at(100, Kind::launched), at(100, Kind::ready, 5), at(200, Kind::step, 15)},
                 200);
  CHECK(breakdown(ledger) == "training 150, recompute 50");
}

TEST_CASE("a fault in the middle of a step that is done again costs what that step had taken") {
  const auto ledger =
      fold_facts({at(0, Kind::launched), at(0, Kind::ready, 0), at(100, Kind::step, 10), at(100, Kind::fault, 10),
                  at(100, Kind::launched), at(100, Kind::ready, 5), at(110, Kind::step, 6), at(115, Kind::fault, 6)},
                 115);
  CHECK(breakdown(ledger) == "training 100, recompute 15");
}

TEST_CASE("a second fault while the first is being made up for loses only what it undid") {
  const auto ledger =
      fold_facts({at(0, Kind::launched), at(0, Kind::ready, 0), at(100, Kind::step, 10), at(100, Kind::fault, 10),
                  at(110, Kind::launched), at(120, Kind::ready, 5), at(150, Kind::step, 8), at(150, Kind::fault, 8),
                  at(160, Kind::launched), at(170, Kind::ready, 5), at(220, Kind::step, 10), at(230, Kind::step, 11)},
                 230);
  CHECK(ledger.lost_steps() == 8);
  REQUIRE(ledger.costs().size() == 2);
  CHECK(ledger.costs()[0].lost_steps == 5);
  CHECK(ledger.costs()[1].lost_steps == 3);
  CHECK(breakdown(ledger) == "training 110, stop 20, start 20, recompute 80");
}

TEST_CASE(
    "a fault that leaves the processes alive needs no new launch, and a roll-back in the engine is recomputation") {
  GoodputFact fault = at(105, Kind::fault, 10, 1);
  fault.processes_stay = true;
  CHECK(breakdown(fold_facts({at(0, Kind::launched), at(0, Kind::ready, 0), at(100, Kind::step, 10), fault,
                              at(108, Kind::ready, 9, 1), at(118, Kind::step, 10)},
                             118)) == "training 104, detect 1, start 2, load 1, recompute 10");
  CHECK(breakdown(fold_facts({at(0, Kind::launched), at(0, Kind::ready, 0), at(100, Kind::step, 10),
                              at(103, Kind::ready, 8, 2), at(123, Kind::step, 10)},
                             123)) == "training 101, load 2, recompute 20");
}

TEST_CASE("a step that was left out is a fault that interrupts nothing and costs only itself") {
  const auto skip = [](std::int64_t s, std::int64_t step) {
    GoodputFact fact = at(s, Kind::fault, step);
    fact.goes_on = fact.processes_stay = true;
    fact.fault = "loss_spike", fact.tier = "skip";
    return fact;
  };
  const auto ledger = fold_facts(
      {at(0, Kind::launched), at(0, Kind::ready, 0), at(10, Kind::step, 1), skip(21, 2), at(30, Kind::step, 3)}, 40);
  CHECK(breakdown(ledger) == "training 40");
  CHECK(ledger.faults() == 1);
  CHECK(ledger.lost_steps() == 0);
  REQUIRE(ledger.costs().size() == 1);
  CHECK(ledger.costs()[0].fault == "loss_spike");
  CHECK(ledger.costs()[0].tier == "skip");
  CHECK(ledger.costs()[0].step == 2);
  CHECK(ledger.costs()[0].total_ms() == 0);
  // While an earlier fault is made up for, that one goes on being paid for.
  const auto both = fold_facts({at(0, Kind::launched), at(0, Kind::ready, 0), at(100, Kind::step, 10),
                                at(100, Kind::fault, 10), at(110, Kind::launched), at(120, Kind::ready, 5),
                                at(140, Kind::step, 7), skip(141, 8), at(180, Kind::step, 10), at(190, Kind::step, 11)},
                               190);
  CHECK(breakdown(both) == "training 110, stop 10, start 10, recompute 60");
  REQUIRE(both.costs().size() == 2);
  CHECK(both.costs()[0].total_ms() == 0);
  CHECK(both.costs()[1].total_ms() == 80'000);
  CHECK(both.costs()[1].lost_steps == 5);
}

TEST_CASE(
    "a roll-back costs its load and what is done again up to the step that it came from; the lead's event adds "
    "nothing") {
  const auto event = [](std::int64_t s, const char* kind, std::initializer_list<std::pair<const char*, Value>> fields) {
    Event one{s * 1000, kind, 0, Value::make_table()};
    for (const auto& [name, value] : fields) one.fields.set(name, value);
    return one;
  };
  const auto step = [&](std::int64_t s, int number) { return event(s, "metric", {{"step", number}, {"loss", 2.0}}); };
  Event back = event(67, rolled_back_event_kind, {{"loss", "nan"}});
  set_fields(back.fields, {7, 4, 2, 12, 7, 4});  // noticed at 60: 3 s of waiting for a save, 4 s of loading
  Event fault = event(68, fault_event_kind, {{"tier", "skip"}, {"class", "loss_nan"}, {"step", 7}, {"to_step", 4}});
  const auto ledger = fold_facts(
      facts_of({}, {event(0, "launched", {}), event(0, "ready", {{"step", 0}}), step(50, 6),
                    event(60, "spike", {{"action", "rollback"}}), back, fault, step(77, 5), step(87, 6), step(97, 7)}),
      107);
  CHECK(breakdown(ledger) == "training 80, start 3, load 4, recompute 20");
  CHECK(ledger.faults() == 1);
  CHECK(ledger.lost_steps() == 2);
  REQUIRE(ledger.costs().size() == 1);
  CHECK(ledger.costs()[0].fault == "loss_nan");
  CHECK(ledger.costs()[0].tier == "skip");
  CHECK(ledger.costs()[0].lost_steps == 2);
  CHECK(ledger.costs()[0].total_ms() == 27'000);
}

TEST_CASE("a save that is reported late is taken from the training that follows, and never from anything else") {
  CHECK(breakdown(fold_facts({at(0, Kind::launched), at(0, Kind::ready, 0), at(10, Kind::step, 1),
                              at(10, Kind::stalled, 1, 7), at(15, Kind::step, 2), at(25, Kind::step, 3)},
                             25)) == "training 18, checkpoint_stall 7");
  CHECK(breakdown(fold_facts({at(0, Kind::launched), at(0, Kind::ready, 0), at(10, Kind::step, 1),
                              at(10, Kind::stalled, 1, 700), at(15, Kind::step, 2), at(15, Kind::ranks_ended)},
                             25)) == "training 10, checkpoint_stall 5, stop 10");
}

TEST_CASE("the next job may be in the queue before this one has ended") {
  CHECK(breakdown(fold_facts({at(0, Kind::submitted), at(1, Kind::job_started), at(2, Kind::ready, 0),
                              at(10, Kind::submitted), at(20, Kind::step, 2), at(20, Kind::ranks_ended),
                              at(21, Kind::job_ended), at(30, Kind::job_started), at(31, Kind::ready, 2)},
                             40)) == "training 27, stop 1, start 2, queue 10");
}

TEST_CASE("a program that never says that it is ready trains from its first step on") {
  CHECK(breakdown(fold_facts({at(0, Kind::launched), at(30, Kind::step, 1), at(40, Kind::step, 2)}, 40)) ==
        "training 10, start 30");
  CHECK(!fold_facts({at(0, Kind::launched), at(30, Kind::ranks_ended)}, 40).trained());
}

TEST_CASE("the classes add up to the run's length, whatever the facts are") {
  const std::uint64_t first_seed = testing::seed(11);
  for (std::uint64_t seed = first_seed; seed < first_seed + 3000; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
    const std::int64_t begin_ms = 1'700'000'000'000 + below(1000);
    std::int64_t now_ms = begin_ms;
    GoodputLedger ledger(begin_ms, below(2) == 0);
    for (std::int64_t facts = below(60); facts > 0; --facts) {
      now_ms += below(5) == 0 ? 0 : below(20'000);
      GoodputFact fact;
      fact.at_ms = below(10) == 0 ? now_ms - below(50'000) : now_ms;  // clocks of two programs may disagree
      fact.kind = static_cast<Kind>(below(9));
      fact.step = below(6) == 0 ? -1 : below(50);
      fact.part_ms = below(4) == 0 ? below(100'000) : below(3000) - 500;
      fact.processes_stay = below(2) == 0;
      ledger.add(fact);
      const std::int64_t sum = sum_of_classes(ledger);
      CHECK(sum == ledger.total_ms());
    }
    ledger.advance_to(now_ms + 777);
    CHECK(sum_of_classes(ledger) == ledger.total_ms());
    CHECK(ledger.total_ms() == now_ms + 777 - begin_ms);
    for (int time = 0; time < time_classes; ++time) CHECK(ledger.ms(static_cast<TimeClass>(time)) >= 0);
    std::int64_t costs_ms = 0;
    for (const FaultCost& cost : ledger.costs()) {
      costs_ms += cost.total_ms();
      CHECK(cost.lost_steps >= 0);
    }
    CHECK(costs_ms <= ledger.total_ms());
  }
}

TEST_CASE("an attempt's events become facts") {
  std::vector<Event> events;
  const auto write_event = [&](double second, const char* kind, const std::string& fields) {
    const auto event = parse_event(format("{{\"ms\":{},\"kind\":\"{}\",\"rank\":0{}}}", second * 1000, kind, fields));
    REQUIRE(event.ok());
    events.push_back(*event);
  };
  write_event(12, "launched", ",\"launch\":1");
  write_event(20, "ready", ",\"step\":0,\"load_s\":3.5");
  write_event(21, "message", ",\"level\":\"info\",\"text\":\"hello\"");
  write_event(30, "metric", ",\"step\":1,\"loss\":2.5");
  write_event(31, "checkpoint", ",\"step\":1,\"stall_s\":1.5");
  write_event(40, "metric", ",\"step\":2,\"loss\":2.4");
  write_event(45, "fault", ",\"launch\":1,\"class\":\"killed\",\"tier\":\"in_job\",\"step\":2,\"detect_s\":0.5");
  write_event(46, "ranks_ended", ",\"launch\":1,\"status\":\"signal 9\"");
  write_event(46.5, "launched", ",\"launch\":2");
  write_event(50, "ready", ",\"step\":1,\"load_s\":1");
  write_event(59, "metric", ",\"step\":2,\"loss\":2.4");
  write_event(60, "recovered", ",\"launch\":2,\"total_s\":14");
  write_event(69, "metric", ",\"step\":3,\"loss\":2.3");
  write_event(70, "ranks_ended", ",\"launch\":2,\"status\":\"exit code 0\"");
  GoodputLedger ledger(1000);
  for (const GoodputFact& fact : facts_of({2000, 11'000, 72'000}, events)) ledger.add(fact);
  ledger.advance_to(75'000);
  // Training: 10 + (10 - 1.5) + 4.5 of a step that was cut short, then 10 + 1; start: 1 + 4.5, then 0.5 + 2.5.
  CHECK(breakdown(ledger) ==
        "training 34, checkpoint_stall 1.5, detect 0.5, stop 3, start 8.5, load 4.5, recompute 9, queue 9, idle 4");
  REQUIRE(ledger.costs().size() == 1);
  CHECK(ledger.costs()[0].fault == "killed");
  CHECK(ledger.costs()[0].lost_steps == 1);
}

}  // namespace longhaul
