#include "worker/agent/leads/lead_memory.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {
const PeerAddress first_lead{"10.0.0.1", 4001}, second_lead{"10.0.0.2", 4002};
}

TEST_CASE("lead memory: before a lead was lost nothing is said of one") {
  LeadMemory memory(100);
  CHECK(memory.without_since_ns() == 100);
  CHECK(memory.lost_lead().since_ns == 0);
  CHECK(memory.lost_lead().at.address.empty());
}

TEST_CASE("lead memory: a lead in waiting that ends without a majority is no lead that was lost") {
  LeadMemory memory(100);
  memory.welcomed(first_lead);
  memory.lost(1'000, true, false);
  CHECK(memory.was_silent());
  for (const std::int64_t ended_ns : {5'000, 9'000}) {  // of two that waited one after the other
    memory.welcomed(second_lead);
    memory.lost(ended_ns, false, true);
    CHECK(memory.without_since_ns() == ended_ns);
    CHECK_FALSE(memory.was_silent());
    CHECK(memory.lost_lead().since_ns == 1'000);
    CHECK(memory.lost_lead().at.address == first_lead.address);
    CHECK(memory.lost_lead().at.port == first_lead.port);
  }
}

TEST_CASE("lead memory: one that has taken over is lost like any other, where the standby listens, too") {
  LeadMemory memory(100);
  memory.welcomed(first_lead);
  memory.lost(1'000, false, false);
  memory.welcomed(second_lead);
  memory.lost(1'500, false, true);  // it sends its agents away when it takes over
  memory.welcomed(second_lead);
  memory.lost(8'000, false, false);
  CHECK(memory.lost_lead().since_ns == 8'000);
  CHECK(memory.lost_lead().at.address == second_lead.address);
}

TEST_CASE("lead memory: a connection that broke and came back is forgotten with the next loss") {
  LeadMemory memory(100);
  memory.welcomed(first_lead);
  memory.lost(1'000, false, false);
  memory.welcomed(first_lead);
  memory.lost(4'000, true, false);
  CHECK(memory.lost_lead().since_ns == 4'000);
}
