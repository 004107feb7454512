#include "worker/protocol/wire/wire.h"

#include <doctest/doctest.h>

#include <chrono>

#include "base/value/json.h"
#include "tests/support/hostile_json.h"
#include "tests/support/patience.h"

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
  CHECK(hello.error().code == ErrorCode::unavailable);
  CHECK(pair.lead.stranger());
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

namespace {

// A frame as somebody would send it who knows as much as the test.
std::string frame_of(std::uint16_t version, WireKind kind, std::uint64_t number, const std::string& nonce,
                     const std::string& body, HmacKey* key, std::uint32_t claimed_bytes = 0) {
  std::string frame = "LHW1";
  const auto put = [&](std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) frame += static_cast<char>(value >> (8 * i) & 0xFF);
  };
  put(version, 2), put(static_cast<std::uint64_t>(kind), 2);
  put(claimed_bytes > 0 ? claimed_bytes : body.size(), 4), put(0, 4), put(1, 8), put(number, 8);
  frame += nonce + body;
  const Mac mac = key ? key->sign(frame) : Mac{};
  return frame.append(reinterpret_cast<const char*>(mac.data()), mac.size());
}

const std::string lead_nonce_bytes(32, '\xaa'), agent_nonce_bytes(32, '\xbb');

HmacKey key_of(const std::string& direction) {
  const Mac mac = hmac_sha256(secret, direction + "\n" + lead_nonce_bytes + agent_nonce_bytes);
  return HmacKey({reinterpret_cast<const char*>(mac.data()), mac.size()});
}

}  // namespace

TEST_CASE("trust: whatever strangers say to a lead or an agent is unavailable, and none of it is kept") {
  const std::vector<std::string> sayings = {
      "GET / HTTP/1.1\r\nHost: n1\r\n\r\n",
      "SSH-2.0-OpenSSH_9.2p1\r\n",
      "XXXX" + std::string(60, '\0'),
      frame_of(1, WireKind::challenge, 0, "", "{\"nonce\":\"" + std::string(64, 'a') + "\"}", nullptr),
      frame_of(9, WireKind::welcome, 0, lead_nonce_bytes, "{}", nullptr),
      frame_of(wire_version, WireKind::refused, 0, lead_nonce_bytes, R"({"why":"go","for_good":true})", nullptr),
      frame_of(wire_version, WireKind::hello, 0, agent_nonce_bytes, "{}", nullptr, 4097),
      frame_of(wire_version, WireKind::challenge, 0, lead_nonce_bytes, "", nullptr, 0x7F000000),
      frame_of(wire_version, WireKind::challenge, 7, lead_nonce_bytes, "", nullptr),
      frame_of(wire_version, WireKind::challenge, 0, lead_nonce_bytes, "", nullptr) + "no frame",
      frame_of(wire_version, WireKind::challenge, 0, lead_nonce_bytes, "", nullptr) +
          frame_of(9, WireKind::refused, 1, "", R"({"for_good":true})", nullptr),
      frame_of(wire_version, WireKind::hello, 0, agent_nonce_bytes, "{\"a\":", nullptr)};
  for (const std::string& saying : sayings) {
    CAPTURE(saying);
    WireSession lead = WireSession::lead(secret, lead_nonce, 1);
    WireSession agent = WireSession::agent(secret, agent_nonce, 1, hello_of("n1"));
    for (WireSession* session : {&lead, &agent}) {
      const auto taken = session->take(saying);
      REQUIRE_FALSE(taken.ok());
      CHECK(taken.error().code == ErrorCode::unavailable);
      CHECK(session->stranger());
    }
  }
}

TEST_CASE("trust: no bytes of a stranger are parsed, however many he has") {
  const auto begun = std::chrono::steady_clock::now();
  for (const HostileJson& hostile : hostile_json()) {
    WireSession lead = WireSession::lead(secret, lead_nonce, 1);
    const std::string body = hostile.text(1'000'000);  // less than an open connection takes
    CHECK_FALSE(lead.take(frame_of(wire_version, WireKind::hello, 0, agent_nonce_bytes, body, nullptr)).ok());
    WireSession agent = WireSession::agent(secret, agent_nonce, 1, hello_of("n1"));
    CHECK_FALSE(agent.take(frame_of(wire_version, WireKind::challenge, 0, lead_nonce_bytes, body, nullptr)).ok());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  CHECK(seconds < 1e-3 * static_cast<double>(testing::patience_ms(2'000)));
}

TEST_CASE("wire: another release is refused by its number, in a frame that both can trust") {
  HmacKey to_lead = key_of("agent to lead"), to_agent = key_of("lead to agent");
  WireSession lead = WireSession::lead(secret, lead_nonce, 1);
  (void)lead.outgoing();
  const auto other = lead.take(frame_of(9, WireKind::hello, 0, agent_nonce_bytes, "what 9 says", &to_lead));
  REQUIRE_FALSE(other.ok());
  CHECK(other.error().code == ErrorCode::unsupported);
  CHECK(other.error().what == "the other side speaks version 9 of the protocol, this one 3");
  CHECK_FALSE(lead.stranger());
  // Its answer is for an agent of any release from this one on: here one that had taken it for its own.
  WireSession agent = WireSession::agent(secret, agent_nonce, 1, hello_of("n1"));
  REQUIRE(agent.take(frame_of(wire_version, WireKind::challenge, 0, lead_nonce_bytes, "", nullptr)).ok());
  const auto refused = agent.take(lead.outgoing());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::conflict);

  // An agent speaks to a lead of another release until that has signed something.
  WireSession newer = WireSession::agent(secret, agent_nonce, 1, hello_of("n1"));
  REQUIRE(newer.take(frame_of(9, WireKind::challenge, 0, lead_nonce_bytes, "", nullptr)).ok());
  CHECK(newer.has_outgoing());
  const auto reported = newer.take(frame_of(9, WireKind::refused, 1, "", "what 9 says", &to_agent));
  REQUIRE_FALSE(reported.ok());
  CHECK(reported.error().code == ErrorCode::unsupported);
}

TEST_CASE("wire: what was signed and cannot be understood is corrupt, and ends no agent for good") {
  Pair pair;
  pair.shake_hands();
  HmacKey to_agent = key_of("lead to agent");
  const auto taken = pair.agent.take(frame_of(wire_version, WireKind::order, 2, "", "{\"a\":", &to_agent));
  REQUIRE_FALSE(taken.ok());
  CHECK(taken.error().code == ErrorCode::corrupt);
  CHECK_FALSE(pair.agent.stranger());

  // A second challenge is one at the wrong time, with a mac or without.
  for (HmacKey* key : {&to_agent, static_cast<HmacKey*>(nullptr)}) {
    Pair other;
    other.shake_hands();
    CHECK_FALSE(other.agent.take(frame_of(wire_version, WireKind::challenge, 2, "", "", key)).ok());
  }
}

TEST_CASE("wire: once it is open a message may be as long as 1 MiB") {
  Pair pair;
  pair.shake_hands();
  const Value large = hello_of(std::string(900'000, 'x'));
  pair.agent.send(WireKind::report, large);
  const auto taken = pair.agent_says();
  REQUIRE(taken.ok());
  CHECK(taken->front().body == large);
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
  const auto reported = pair.lead_says();
  REQUIRE(!reported.ok());
  CHECK(reported.error().message().find("no such host") != std::string::npos);
  CHECK(!pair.agent.open());
}
