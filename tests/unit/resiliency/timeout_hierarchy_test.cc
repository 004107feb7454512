#include "resiliency/timeout_hierarchy.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

using namespace longhaul;

TEST_CASE("all contradictions of timeouts are reported at once, with the place and a remedy each") {
  CHECK(judge_timeouts(TimeoutHierarchy{}).empty());
  TimeoutHierarchy all;
  all.suspect = {0.1, "resiliency.hang_suspect", {"w.toml", 3, 4}};
  all.act = {700, "resiliency.hang_act", {"w.toml", 5, 6}};
  all.fabric_silence.seconds = 30, all.transport.seconds = 20, all.grace.seconds = 10;
  all.collective.seconds = 600, all.wall.seconds = 300, all.startup_is_default = false;
  const auto found = judge_timeouts(all);
  CHECK(found.size() == 7);
  std::set<std::string> rules;
  int mendable = 0;
  for (const TimeoutContradiction& one : found) {
    CAPTURE(one.error.message());
    CHECK(one.error.code == ErrorCode::invalid_input);
    CHECK(one.error.what.find("is shorter than") != std::string::npos);
    CHECK(one.mendable == one.error.where.has_value());
    CHECK(one.mendable == (one.error.hint.find("raise") == 0 || one.error.hint.find("lower") == 0));
    mendable += one.mendable;
    rules.insert(one.rule);
  }
  CHECK(mendable == 4);  // beats, reports; collective, transport
  CHECK(rules.size() == found.size());
}

TEST_CASE("a final checkpoint has to fit the notice before the wall time, and the wall time itself") {
  TimeoutHierarchy all;
  all.final_checkpoint.seconds = 100, all.stop.seconds = 15;
  all.grace = {110, "job.stop_before"};
  all.wall = {114, "time_limit"};
  const auto found = judge_timeouts(all);
  REQUIRE(found.size() == 2);
  CHECK(found[0].error.what ==
        "the job's grace (110 s) is shorter than a final checkpoint and stopping a launch (115 s): the last checkpoint "
        "would be lost");
  CHECK(found[0].error.hint == "raise job.stop_before to 115 s or more");
  CHECK(found[1].error.what.find("the wall time (114 s)") == 0);
  all.grace.seconds = 115, all.wall.seconds = 115;
  CHECK(judge_timeouts(all).empty());
}

TEST_CASE("deadlines of controllers, agents and saves are rules like all others") {
  TimeoutHierarchy all;
  all.submission.seconds = 60, all.settle.seconds = 15, all.driver_silent.seconds = 30;
  all.lead_question.seconds = 1.6, all.write_still.seconds = 200;
  all.longest_teardown.seconds = 71, all.ranks_gone = {60, "resiliency.ranks_gone"};
  all.others_still.seconds = 5;
  const auto found = judge_timeouts(all);
  std::vector<std::string> rules;
  for (const TimeoutContradiction& one : found) rules.push_back(one.rule);
  CHECK(rules == std::vector<std::string>{
                     "the silence of a host < the standstill beside a lost host",
                     "the silence of a lead < a lead's question to the scheduler and the interval of a lead's messages",
                     "the time until a lost submission is known < a submission",
                     "the silence of a driver < a submission",
                     "the time that killed ranks have to be gone < the longest that killed ranks took to be gone",
                     "a save without a byte < the failover of a file system"});
  REQUIRE(found.size() == 6);
  CHECK(found[4].error.hint == "raise resiliency.ranks_gone to 71 s or more");
  CHECK(found[4].mendable);
}

TEST_CASE("the deadlines that are known are listed from the shortest to the longest") {
  TimeoutHierarchy all;
  all.collective.seconds = 600;
  const auto list = deadlines_in_order(all);
  REQUIRE(list.size() > 10);
  CHECK(list.front().name == "the interval of beats");
  CHECK(list.back().name == "launch start-up");
  for (std::size_t i = 1; i < list.size(); ++i) CHECK(list[i - 1].timeout.seconds <= list[i].timeout.seconds);
  CHECK(list[list.size() - 2].name == "the deadline of a collective");
}

TEST_CASE("InfiniBand gives up after 4.096 us * 2^timeout for each try") {
  CHECK(std::fabs(infiniband_timeout_s(20, 7) - 30.06) < 0.01);
  CHECK(std::fabs(infiniband_timeout_s(22, 7) - 120.26) < 0.01);
  CHECK(infiniband_timeout_s(0, 7) == 0);
}
