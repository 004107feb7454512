// When the silence of a host says something.
#include "worker/lead/agents/host_answers.h"

#include <doctest/doctest.h>

#include "worker/protocol/wire/connection.h"

namespace longhaul {
namespace {

struct Rig {
  ManualClock clock;
  Logger log{"test", ""};
  HostAnswers answers{clock, log};
  void look(const AgentPresence& agent, std::int64_t ms) {
    for (std::int64_t passed = 0; passed < ms; passed += 50) {
      clock.advance_ms(50);
      answers.look("n1", agent);
    }
  }
};

const PeerAddress drops = {"255.255.255.255", 9};  // no host's own, and nothing leaves this one

}  // namespace

TEST_CASE("host answers: of a host that has answered, silence says that it is dead or cut off") {
  auto listener = Listener::open(0, false);
  REQUIRE(listener.ok());
  Rig rig;
  rig.look({true, false, {"127.0.0.1", listener->port()}}, 1'000);
  const AgentPresence gone{false, false, drops};
  rig.look(gone, 1'000);
  CHECK(!rig.answers.may_live("n1", gone));
  const AgentPresence dead_agent{false, false, {"127.0.0.1", listener->port()}};
  rig.answers.look("n1", {true, false, dead_agent.peer});
  rig.look(dead_agent, 300);
  CHECK(rig.answers.may_live("n1", dead_agent));
}

TEST_CASE("host answers: a host that drops knocks while its agent works is not held to be dead for its silence") {
  Rig rig;
  rig.look({true, false, drops}, 1'500);
  CHECK(!rig.answers.may_live("n1", {false, false, drops}));  // not yet
  rig.look({true, false, drops}, 1'500);
  const AgentPresence closed{false, false, drops}, unanswered{false, true, drops};
  rig.look(closed, 300);
  CHECK(rig.answers.may_live("n1", closed));
  CHECK(!rig.answers.may_live("n1", unanswered));  // its connection broke because nobody there answers
}

TEST_CASE("host answers: silence of a host that was lost before it could be tried is silence") {
  Rig rig;
  rig.look({true, false, drops}, 500);
  const AgentPresence closed{false, false, drops};
  rig.look(closed, 300);
  CHECK(!rig.answers.may_live("n1", closed));
}

}  // namespace longhaul
