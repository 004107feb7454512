// A kernel that answers is distinguished from silence.
#include "worker/protocol/wire/host_probe.h"

#include <doctest/doctest.h>

#include "worker/protocol/wire/connection.h"

namespace longhaul {
namespace {

bool comes_to_answer(HostProbe& probe, SystemClock& clock, std::int64_t within_ms) {
  for (const Deadline deadline(clock, within_ms); !deadline.passed(); clock.sleep_ms(5)) {
    probe.look();
    if (probe.answers()) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("host probe: a port that is open answers, as does one that nobody listens at any more") {
  SystemClock clock;
  auto listener = Listener::open(0, false);
  REQUIRE(listener.ok());
  const int port = listener->port();
  HostProbe open({"127.0.0.1", port}, clock);
  CHECK(!open.answers());
  CHECK(comes_to_answer(open, clock, 2'000));
  {
    const Listener gone = std::move(*listener);
  }
  HostProbe closed({"127.0.0.1", port}, clock);
  CHECK(comes_to_answer(closed, clock, 2'000));
}

TEST_CASE("host probe: what is no address of a host does not answer, and an answer does not hold for ever") {
  SystemClock clock;
  HostProbe nobody({"255.255.255.255", 9}, clock);  // a broadcast: no host's own, and nothing leaves this one
  CHECK(!comes_to_answer(nobody, clock, 300));
  HostProbe unknown({"", 0}, clock);
  CHECK(!comes_to_answer(unknown, clock, 20));
  auto listener = Listener::open(0, false);
  REQUIRE(listener.ok());
  HostProbe once({"127.0.0.1", listener->port()}, clock);
  REQUIRE(comes_to_answer(once, clock, 2'000));
  clock.sleep_ms(1'050);
  CHECK(!once.answers());
}

TEST_CASE("host probe: the other end of a connection is known, and of no connection there is none") {
  auto listener = Listener::open(0, false);
  REQUIRE(listener.ok());
  const auto socket = connect_to("127.0.0.1", listener->port());
  REQUIRE(socket.ok());
  const PeerAddress peer = peer_of(socket->get());
  CHECK(peer.address == "127.0.0.1");
  CHECK(peer.port == listener->port());
  CHECK(peer_of(-1).address.empty());
}

}  // namespace longhaul
