#include "worker/protocol/wire.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {

const std::string lead_nonce(64, 'a'), agent_nonce(64, 'b');
const std::string secret = "of this attempt";

Value hello_of(const std::string& host) {
  Value body = Value::make_table();
  body.set("host", host);
  return body;
}

// Both ends, and what went over the line each way.
struct Pair {
  WireSession lead, agent;
  std::string to_agent, to_lead;

  explicit Pair(const std::string& secret_of_agent = secret, std::int64_t epoch_of_lead = 1,
                std::int64_t epoch_of_agent = 1)
      : lead(WireSession::lead(secret, lead_nonce, epoch_of_lead)),
        agent(WireSession::agent(secret_of_agent, agent_nonce, epoch_of_agent, hello_of("n1"))) {}

  Result<std::vector<WireFrame>> lead_says() {
    const std::string bytes = lead.outgoing();
    to_agent += bytes;
    return agent.take(bytes);
  }
  Result<std::vector<WireFrame>> agent_says() {
    const std::string bytes = agent.outgoing();
    to_lead += bytes;
    return lead.take(bytes);
  }
  void shake_hands() {
    REQUIRE(lead_says().ok());
    const auto hello = agent_says();
    REQUIRE(hello.ok());
    REQUIRE(hello->size() == 1);
    CHECK(hello->front().kind == WireKind::hello);
    CHECK(hello->front().body.get_string("host") == "n1");
    lead.welcome(Value::make_table());
    const auto welcome = lead_says();
    REQUIRE(welcome.ok());
    CHECK(welcome->front().kind == WireKind::welcome);
    REQUIRE(lead.open());
    REQUIRE(agent.open());
  }
};

}  // namespace

TEST_CASE("wire: a lead and an agent with the same secret talk, whatever pieces the bytes come in") {
  Pair pair;
  pair.shake_hands();
  for (int i = 0; i < 3; ++i) pair.agent.send(WireKind::report, hello_of("report " + std::to_string(i)));
  std::vector<WireFrame> got;
  for (const char byte : pair.agent.outgoing()) {
    const auto frames = pair.lead.take({&byte, 1});
    REQUIRE(frames.ok());
    got.insert(got.end(), frames->begin(), frames->end());
  }
  REQUIRE(got.size() == 3);
  CHECK(got[2].body.get_string("host") == "report 2");
  pair.lead.send(WireKind::order, hello_of("order"));
  CHECK(pair.lead_says()->front().kind == WireKind::order);
}

TEST_CASE("wire: without the secret nothing is believed") {
  Pair pair("another secret");
  REQUIRE(pair.lead_says().ok());
  const auto hello = pair.agent_says();
  REQUIRE(!hello.ok());
  CHECK(hello.error().code == ErrorCode::aborted);
  CHECK(!pair.lead.take("more").ok());

  // And a lead that knows no secret gets no further than the agent's hello.
  WireSession impostor = WireSession::lead("a guess", lead_nonce, 1);
  WireSession agent = WireSession::agent(secret, agent_nonce, 1, hello_of("n1"));
  REQUIRE(agent.take(impostor.outgoing()).ok());
  CHECK(!impostor.take(agent.outgoing()).ok());
  WireSession deaf = WireSession::lead("a guess", lead_nonce, 1);
  (void)deaf.outgoing();
  CHECK(!agent.open());
}

TEST_CASE("wire: a message with any byte changed is delivered to nobody") {
  Pair first;
  first.shake_hands();
  first.agent.send(WireKind::report, hello_of("truth"));
  const std::string whole = first.agent.outgoing();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    Pair pair;
    pair.shake_hands();
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x20);
    const auto frames = pair.lead.take(bytes);
    CAPTURE(at);
    CHECK((!frames.ok() || frames->empty()));
  }
  // The same nonces give the same keys: unchanged, it would have been taken.
  Pair pair;
  pair.shake_hands();
  CHECK(pair.lead.take(whole)->size() == 1);
}

TEST_CASE("wire: what was recorded in one connection is refused in another, and so are gaps and repetitions") {
  Pair recorded;
  recorded.shake_hands();
  recorded.agent.send(WireKind::report, hello_of("old"));
  recorded.to_lead += recorded.agent.outgoing();
  WireSession lead = WireSession::lead(secret, std::string(64, 'c'), 1);
  (void)lead.outgoing();
  CHECK(!lead.take(recorded.to_lead).ok());

  Pair pair;
  pair.shake_hands();
  pair.agent.send(WireKind::report, hello_of("one"));
  const std::string one = pair.agent.outgoing();
  pair.agent.send(WireKind::report, hello_of("two"));
  const std::string two = pair.agent.outgoing();
  SUBCASE("a gap") {
    const auto frames = pair.lead.take(two);
    REQUIRE(!frames.ok());
    CHECK(frames.error().message().find("number") != std::string::npos);
  }
  SUBCASE("a repetition") {
    CHECK(pair.lead.take(one)->size() == 1);
    CHECK(!pair.lead.take(one).ok());
  }
  SUBCASE("sent back to where it came from") {
    CHECK(!pair.agent.take(one).ok());
  }
}

TEST_CASE("wire: another release, strangers and absurd lengths are told apart") {
  WireSession session = WireSession::lead(secret, lead_nonce, 1);
  Pair other;
  REQUIRE(other.lead_says().ok());
  std::string hello = other.agent.outgoing();
  SUBCASE("version") {
    hello[4] = 9;
    CHECK(session.take(hello).error().code == ErrorCode::unsupported);
  }
  SUBCASE("length") {
    hello[11] = 0x7F;
    CHECK(session.take(hello).error().code == ErrorCode::corrupt);
  }
  SUBCASE("a browser") {
    CHECK(session.take("GET / HTTP/1.1\r\nHost: n1\r\n\r\n").error().code == ErrorCode::corrupt);
  }
  SUBCASE("a frame where hello is due") {
    WireSession lead = WireSession::lead(secret, lead_nonce, 1);
    CHECK(session.take(lead.outgoing()).error().code == ErrorCode::corrupt);
  }
}

TEST_CASE("wire: an agent refuses the lead of an earlier epoch and follows that of a later one") {
  Pair stale(secret, 1, 2);
  CHECK(stale.lead_says().error().message().find("epoch") != std::string::npos);

  Pair later(secret, 3, 2);
  later.shake_hands();
  CHECK(later.agent.epoch() == 3);
  later.agent.send(WireKind::report, hello_of("n1"));
  CHECK(later.agent_says()->front().epoch == 3);
}

TEST_CASE("wire: a refusal says why") {
  Pair pair;
  REQUIRE(pair.lead_says().ok());
  REQUIRE(pair.agent_says().ok());
  pair.lead.refuse("no such host");
  const auto told = pair.lead_says();
  REQUIRE(!told.ok());
  CHECK(told.error().message().find("no such host") != std::string::npos);
  CHECK(!pair.agent.open());
}
