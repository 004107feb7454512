// Who may decide where a node is lost: most of those that the scheduler still gives to the job.
#include "worker/lead/failover/scheduler_vote.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

using Hosts = std::vector<std::string>;
using NodeNames = std::set<std::string>;

}  // namespace

TEST_CASE("scheduler vote: of two nodes one is no majority, unless the scheduler has taken the other one away") {
  const Hosts two = {"n1", "n2"}, four = {"n1", "n2", "n3", "n4"};
  CHECK(!is_majority(two, {"n2"}, {}));
  CHECK(is_majority(two, {"n2"}, {"n1"}));
  CHECK(is_majority(two, {"n1", "n2"}, {}));
  CHECK(!is_majority(two, {}, {"n1"}));
  CHECK(!is_majority(two, {}, {"n1", "n2"}));
  CHECK(!is_majority(four, {"n3", "n4"}, {}));
  CHECK(is_majority(four, {"n3", "n4"}, {"n1"}));
  CHECK(!is_majority(four, {"n4"}, {"n1"}));
  CHECK(!is_majority({"n1", "n2", "n3"}, {"n1", "n2"}, {"n2"}));  // who is gone has no voice, heard or not
}

TEST_CASE("scheduler vote: whoever is not on the scheduler's list is the one that was cut off") {
  CHECK(gone_by_list({"n1", "n2"}, "n2", {"n2"}) == NodeNames{"n1"});
  CHECK(gone_by_list({"n1", "n2"}, "n1", {"n2"}).empty());
  CHECK(gone_by_list({"n1", "n2"}, "n1", {}).empty());
  CHECK(gone_by_list({"n1", "n2"}, "n1", {"n1", "n2", "n3"}).empty());
}

TEST_CASE("scheduler vote: it is asked politely, an error votes for nobody, and two answers take a voice away") {
  ManualClock clock;
  int asked = 0;
  Result<Hosts> answer = make_error(ErrorCode::unavailable, "slurmctld is silent");
  SchedulerVote vote([&] { return ++asked, answer; }, "n2", clock);
  CHECK(vote.look({"n1", "n2"}).empty());
  answer = Hosts{"n2"};
  CHECK(vote.look({"n1", "n2"}).empty());  // not asked again yet
  clock.advance_ms(5'000);
  CHECK(vote.look({"n1", "n2"}).empty());
  CHECK(asked == 2);
  clock.advance_ms(1'000);  // to make sure
  CHECK(vote.look({"n1", "n2"}) == NodeNames{"n1"});
  CHECK(asked == 3);
  clock.advance_ms(1'000);
  CHECK(vote.look({"n1", "n2"}) == NodeNames{"n1"});
  CHECK(asked == 3);
  clock.advance_ms(5'000);
  answer = make_error(ErrorCode::unavailable, "slurmctld is silent");
  CHECK(vote.look({"n1", "n2"}) == NodeNames{"n1"});
  CHECK(asked == 4);
  CHECK(!ask_for_nodes_of("")().ok());
}

TEST_CASE(
    "scheduler vote: one short answer removes nobody, and who is on a later list, or heard, has its voice again") {
  ManualClock clock;
  const Hosts all = {"n1", "n2", "n3"};
  std::vector<Result<Hosts>> answers = {Hosts{"n2"},       all, Hosts{"n2", "n3"}, Hosts{"n2", "n3"},
                                        Hosts{"n2", "n3"}, all, Hosts{"n2", "n3"}, Hosts{"n1"},
                                        Hosts{"n2", "n3"}};
  std::size_t asked = 0;
  SchedulerVote vote([&] { return answers.at(asked++); }, "n2", clock);
  const auto next = [&] { return clock.advance_ms(5'000), vote.look(all); };
  CHECK(next().empty());  // short
  CHECK(next().empty());
  CHECK(next().empty());
  CHECK(next() == NodeNames{"n1"});
  CHECK(next() == NodeNames{"n1"});
  CHECK(next().empty());  // it has come back
  CHECK(next().empty());
  CHECK(next().empty());  // not of ours: nothing is said of anybody
  CHECK(next() == NodeNames{"n1"});
  vote.note_heard({"n1", "n3"});
  CHECK(vote.gone().empty());
}

}  // namespace longhaul
