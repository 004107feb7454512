// What a call becomes in numbers, and how an answer is written: names of tokens, reasons to end, headers of errors.
#include <doctest/doctest.h>

#include <string>

#include "base/value/json.h"
#include "engine/infer/serve/openai_api.h"
#include "tests/unit/engine/infer/fake_text_model.h"

using namespace longhaul;

namespace {

CompletionCall taken_call(const std::string& json) {
  const Value body = parse_json(json).value();
  CompletionCall call;
  const auto error = parse_completion_call(body, body.find("messages") != nullptr, {}, call);
  REQUIRE_MESSAGE(!error, error->message);
  return call;
}

std::string chat_with(const std::string& more) {
  return R"({"messages": [{"role": "user", "content": "a"}])" + more + "}";
}

Value written_choice(const CompletionCall& call, const AnswerPart& part) {
  const FakeTextModel model;
  const std::string text = AnswerFormat(call, "cmpl-1", 0, "m", model).whole({part}, {});
  return parse_json(text).value().find("choices")->as_array()[0];
}

std::string header_of(const HttpResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers)
    if (key == name) return value;
  return "";
}

}  // namespace

TEST_CASE("numbers of a request: the newer of two names counts, a seed is kept, empty texts end nothing") {
  CHECK(taken_call(chat_with(R"(, "max_tokens": 9, "max_completion_tokens": 5)")).max_tokens == 5);
  CHECK(taken_call(chat_with(R"(, "max_tokens": 5, "max_completion_tokens": 9)")).max_tokens == 9);
  CHECK(taken_call(chat_with(R"(, "seed": 7)")).seed == 7);
  CHECK(taken_call(chat_with(R"(, "stop": ["", "b"])")).stops == std::vector<std::string>{"b"});
  CHECK_FALSE(taken_call(chat_with(R"(, "logprobs": false)")).logprobs);
  CHECK(taken_call(chat_with(R"(, "logprobs": true)")).logprobs == 0);
  CHECK(taken_call(R"({"prompt": "a", "max_tokens": 0})").max_tokens == 0);
  const CompletionCall tool = taken_call(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "1",
          "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
          {"role": "tool", "tool_call_id": "1", "name": "f", "content": "42"}]})");
  CHECK(tool.messages.back().name == "f");
  CHECK(tool.messages.back().tool_call_id == "1");
}

TEST_CASE("a token that is part of a character is named by its bytes, and a name stands once among the others") {
  CompletionCall call;
  call.logprobs = 3;
  AnswerPart part;
  GeneratedToken token;
  token.token = 0xC3, token.logprob = -1;
  token.top = {{0xC3, -1}, {'a', -2}, {'a', -3}};
  part.tokens = {token};
  const Value choice = written_choice(call, part);
  const Value& logprobs = *choice.find("logprobs");
  CHECK(logprobs.find("tokens")->as_array()[0].as_string() == "bytes:\\xc3");
  CHECK(to_json(logprobs.find("top_logprobs")->as_array()[0]) == R"({"bytes:\\xc3":-1.0,"a":-2.0})");
}

TEST_CASE("an answer that was cut says so although it calls; one without text has an empty one, or none beside calls") {
  CompletionCall chat;
  chat.chat = true;
  AnswerPart part;
  part.finish = FinishReason::stop;
  Value choice = written_choice(chat, part);
  CHECK(choice.get_string("finish_reason") == "stop");
  REQUIRE(choice.find("message")->find("content"));
  CHECK(choice.find("message")->find("content")->is_string());
  part.calls = {{"", "f", Value::make_table()}};
  choice = written_choice(chat, part);
  CHECK(choice.get_string("finish_reason") == "tool_calls");
  CHECK(choice.find("message")->find("content")->is_null());
  part.finish = FinishReason::length;
  CHECK(written_choice(chat, part).get_string("finish_reason") == "length");
}

TEST_CASE("errors say when to come again, and how to say who asks") {
  CHECK(header_of(error_response({503, "loads", "", ""}), "Retry-After") == "1");
  CHECK(header_of(error_response({429, "full", "", ""}), "Retry-After") == "1");
  CHECK(header_of(error_response({400, "wrong", "n", ""}), "Retry-After") == "");
  CHECK(header_of(error_response({401, "who", "", ""}), "WWW-Authenticate") == "Bearer");
}
