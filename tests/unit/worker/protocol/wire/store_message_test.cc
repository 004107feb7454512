#include "worker/protocol/wire/store_message.h"

#include <doctest/doctest.h>

#include <string>

#include "base/value/json.h"
#include "contracts/control/rendezvous_folder.h"
#include "worker/protocol/wire/wire.h"

namespace longhaul {
namespace {

Result<StoreMessage> read_entries(const std::string& json) {
  return store_message_from_value(parse_json(json, "message").value());
}

}  // namespace

TEST_CASE("entries on their way: any bytes arrive as they were") {
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes += static_cast<char>(byte);
  const StoreMessage message{3, {{"id", all_bytes}, {"empty", ""}}, {"other", "id.rank2"}, {{"lost", "two of them"}}};
  const auto read = store_message_from_value(parse_json(to_json(store_message_to_value(message)), "message").value());
  REQUIRE(read.ok());
  CHECK(read->launch == 3);
  CHECK(read->entries == message.entries);
  CHECK(read->wanted == message.wanted);
  CHECK(read->refused == message.refused);
  CHECK(!read->empty());
  CHECK(store_message_from_value(store_message_to_value({1, {}, {}, {}}))->empty());
}

TEST_CASE("entries on their way: what is none is corrupt") {
  REQUIRE(read_entries(R"({"launch":1,"words":[["a","00ff"]],"wanted":["b"],"refused":[["c",""]]})").ok());
  for (const char* bad :
       {R"({"words":[]})", R"({"launch":-1})", R"({"launch":1,"words":{}})", R"({"launch":1,"words":["a"]})",
        R"({"launch":1,"words":[["a"]]})", R"({"launch":1,"words":[["a",1]]})", R"({"launch":1,"words":[[1,"00"]]})",
        R"({"launch":1,"words":[["../a","00"]]})", R"({"launch":1,"words":[["a","0"]]})",
        R"({"launch":1,"words":[["a","0G"]]})", R"({"launch":1,"words":[["a","0A"]]})", R"({"launch":1,"wanted":"a"})",
        R"({"launch":1,"wanted":["a/b"]})", R"({"launch":1,"wanted":[7]})",
        R"({"launch":1,"refused":[["..","00"]]})"}) {
    CAPTURE(bad);
    const auto read = read_entries(bad);
    REQUIRE(!read.ok());
    CHECK(read.error().code == ErrorCode::corrupt);
  }
  const std::string longest(2 * store_value_bytes_max, '0');
  CHECK(read_entries(R"({"launch":1,"words":[["a",")" + longest + R"("]]})").ok());
  CHECK(!read_entries(R"({"launch":1,"words":[["a",")" + longest + R"(00"]]})").ok());
}

TEST_CASE("entries on their way: many of the longest fit into frames, each once and in their order") {
  StoreMessage message;
  message.launch = 2;
  for (int i = 0; i < 500; ++i)
    message.entries.push_back(
        {std::to_string(1000 + i) + std::string(store_key_max - 4, 'n'), std::string(store_value_bytes_max, 'w')});
  for (int i = 0; i < 9000; ++i)
    message.wanted.push_back(std::to_string(10'000 + i) + std::string(store_key_max - 5, 'n'));
  for (int i = 0; i < 500; ++i)
    message.refused.push_back({std::to_string(i), std::string(store_value_bytes_max, '\xff')});
  StoreMessage all;
  const auto parts = split_store_message(message);
  CHECK(parts.size() > 10);
  for (const StoreMessage& part : parts) {
    CHECK(part.launch == 2);
    CHECK(to_json(store_message_to_value(part)).size() < wire_body_max);
    all.entries.insert(all.entries.end(), part.entries.begin(), part.entries.end());
    all.wanted.insert(all.wanted.end(), part.wanted.begin(), part.wanted.end());
    all.refused.insert(all.refused.end(), part.refused.begin(), part.refused.end());
  }
  CHECK(all.entries == message.entries);
  CHECK(all.wanted == message.wanted);
  CHECK(all.refused == message.refused);
  CHECK(split_store_message({2, {}, {}, {}}).empty());
}

TEST_CASE("entries on their way: either side sends them once both have greeted, and not before") {
  WireSession lead = WireSession::lead("secret", std::string(64, 'a'), 1);
  WireSession agent = WireSession::agent("secret", std::string(64, 'b'), 1, Value::make_table());
  REQUIRE(agent.take(lead.outgoing()).ok());
  REQUIRE(lead.take(agent.outgoing()).ok());
  lead.welcome(Value::make_table());
  REQUIRE(agent.take(lead.outgoing()).ok());
  const Value body = store_message_to_value({1, {{"a", "b"}}, {}, {}});
  agent.send(WireKind::store, body);
  lead.send(WireKind::store, body);
  const auto up = lead.take(agent.outgoing()), down = agent.take(lead.outgoing());
  REQUIRE((up.ok() && down.ok()));
  CHECK(up->front().kind == WireKind::store);
  CHECK(store_message_from_value(down->front().body)->entries == std::vector<StoreEntry>{{"a", "b"}});
  CHECK(std::string(to_string(WireKind::store)) == "store");
}

}  // namespace longhaul
