// What a connection does when nobody answers any more.
#include "worker/protocol/wire/connection.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "worker/protocol/wire/host_address.h"

using namespace longhaul;

TEST_CASE("connection: what is not acknowledged breaks it long before the kernel would by itself") {
  auto listener = Listener::open(0, false);
  REQUIRE(listener.ok());
  auto socket = connect_to("127.0.0.1", listener->port());
  REQUIRE(socket.ok());
  const Connection connection(std::move(*socket), WireSession::lead("secret", std::string(64, 'a'), 1));
  unsigned limit_ms = 0;
  socklen_t size = sizeof limit_ms;
  REQUIRE(::getsockopt(connection.descriptor(), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, &size) == 0);
  CHECK(limit_ms == unanswered_ms);
}

TEST_CASE("connection: a name leads to addresses, and one that nobody knows to an error") {
  CHECK(*resolve_host("127.0.0.1") == std::vector<std::string>{"127.0.0.1"});
  CHECK(*resolve_host("::1") == std::vector<std::string>{"::1"});
  CHECK(!resolve_host(std::string(300, 'x')).ok());
  for (const std::string& own : own_addresses()) CHECK_MESSAGE(!is_loopback_address(own), own);
}

TEST_CASE("connection: a listener keeps to its range of ports, and says where all of them are taken") {
  // Beside the ports that the kernel gives to others by itself (32768 to 60999).
  const auto range = parse_port_range("61337-61339");
  std::vector<Listener> listeners;
  for (int i = 0; i < 3; ++i) {
    auto one = Listener::open_in(*range, true);
    REQUIRE_MESSAGE(one.ok(), (one.ok() ? "" : one.error().message()));
    CHECK(one->port() >= 61337);
    CHECK(one->port() <= 61339);
    listeners.push_back(std::move(*one));
  }
  const auto none = Listener::open_in(*range, true);
  REQUIRE(!none.ok());
  CHECK(none.error().what.find("61337-61339") != std::string::npos);
  CHECK(Listener::open_in({}, true)->port() > 0);
}

// One socket for both: a host of either kind reaches it, and is named as it is called.
TEST_CASE("connection: who listens everywhere is reached over IPv4 and IPv6") {
  auto listener = Listener::open(0, true);
  REQUIRE(listener.ok());
  std::vector<std::string> ways = {"127.0.0.1"};
  const FileDescriptor probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6, six.sin6_addr = in6addr_loopback;
  const bool has_six = probe.valid() && ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&six), sizeof six) == 0;
  if (has_six)
    ways.emplace_back("::1");
  else
    MESSAGE("this machine has no IPv6: only IPv4 is tried");
  for (const std::string& way : ways) {
    const auto socket = connect_to(way, listener->port());
    REQUIRE_MESSAGE(socket.ok(), way);
    auto accepted = listener->accept();
    for (int tries = 0; tries < 200 && accepted.ok() && !accepted->valid(); ++tries) {
      ::usleep(5'000);
      accepted = listener->accept();
    }
    REQUIRE(accepted.ok());
    REQUIRE(accepted->valid());
    CHECK(peer_of(accepted->get()).address == way);
    CHECK(peer_of(socket->get()).port == listener->port());
  }
}

TEST_CASE("connection: a socket of either kind can be handed over") {
  const auto listener = Listener::open(0, true);
  REQUIRE(listener.ok());
  const auto taken = Listener::take(FileDescriptor(::dup(listener->descriptor())));
  REQUIRE(taken.ok());
  CHECK(taken->port() == listener->port());
}
