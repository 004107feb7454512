// When an agent is started again that alone has died, and how long its host counts as alive for that.
#include "worker/lead/agents/missing_agents.h"

#include <doctest/doctest.h>

#include "worker/lead/agents/replacement_agents.h"

namespace longhaul {
namespace {

// Hosts n1 to nK; the time goes on by 50 ms a look.
struct MissingRig {
  explicit MissingRig(int count = 2, MissingAgentTimes times = {}) : agents(times) {
    for (int i = 1; i <= count; ++i) sights.push_back({"n" + std::to_string(i), true, true, 0, true, false});
  }
  void go(std::int64_t for_ms) {
    for (std::int64_t passed = 0; passed < for_ms; passed += 50) {
      now_ms += 50;
      for (AgentObservation& sight : sights) sight.apart_ms = sight.connected ? 0 : sight.apart_ms + 50;
      for (const std::string& host : agents.look(now_ms, sights)) starts.push_back({host, now_ms});
      for (const AgentNews& one : agents.take_news()) news.push_back(one);
    }
  }
  MissingAgents agents;
  std::vector<AgentObservation> sights;
  std::int64_t now_ms = 1'000;
  std::vector<std::pair<std::string, std::int64_t>> starts;
  std::vector<AgentNews> news;
};

}  // namespace

TEST_CASE("missing agents: one whose host answers is started again once, and its host is not lost until it is back") {
  MissingRig rig;
  rig.go(5'000);
  CHECK(rig.starts.empty());
  const std::int64_t lost_ms = rig.now_ms;
  rig.sights[1].connected = false;
  rig.go(350);
  CHECK(rig.starts.empty());  // its connection alone may be lost
  rig.go(3'000);
  REQUIRE(rig.starts.size() == 1);
  CHECK(rig.starts[0].first == "n2");
  CHECK(rig.starts[0].second - lost_ms == 400);
  CHECK(rig.agents.is_expected("n2"));
  CHECK(!rig.agents.is_expected("n1"));
  rig.sights[1].connected = true;
  rig.go(50);
  CHECK(!rig.agents.is_expected("n2"));
  REQUIRE(rig.news.size() == 2);
  CHECK(rig.news[0].kind == AgentNews::Kind::lost);
  CHECK(rig.news[1].kind == AgentNews::Kind::back);
  CHECK(rig.news[1].host == "n2");
  CHECK(rig.news[1].tries == 1);
  CHECK(rig.news[1].ms == 3'400);
}

TEST_CASE("missing agents: a lost connection that is back at once is no news") {
  MissingRig rig;
  rig.sights[0].connected = false;
  rig.go(300);
  rig.sights[0].connected = true;
  rig.go(1'000);
  CHECK(rig.starts.empty());
  CHECK(rig.news.empty());
}

TEST_CASE(
    "missing agents: after a cut that has healed an agent has time to come by itself, also where no start is due") {
  MissingRig rig;
  for (int cut = 0; cut < 6; ++cut) {
    rig.sights[1].connected = false, rig.sights[1].apart_ms = 0;
    rig.go(50);
    CHECK(rig.agents.is_expected("n2"));  // at once: its silence before counts no more
    rig.go(1'500);
    CHECK(rig.agents.is_expected("n2"));
    rig.agents.failed("n2");
    CHECK(rig.agents.is_expected("n2"));
    rig.sights[1].connected = true;
    rig.go(2'000);
  }
  CHECK(rig.starts.size() < 6);
  rig.sights[1].connected = false, rig.sights[1].apart_ms = 0;
  rig.go(3'000);
  rig.agents.failed("n2");
  CHECK(!rig.agents.is_expected("n2"));
}

TEST_CASE("missing agents: a host that does not answer, or had no agent yet, is left to the guard") {
  MissingRig rig;
  rig.sights[0].connected = rig.sights[0].answers = false;
  rig.sights[1].connected = rig.sights[1].ever_heard = false;
  rig.go(60'000);
  CHECK(rig.starts.empty());
  CHECK(!rig.agents.is_expected("n1"));
  CHECK(!rig.agents.is_expected("n2"));
  // One that dies while its agent is on the way counts as alive no longer.
  rig.sights[0].answers = true;
  rig.go(50);
  REQUIRE(rig.starts.size() == 1);
  CHECK(rig.agents.is_expected("n1"));
  rig.sights[0].answers = false;
  rig.go(50);
  CHECK(!rig.agents.is_expected("n1"));
}

TEST_CASE("missing agents: starts that bring none are tried again after ever longer pauses, then given up") {
  MissingRig rig;
  rig.sights[1].connected = false;
  for (int second = 0; second < 1'000; ++second) {
    rig.go(1'000);
    rig.agents.failed("n2");
    CHECK(rig.agents.is_expected("n2") == (second < 2));  // between two tries the guard may call it lost
  }
  REQUIRE(rig.starts.size() == 8);
  for (std::size_t i = 2; i < rig.starts.size(); ++i)
    CHECK(rig.starts[i].second - rig.starts[i - 1].second >=
          2 * (rig.starts[i - 1].second - rig.starts[i - 2].second) - 1'000);
  CHECK(rig.starts.back().second - rig.starts.front().second < 300'000);
  REQUIRE(rig.news.size() == 2);
  CHECK(rig.news[1].kind == AgentNews::Kind::given_up);
  CHECK(rig.news[1].tries == 8);
}

TEST_CASE("missing agents: a start has a deadline, and an agent that stays earns its host all tries again") {
  MissingRig rig;
  rig.sights[1].connected = false;
  rig.go(400 + 19'950);
  CHECK(rig.agents.is_expected("n2"));
  CHECK(rig.starts.size() == 1);
  rig.go(50);  // the first one's time is over; another is started at once, for the pause is over, too
  CHECK(rig.starts.size() == 2);
  rig.sights[1].connected = true;
  rig.go(61'000);
  rig.sights[1].connected = false;
  rig.go(2'000);
  CHECK(rig.starts.size() == 3);
  CHECK(rig.news.back().kind == AgentNews::Kind::lost);
  rig.sights[1].connected = true;
  rig.go(50);
  CHECK(rig.news.back().tries == 1);
}

TEST_CASE("missing agents: a few are started at a time, and none while all of them are started anyway") {
  MissingRig rig(100);
  for (AgentObservation& sight : rig.sights) sight.connected = false, sight.awaited = true;
  rig.go(10'000);
  CHECK(rig.starts.empty());
  for (AgentObservation& sight : rig.sights) sight.awaited = false;
  rig.go(1'000);
  CHECK(rig.starts.size() == 4);
}

TEST_CASE("missing agents: the launcher of one agent is that of all, for one host") {
  CHECK(launcher_on({"srun", "--overlap", "--nodes=16", "--ntasks=16", "--ntasks-per-node=1", "--wait=0"}, "n7") ==
        std::vector<std::string>{"srun", "--overlap", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--wait=0",
                                 "--nodelist=n7"});
}

}  // namespace longhaul
