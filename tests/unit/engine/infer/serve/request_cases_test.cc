// Requests as clients send them (tests/cases/requests/own.jsonl): taken as they say, or refused by the name of the
// field; and the tables of fields that docs/compatibility.md is written from.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/borders/request_field.h"
#include "engine/infer/serve/openai_api.h"

using namespace longhaul;

namespace {

void check_refused(const Value& one, const std::optional<ApiError>& error) {
  REQUIRE(error);
  CHECK(error->status == 400);
  CHECK(error->param == one.get_string("param"));
  CAPTURE(error->message);
  CHECK(error->message.find(one.get_string("error")) != std::string::npos);
}

void check_taken(const Value& one, const std::optional<ApiError>& error, const CompletionCall& call) {
  const std::string message = error ? error->message : "";
  REQUIRE_MESSAGE(message.empty(), message);
  if (const Value* messages = one.find("messages")) {
    REQUIRE(call.messages.size() == messages->size());
    for (std::size_t i = 0; i < call.messages.size(); ++i) {
      CHECK(call.messages[i].role == messages->as_array()[i].as_array()[0].as_string());
      CHECK(call.messages[i].content == messages->as_array()[i].as_array()[1].as_string());
    }
  }
  CHECK(static_cast<std::int64_t>(call.prompts.size()) == one.get_integer("prompts"));
  CHECK(static_cast<std::int64_t>(call.tools.size()) == one.get_integer("tools"));
  std::size_t calls = 0;
  for (const ChatMessage& one_message : call.messages) calls += one_message.tool_calls.size();
  CHECK(static_cast<std::int64_t>(calls) == one.get_integer("calls"));
}

// A call that says the least.
Value least_call(bool chat) {
  return parse_json(chat ? R"({"messages": [{"role": "user", "content": "a"}]})" : R"({"prompt": "a"})").value();
}

}  // namespace

TEST_CASE("requests as clients send them are taken as they say, or refused by the name of the field") {
  int cases = 0;
  const std::string file = std::string(LONGHAUL_SOURCE_DIR) + "/tests/cases/requests/own.jsonl";
  for (const std::string& line : split(read_file(file).value(), '\n')) {
    if (line.empty()) continue;
    const Value one = parse_json(line, "own.jsonl").value();
    const std::string why = one.get_string("why");
    CAPTURE(why);
    CompletionCall call;
    const auto error = parse_completion_call(*one.find("body"), one.get_string("path") == "chat", {}, call);
    one.find("error") ? check_refused(one, error) : check_taken(one, error, call);
    ++cases;
  }
  CHECK(cases >= 37);
}

TEST_CASE("fields that are done are looked at: one of a wrong kind is refused by its name") {
  for (const DoneField& field : done_fields())
    for (const bool chat : {true, false}) {
      if (field.of == (chat ? RequestKind::completion : RequestKind::chat)) continue;
      const std::string key = field.key;
      CAPTURE(key);
      CAPTURE(chat);
      Value body = least_call(chat);
      body.set(key, parse_json(key == "stream_options" ? "7" : R"({"a": 1})").value());
      CompletionCall call;
      const auto error = parse_completion_call(body, chat, {}, call);
      REQUIRE(error);
      CHECK(error->param == key);
    }
}

TEST_CASE("fields of messages that are not done are refused by place; what asks for nothing is taken") {
  for (const UndoneField& field : undone_message_fields()) {
    CAPTURE(field.key);
    const auto refused = [&](const char* json) {
      Value body =
          parse_json(format(R"({{"messages": [{{"role": "user", "content": "a", "{}": {}}}]}})", field.key, json))
              .value();
      CompletionCall call;
      const auto error = parse_completion_call(body, true, {}, call);
      return error ? error->param : "";
    };
    CHECK(refused(R"({"x": [1]})") == format("messages[0].{}", field.key));
    CHECK(refused("null").empty());
    for (const char* harmless : field.harmless) CHECK(refused(harmless).empty());
  }
}

TEST_CASE("no field of a request stands in two tables") {
  std::set<std::string> keys;
  for (const DoneField& field : done_fields()) CHECK_MESSAGE(keys.insert(field.key).second, field.key);
  for (const UndoneField& field : undone_fields()) CHECK_MESSAGE(keys.insert(field.key).second, field.key);
  for (const HarmlessField& field : harmless_fields()) {
    CHECK_MESSAGE(keys.insert(field.key).second, field.key);
    for (const bool chat : {true, false}) {
      Value body = least_call(chat);
      body.set(field.key, parse_json(R"({"a": [1]})").value());
      CompletionCall call;
      CHECK_FALSE(parse_completion_call(body, chat, {}, call));
    }
  }
}
