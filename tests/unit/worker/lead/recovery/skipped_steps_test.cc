// A step that the engine left out is a fault of tier skip, reported once, with what it cost.
#include "worker/lead/recovery/skipped_steps.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {
namespace skipped_steps {

Event fact(std::int64_t ms, const char* kind, std::initializer_list<std::pair<const char*, Value>> fields) {
  Event event{ms, kind, 0, Value::make_table()};
  for (const auto& [name, value] : fields) event.fields.set(name, value);
  return event;
}
Event launched(std::int64_t ms, int launch) {
  return fact(ms, "launched", {{"launch", launch}});
}
Event spike(std::int64_t ms, long long step, const char* action = "skip", Value loss = 9.5) {
  return fact(ms, "spike",
              {{"step", step}, {"loss", loss}, {"action", action}, {"problem", "step 7: loss 9.5 is above 2.5"}});
}
Event rolled_back(std::int64_t ms, long long step, long long to_step, Value loss = 9.5) {
  Event event = fact(ms, rolled_back_event_kind, {{"loss", loss}, {"problem", "step 7: loss 9.5 is above 2.5"}});
  set_fields(event.fields, {step, to_step, step - 1 - to_step, 12, 0.75, 0.5});
  return event;
}
Event metric(std::int64_t ms, long long step) {
  return fact(ms, "metric", {{"step", step}, {"loss", 2.25}});
}
// As the lead writes it, and reads it back.
Event written(std::int64_t ms, const SkippedSteps::Report& reported) {
  const char* kind = reported.fault ? fault_event_kind : recovered_event_kind;
  return *parse_event(event_line({ms, kind, 0, reported.line()}));
}
Value settings(long long budget, long long steps) {
  Value spikes = Value::make_table(), all = Value::make_table();
  spikes.set("budget", budget), spikes.set("budget_steps", steps);
  all.set("on_spike", spikes);
  return all;
}

}  // namespace skipped_steps
}  // namespace

TEST_CASE("skipped steps: one is a fault with class, tier, verdict and breakdown, and costs itself alone") {
  using namespace skipped_steps;
  SkippedSteps steps;
  steps.take({launched(100, 3), metric(1'000, 6), spike(1'200, 7)});
  auto reported = steps.news();
  REQUIRE(reported.size() == 1);
  REQUIRE(reported[0].fault);
  const FaultEvent fault = *reported[0].fault;
  CHECK(fault.launch == 3);
  CHECK(fault.fault_class == "loss_spike");
  CHECK(fault.tier == "skip");
  CHECK(fault.scope == "job");
  CHECK(fault.severity == "warning");
  CHECK(fault.step == 7);
  CHECK(fault.rank == -1);
  CHECK(fault.host.empty());
  CHECK(fault.cause == "step 7: loss 9.5 is above 2.5");
  CHECK(fault.reason == "loss_spike of scope job");
  CHECK(fault.next.find("step 7") != std::string::npos);
  CHECK(steps.news().empty());

  steps.take({written(1'700, reported[0]), metric(1'450, 8)});
  reported = steps.news();
  REQUIRE(reported.size() == 1);
  REQUIRE(reported[0].recovered);
  CHECK(reported[0].recovered->total_s == doctest::Approx(0.25));
  CHECK(reported[0].recovered->first_step_s == doctest::Approx(0.25));
  CHECK(reported[0].recovered->detect_s == 0);
  CHECK(reported[0].recovered->stop_s == 0);
  CHECK(reported[0].recovered->lost_steps == 0);
  steps.take({metric(1'650, 9)});
  CHECK(steps.news().empty());
}

TEST_CASE("skipped steps: a loss that is no number has its class; what the engine did not skip is none") {
  using namespace skipped_steps;
  SkippedSteps steps;
  steps.take({launched(0, 1), spike(10, 7, "skip", Value("nan")), spike(20, 9, "rollback")});
  const auto reported = steps.news();
  REQUIRE(reported.size() == 1);
  CHECK(reported[0].fault->fault_class == "loss_nan");
  CHECK(reported[0].fault->severity == "error");
}

TEST_CASE("skipped steps: a roll-back is a fault of the same tier, with its target, and costs what was done since") {
  using namespace skipped_steps;
  SkippedSteps steps;
  steps.take({launched(100, 3), metric(1'000, 6), spike(1'200, 7, "rollback"), rolled_back(1'950, 7, 4)});
  auto reported = steps.news();
  REQUIRE(reported.size() == 1);
  REQUIRE(reported[0].fault);
  const FaultEvent fault = *reported[0].fault;
  CHECK(fault.launch == 3);
  CHECK(fault.fault_class == "loss_spike");
  CHECK(fault.tier == "skip");
  CHECK(fault.step == 7);
  CHECK(fault.reason == "loss_spike of scope job");
  CHECK(fault.cause == "step 7: loss 9.5 is above 2.5");
  CHECK(fault.next == "back to step 4, 2 steps are done again; 12 samples are left out");
  CHECK(reported[0].to_step == 4);
  CHECK(is_roll_back(written(1'960, reported[0]).fields));
  CHECK_FALSE(is_roll_back(to_value(fault)));

  steps.take({written(1'960, reported[0]), metric(2'200, 5)});
  reported = steps.news();
  REQUIRE(reported.size() == 1);
  REQUIRE(reported[0].recovered);
  CHECK(reported[0].recovered->total_s == doctest::Approx(1.0));
  CHECK(reported[0].recovered->start_s == doctest::Approx(0.25));
  CHECK(reported[0].recovered->load_s == doctest::Approx(0.5));
  CHECK(reported[0].recovered->first_step_s == doctest::Approx(0.25));
  CHECK(reported[0].recovered->lost_steps == 2);

  SkippedSteps others;
  others.take({launched(0, 1), rolled_back(10, 7, 4, Value("nan"))});
  CHECK(others.news().at(0).fault->fault_class == "loss_nan");
}

TEST_CASE("skipped steps: what roll-backs have used up stays used up, though their steps are done again") {
  using namespace skipped_steps;
  SkippedSteps steps(settings(2, 100));
  for (const long long step : {30, 30, 25}) steps.take({rolled_back(step * 1'000, step, 20)});
  const auto reported = steps.news();
  REQUIRE(reported.size() == 3);
  CHECK(reported[1].fault->reason == "loss_spike of scope job");
  CHECK(reported[2].fault->reason.find("2 of 2 used") != std::string::npos);  // the engine would not have gone on
}

TEST_CASE("skipped steps: a lead that follows another reports what that one had not, and nothing twice") {
  using namespace skipped_steps;
  SkippedSteps first;
  const std::vector<Event> begun{launched(0, 1), spike(10, 7), metric(20, 8)};
  first.take(begun);
  const auto reported = first.news();
  REQUIRE(reported.size() == 2);
  std::vector<Event> all = begun;
  for (std::size_t lines = 0; lines <= reported.size(); ++lines) {
    SkippedSteps next;
    next.take(all);
    CHECK(next.news().size() == reported.size() - lines);
    if (lines < reported.size()) all.push_back(written(30, reported[lines]));
  }
  // A further one in the same launch, and one of the same step in another launch.
  SkippedSteps next;
  next.take(all);
  next.take({spike(40, 9), launched(50, 2), spike(60, 7)});
  const auto more = next.news();
  REQUIRE(more.size() == 2);
  CHECK(more[0].fault->launch == 1);
  CHECK(more[1].fault->launch == 2);
}

TEST_CASE("skipped steps: no recovery is reported after another fault, for it would be read as that one's") {
  using namespace skipped_steps;
  SkippedSteps steps;
  steps.take({launched(0, 1), spike(10, 7)});
  REQUIRE(steps.news().size() == 1);
  FaultEvent killed;
  killed.fault_class = "killed", killed.tier = "in_job";
  steps.take({metric(20, 8), *parse_event(event_line({30, fault_event_kind, 0, to_value(killed)})), launched(40, 2),
              metric(50, 9)});
  CHECK(steps.news().empty());
}

TEST_CASE("skipped steps: the policy's budget is the stage's, in its window of steps") {
  using namespace skipped_steps;
  SkippedSteps steps(settings(2, 100));
  std::vector<std::string> reasons;
  for (const long long step : {10, 20, 30, 111, 131}) steps.take({spike(step * 1'000, step)});
  for (const auto& reported : steps.news()) {
    CHECK(reported.fault->tier == "skip");
    reasons.push_back(reported.fault->reason);
  }
  REQUIRE(reasons.size() == 5);
  CHECK(reasons[0] == "loss_spike of scope job");
  CHECK(reasons[1] == "loss_spike of scope job");
  CHECK(reasons[2].find("2 of 2 used") != std::string::npos);  // the engine would not have gone on
  CHECK(reasons[3].find("2 of 2 used") != std::string::npos);  // 20 and 30 are in the window, 10 is not
  CHECK(reasons[4] == "loss_spike of scope job");              // 111 alone
  // A launch that does the same steps again has used up nothing with them.
  steps.take({launched(200'000, 2), spike(201'000, 111), spike(202'000, 131)});
  for (const auto& reported : steps.news()) CHECK(reported.fault->reason == "loss_spike of scope job");
}

TEST_CASE("skipped steps: the next lead knows what was reported without reading it, and what the budget has left") {
  using namespace skipped_steps;
  SkippedSteps first(settings(2, 100)), all(settings(2, 100));
  const auto events = std::vector<Event>{launched(100, 3), metric(1'000, 6), spike(1'200, 7), metric(1'400, 8)};
  first.take(events), all.take(events);
  CHECK(!first.at_rest());
  for (const auto& reported : first.news()) first.take({written(1'500, reported)});
  for (const auto& reported : all.news()) all.take({written(1'500, reported)});
  REQUIRE(first.at_rest());
  SkippedSteps next(settings(2, 100));
  next.go_on_from(first.snapshot());
  for (SkippedSteps* steps : {&next, &all}) {
    steps->take({spike(2'000, 9), metric(2'100, 10)});
    const auto second = steps->news();
    REQUIRE(second.size() == 2);
    CHECK(second[0].fault->launch == 3);
    CHECK(second[0].fault->reason.find("left out by on_spike") == std::string::npos);
    steps->take({spike(3'000, 11)});
    const auto third = steps->news();
    REQUIRE(third.size() == 1);
    CHECK(third[0].fault->reason.find("left out by on_spike") == 0);  // the budget of two is used up
  }
}
