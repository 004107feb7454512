// Calls of tools in answers: given back as calls, whole and in pieces; what is no call is text.
#include "engine/infer/serve/tool_calls.h"

#include <doctest/doctest.h>

#include "base/system/clock.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/infer/http/http_client.h"
#include "engine/infer/serve/model_server.h"
#include "tests/unit/engine/infer/fake_text_model.h"

using namespace longhaul;

namespace {

struct CallCase {
  const char *why, *answer, *text;
  std::vector<std::string> calls;  // "name arguments"
};

const std::vector<CallCase>& call_cases() {
  static const std::vector<CallCase> cases = {
      {"no call", "Hello, you.\n", "Hello, you.\n", {}},
      {"a call alone", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>", "", {"f {\"x\":1}"}},
      {"a text before it",
       "Let me see.\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n",
       "Let me see.",
       {"f {}"}},
      {"two calls, a line between them",
       "<tool_call>{\"name\": \"f\"}</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": {\"y\": []}}</tool_call>",
       "",
       {"f {}", "g {\"y\":[]}"}},
      {"a text behind it", "<tool_call>{\"name\": \"f\"}</tool_call> done", " done", {"f {}"}},
      {"the mark in a text of the arguments",
       "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": \"a \\\" </tool_call> b\"}}</tool_call>",
       "",
       {"f {\"x\":\"a \\\" </tool_call> b\"}"}},
      {"without its end", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": \"é\"}}\n", "", {"f {\"x\":\"é\"}"}},
      {"cut", "so <tool_call>{\"name\": \"f\", \"argum", "so <tool_call>{\"name\": \"f\", \"argum", {}},
      {"no JSON", "<tool_call>f(1)</tool_call> x", "<tool_call>f(1)</tool_call> x", {}},
      {"without a name",
       "<tool_call>{\"arguments\": {}}</tool_call>",
       "<tool_call>{\"arguments\": {}}</tool_call>",
       {}},
      {"arguments that are a text",
       "<tool_call>{\"name\": \"f\", \"arguments\": \"{}\"}</tool_call>",
       "<tool_call>{\"name\": \"f\", \"arguments\": \"{}\"}</tool_call>",
       {}},
      {"the beginning of a mark", "a <tool_ca", "a <tool_ca", {}},
      {"half a mark and a whole one", "<tool_<tool_call>{\"name\": \"f\"}</tool_call>", "<tool_", {"f {}"}},
      {"another mark", "x < y <tool>", "x < y <tool>", {}},
  };
  return cases;
}

void check_parts(const CallCase& one, const std::vector<ToolCallReader::Part>& parts) {
  std::string text;
  std::vector<std::string> calls;
  for (const ToolCallReader::Part& part : parts) {
    text += part.text;
    for (const ToolCall& call : part.calls) calls.push_back(call.name + " " + to_json(call.arguments));
  }
  CHECK(text == one.text);
  CHECK(calls == one.calls);
}

// Answers with the last message, and has the marks of calls.
struct EchoServer {
  SystemClock clock;
  std::unique_ptr<ModelServer> server;
  EchoServer() {
    ModelServerSettings settings;
    settings.model_name = "echo";
    server = std::move(*ModelServer::start(clock, settings));
    auto model = std::make_unique<FakeTextModel>(2);
    model->mark_tool_calls();
    server->attach(std::move(model));
  }
  std::string ask(const std::string& answer, const std::string& more) {
    Value message = Value::make_table(), body = parse_json("{" + more + "}").value();
    message.set("role", "user");
    message.set("content", answer);
    body.set("messages", ValueArray{message});
    const auto reply = http_post_json({"127.0.0.1", server->port(), ""}, "/v1/chat/completions", to_json(body), 10'000);
    REQUIRE(reply.ok());
    REQUIRE_MESSAGE(reply->status == 200, reply->body);
    return reply->body;
  }
};

const char* const some_tools = R"("max_tokens": 200, "tools": [{"type": "function", "function": {"name": "f"}}])";
const char* const calling =
    "So: <tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1}}</tool_call>\n"
    "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";

}  // namespace

TEST_CASE("what a model marks as a call is one, everything else is text, however the answer is cut into pieces") {
  CHECK(call_cases().size() >= 10);
  for (const CallCase& one : call_cases()) {
    CAPTURE(one.why);
    const std::string answer = one.answer;
    for (std::size_t size = 1; size <= answer.size(); ++size) {
      CAPTURE(size);
      ToolCallReader reader;
      std::vector<ToolCallReader::Part> parts;
      for (std::size_t at = 0; at < answer.size(); at += size) parts.push_back(reader.push(answer.substr(at, size)));
      parts.push_back(reader.finish());
      check_parts(one, parts);
    }
  }
}

TEST_CASE("calls are given back as tool_calls, whole and in a stream") {
  EchoServer echo;
  const Value whole = parse_json(echo.ask(calling, some_tools)).value();
  const Value& choice = whole.find("choices")->as_array()[0];
  CHECK(choice.get_string("finish_reason") == "tool_calls");
  const Value& message = *choice.find("message");
  CHECK(message.get_string("content") == "So:");
  REQUIRE(message.find("tool_calls"));
  const ValueArray& calls = message.find("tool_calls")->as_array();
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].get_string("type") == "function");
  CHECK(calls[0].get_string("id") != calls[1].get_string("id"));
  CHECK(calls[0].find("function")->get_string("name") == "f");
  CHECK(calls[0].find("function")->get_string("arguments") == R"({"x":1})");

  std::string text, finish;
  std::vector<std::string> names;
  for (const std::string& line : split(echo.ask(calling, std::string(some_tools) + R"(, "stream": true)"), '\n')) {
    if (!starts_with(line, "data: {")) continue;
    const Value piece = parse_json(line.substr(6)).value();
    const Value& one = piece.find("choices")->as_array()[0];
    const Value& delta = *one.find("delta");
    text += delta.get_string("content");
    if (const Value* given = delta.find("tool_calls"))
      for (const Value& call : given->as_array()) {
        CHECK(call.get_integer("index", -1) == static_cast<std::int64_t>(names.size()));
        names.push_back(call.find("function")->get_string("name"));
      }
    if (!one.find("finish_reason")->is_null()) finish = one.get_string("finish_reason");
  }
  CHECK(text == "So:");
  CHECK(names == std::vector<std::string>{"f", "g"});
  CHECK(finish == "tool_calls");
}

TEST_CASE("calls are text where no tools were given, or none is to be called; an answer of calls alone has no text") {
  EchoServer echo;
  const std::string none = std::string(some_tools) + R"(, "tool_choice": "none")";
  for (const std::string& more : {std::string(R"("max_tokens": 200)"), none}) {
    const Value whole = parse_json(echo.ask(calling, more)).value();
    const Value& choice = whole.find("choices")->as_array()[0];
    CHECK(choice.get_string("finish_reason") == "stop");
    CHECK(choice.find("message")->get_string("content") == calling);
    CHECK_FALSE(choice.find("message")->find("tool_calls"));
  }
  const Value whole = parse_json(echo.ask(R"(<tool_call>{"name": "f"}</tool_call>)", some_tools)).value();
  const Value& message = *whole.find("choices")->as_array()[0].find("message");
  REQUIRE(message.find("content"));
  CHECK(message.find("content")->is_null());
}
