// Small parts of the server: tokens, restart budget, arguments, the HTTP server's own timing.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/infer/http/http_client.h"
#include "engine/infer/serve/model_server.h"
#include "engine/infer/serve/openai_api.h"
#include "engine/infer/serve/request_fields.h"
#include "engine/infer/serve/serve.h"
#include "engine/infer/serve/supervisor.h"
#include "tests/unit/engine/infer/fake_text_model.h"

namespace longhaul {

TEST_CASE("the comparison of tokens is exact") {
  CHECK(equal_in_constant_time("abc", "abc"));
  CHECK_FALSE(equal_in_constant_time("abd", "abc"));
  CHECK_FALSE(equal_in_constant_time("ab", "abc"));
  CHECK_FALSE(equal_in_constant_time("abcabc", "abc"));
  CHECK_FALSE(equal_in_constant_time("", "abc"));
  CHECK_FALSE(equal_in_constant_time("abc", ""));
}

TEST_CASE("a token file is new, random, 0600, and refused when others can read it") {
  char folder[] = "/tmp/longhaul-token-XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  const std::string a = join_path(folder, "a"), b = join_path(folder, "b");
  REQUIRE(make_token_file(a).ok());
  REQUIRE(make_token_file(b).ok());
  CHECK(make_token_file(a).error().code == ErrorCode::conflict);
  struct stat info{};
  REQUIRE(::stat(a.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(read_token_file(a).value().size() == 43);
  CHECK(read_token_file(a).value() != read_token_file(b).value());
  ::chmod(a.c_str(), 0640);
  CHECK_FALSE(read_token_file(a).ok());
  REQUIRE(remove_tree(folder).ok());
}

TEST_CASE("restarts are bounded in a window, with growing waits") {
  RestartBudget budget(3, 10'000);
  std::int64_t wait = 0;
  CHECK(budget.take(0, wait));
  CHECK(wait == 200);
  CHECK(budget.take(100, wait));
  CHECK(wait == 400);
  CHECK(budget.take(200, wait));
  CHECK_FALSE(budget.take(300, wait));
  CHECK_FALSE(budget.take(9'999, wait));
  CHECK(budget.take(10'000, wait));
  CHECK(wait == 800);
  CHECK_FALSE(budget.take(10'050, wait));
}

TEST_CASE("arguments of serve") {
  const auto parsed = parse_serve_arguments({"--model", "m", "--token-file", "t", "--port", "8000", "--body-max",
                                             "2MiB", "--header-deadline", "500ms", "--slots", "7", "--supervised"});
  REQUIRE(parsed.ok());
  CHECK(parsed->server.http.port == 8000);
  CHECK(parsed->server.http.limits.body_max == 2 << 20);
  CHECK(parsed->server.http.header_deadline_ms == 500);
  CHECK(parsed->slots == 7);
  CHECK(parsed->supervised);
  CHECK_FALSE(parse_serve_arguments({"--model", "m"}).ok());  // no token file
  CHECK_FALSE(parse_serve_arguments({"--no-token"}).ok());    // no model
  CHECK_FALSE(parse_serve_arguments({"--model", "m", "--no-token", "--host", "0.0.0.0"}).ok());
  CHECK_FALSE(parse_serve_arguments({"--model", "m", "--no-token", "--port", "x"}).ok());
  CHECK_FALSE(parse_serve_arguments({"--model"}).ok());
  CHECK(parse_serve_arguments({"--help"}).value().help);
}

TEST_CASE("trust: without a token a server is not opened to a whole machine by the way") {
  CHECK_FALSE(parse_serve_arguments({"--model", "m", "--no-token"}).ok());
  CHECK(parse_serve_arguments({"--model", "m", "--no-token", "--host", "127.0.0.1"}).ok());
  CHECK_FALSE(parse_serve_arguments({"--model", "m", "--no-token", "--host", "127.example.org"}).ok());
  const auto by_file = parse_serve_arguments({"--model", "m", "--socket", "s"});
  REQUIRE(by_file.ok());
  CHECK(by_file->no_token);
  CHECK_FALSE(parse_serve_arguments({"--model", "m", "--socket", "s", "--host", "127.0.0.1"}).ok());
  CHECK_FALSE(parse_serve_arguments({"--model", "m", "--socket", "s", "--token-file", "t"})->no_token);
}

TEST_CASE("null parameters count as absent; unknown ones are ignored") {
  const Value body = parse_json(R"({"prompt": "x", "max_tokens": null, "stop": null, "seed": null, "top_k": -1,
                                    "logit_bias": {}, "user": "me", "stream_options": {"include_usage": true}})")
                         .value();
  CompletionCall call;
  CHECK_FALSE(parse_completion_call(body, false, {}, call));
  CHECK(call.max_tokens == 16);
  CHECK_FALSE(call.seed);
  CHECK(call.sampling.top_k == 0);
  CHECK(call.include_usage);
}

TEST_CASE("a field that would change the answer is done or refused by name") {
  for (const UndoneField& field : undone_fields()) {
    const std::string key = field.key;
    CAPTURE(key);
    CompletionCall call;
    Value body = Value::make_table();
    body.set("prompt", "x");
    for (const char* harmless : field.harmless) {
      CAPTURE(harmless);
      body.set(key, parse_json(harmless).value());
      CHECK_FALSE(parse_completion_call(body, false, {}, call));
    }
    body.set(key, parse_json(R"({"a": [1]})").value());
    const auto refused = parse_completion_call(body, false, {}, call);
    REQUIRE(refused);
    CHECK(refused->param == key);
    CHECK(refused->message.find("is not done here") != std::string::npos);
  }
}

TEST_CASE("without a seed each answer to each prompt is a draw of its own; with one, equal prompts draw equally") {
  CompletionCall call;
  call.answers = 2;
  std::set<std::uint64_t> streams;
  for (std::size_t prompt = 0; prompt < 3; ++prompt)
    for (std::int64_t answer = 0; answer < 2; ++answer) streams.insert(draw_stream(call, prompt, answer));
  CHECK(streams.size() == 6);
  call.seed = 7;
  CHECK(draw_stream(call, 0, 1) == draw_stream(call, 2, 1));
  CHECK(draw_stream(call, 0, 1) != draw_stream(call, 0, 0));
}

TEST_CASE("requests as clients send them: long answers, begun answers, log-probabilities of either spelling") {
  const auto parse = [](const char* text, CompletionCall& call) {
    const Value body = parse_json(text).value();
    return parse_completion_call(body, body.find("messages") != nullptr, {}, call);
  };
  CompletionCall long_one;
  CHECK_FALSE(parse(R"({"max_tokens": 4096, "messages": [{"role": "user", "content": "hi"}]})", long_one));
  CHECK(long_one.max_tokens == ApiLimits().max_tokens);
  const std::string begun =
      R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "The"}]})";
  for (const char* more : {"{", R"({"continue_final_message": true, "add_generation_prompt": false, )"}) {
    CompletionCall call;
    CHECK_FALSE(parse((more + begun).c_str(), call));
  }
  CompletionCall call;
  CHECK(parse((R"({"add_generation_prompt": true, )" + begun).c_str(), call)->param == "add_generation_prompt");
  CHECK(parse(R"({"continue_final_message": true, "messages": [{"role": "user", "content": "hi"}]})", call)->param ==
        "continue_final_message");
  CompletionCall spelled;
  CHECK_FALSE(parse(R"({"prompt": "x", "logprobs": true, "top_logprobs": 3})", spelled));
  CHECK(spelled.logprobs == 3);
  CompletionCall number;
  CHECK_FALSE(parse(R"({"logprobs": 2, "messages": [{"role": "user", "content": "hi"}]})", number));
  CHECK(number.logprobs == 2);
}

TEST_CASE("without the token nothing is answered but that the server is well") {
  const SystemClock clock;
  ModelServerSettings settings;
  settings.token = "the-token-of-this-server";
  const auto server = ModelServer::start(clock, settings);
  REQUIRE(server.ok());
  (*server)->attach(std::make_unique<FakeTextModel>(2));
  const HttpTarget stranger{"127.0.0.1", (*server)->port(), ""};
  const HttpTarget owner{"127.0.0.1", (*server)->port(), settings.token};
  CHECK(http_get(stranger, "/health", 2'000)->status == 200);
  for (const char* path : {"/metrics", "/v1/models", "/v1/models/model", "/", "/none"}) {
    CAPTURE(path);
    CHECK(http_get(stranger, path, 2'000)->status == 401);
    CHECK(http_get(owner, path, 2'000)->status != 401);
  }
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/v1/score", "/health"}) {
    CAPTURE(path);
    CHECK(http_post_json(stranger, path, "{}", 2'000)->status == 401);
    CHECK(http_post_json(owner, path, "{}", 2'000)->status != 401);
  }
}

TEST_CASE("where no address is asked for a server is open to its own machine alone") {
  const SystemClock clock;
  const auto server = ModelServer::start(clock, {});
  REQUIRE(server.ok());
  const std::string port = format(":{:04X}", (*server)->port());
  std::vector<std::string> addresses;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto text = read_file(table);
    if (!text.ok()) continue;  // a system without IPv6
    for (const std::string& line : split(*text, '\n')) {
      // "  0: 0100007F:1F90 00000000:0000 0A ...": the address, that of the other side, 0A for what listens.
      const std::size_t begin = line.find(": ") + 2, listens = line.find(" 0A ");
      const std::size_t end = line.find(' ', begin);
      if (listens == std::string::npos || end == std::string::npos) continue;
      const std::string address = line.substr(begin, end - begin);
      if (address.ends_with(port)) addresses.push_back(address);
    }
  }
  CHECK(addresses == std::vector<std::string>{"0100007F" + port});
}

TEST_CASE("answers are 503 while the model loads, and drain waits for what runs") {
  SystemClock clock;
  ModelServerSettings settings;
  settings.model_name = "tiny";
  auto server = ModelServer::start(clock, settings);
  REQUIRE(server.ok());
  const HttpTarget target{"127.0.0.1", (*server)->port(), ""};
  CHECK(http_get(target, "/health", 2'000)->status == 503);
  const std::string body = R"({"prompt": "hello", "temperature": 0})";
  CHECK(http_post_json(target, "/v1/completions", body, 2'000)->status == 503);
  (*server)->attach(std::make_unique<FakeTextModel>(2));
  CHECK(http_get(target, "/health", 2'000)->status == 200);
  const auto reply = http_post_json(target, "/v1/completions", body, 5'000);
  REQUIRE(reply.ok());
  CHECK(parse_json(reply->body).value().find("choices")->as_array()[0].get_string("text") == "hello");
  const auto scored = http_post_json(target, "/v1/score", body, 5'000);
  CHECK(scored->status == 404);
  CHECK(scored->body.find("writes text and scores none") != std::string::npos);
  CHECK((*server)->drain(2'000));
  CHECK_FALSE(http_get(target, "/health", 500).ok());
}

}  // namespace longhaul
