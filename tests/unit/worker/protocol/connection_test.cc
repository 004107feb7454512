// What a connection does when nobody answers any more.
#include "worker/protocol/connection.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string>

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

TEST_CASE("connection: a name leads to an address, and one that nobody knows to an error") {
  CHECK(*resolve_host("127.0.0.1") == "127.0.0.1");
  CHECK(!resolve_host(std::string(300, 'x')).ok());
}
