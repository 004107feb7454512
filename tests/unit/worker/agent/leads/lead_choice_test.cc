#include "worker/agent/leads/lead_choice.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

LeadAddress led_by(const char* host, std::int64_t epoch, int port) {
  LeadAddress address;
  address.attempt_key = "a", address.epoch = epoch, address.host = host, address.port = port;
  return address;
}

struct ChoosingAgent {
  LeadChoice choice;
  LeadFilesSeen seen;
  LeadEpoch epoch{1, "n1"};
  bool known = true;
  std::string next(bool lost) {
    const auto chosen = choice.next(seen, epoch, [this](const std::string&) { return known; }, lost);
    return chosen.ok() ? chosen->host : "nobody";
  }
};

TEST_CASE("an agent turns to whom the file names, and to nobody while there is no file") {
  ChoosingAgent agent;
  CHECK(agent.next(false) == "nobody");
  agent.seen.lead = led_by("n1", 1, 7000);
  CHECK(agent.next(false) == "n1");
  CHECK(agent.choice.asked().port == 7000);
  CHECK_FALSE(agent.choice.asks_a_standby());
}

TEST_CASE("after a broken connection the same address has one more try") {
  ChoosingAgent agent;
  agent.seen.lead = led_by("n1", 1, 7000);
  CHECK(agent.next(false) == "n1");
  agent.choice.know_standby("n2", 7100, "10.0.0.2");
  agent.choice.lost_connection();
  CHECK(agent.next(true) == "n1");
  CHECK(agent.next(true) == "n2");
  agent.choice.lost_connection();
  agent.choice.refused();  // it waits with another
  CHECK(agent.next(true) == "n1");
}

TEST_CASE(
    "while its lead is lost an agent asks the file and the standbys in turn, the one that was announced to it first") {
  ChoosingAgent agent;
  agent.seen.lead = led_by("n1", 1, 7000);
  agent.seen.standby = led_by("n3", 1, 7200);
  agent.choice.know_standby("n2", 7100, "10.0.0.2");
  std::vector<std::string> asked;
  for (int i = 0; i < 6; ++i) asked.push_back(agent.next(true));
  CHECK(asked == std::vector<std::string>{"n2", "n1", "n3", "n1", "n2", "n1"});
  CHECK(agent.choice.said_address_of("n2") == "10.0.0.2");
  CHECK(agent.choice.said_address_of("n3") == "");
}

TEST_CASE("a later lead in the file is turned to at once, as soon as it is known where it is") {
  ChoosingAgent agent;
  agent.seen.lead = led_by("n4", 2, 7300);
  agent.choice.know_standby("n2", 7100, "");
  agent.known = false;
  CHECK(agent.next(true) == "n2");
  agent.known = true;
  CHECK(agent.next(true) == "n4");
  CHECK(agent.next(true) == "n4");
  CHECK_FALSE(agent.choice.asks_a_standby());
}

}  // namespace
}  // namespace longhaul
