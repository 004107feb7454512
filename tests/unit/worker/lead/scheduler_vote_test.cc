// Who may decide where a node is lost: most of those that the scheduler still gives to the job.
#include "worker/lead/scheduler_vote.h"

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

TEST_CASE("scheduler vote: it is asked politely, an error votes for nobody, and what is gone stays gone") {
  ManualClock clock;
  int asked = 0;
  Result<Hosts> answer = make_error(ErrorCode::unavailable, "slurmctld is silent");
  SchedulerVote vote([&] { return ++asked, answer; }, "n2", clock);
  CHECK(vote.look({"n1", "n2"}).empty());
  answer = Hosts{"n2"};
  CHECK(vote.look({"n1", "n2"}).empty());  // not asked again yet
  clock.advance_ms(5'000);
  CHECK(vote.look({"n1", "n2"}) == NodeNames{"n1"});
  CHECK(asked == 2);
  clock.advance_ms(5'000);
  answer = make_error(ErrorCode::unavailable, "slurmctld is silent");
  CHECK(vote.look({"n1", "n2"}) == NodeNames{"n1"});
  CHECK(asked == 3);
  CHECK(!ask_for_nodes_of("")().ok());
}

}  // namespace longhaul
