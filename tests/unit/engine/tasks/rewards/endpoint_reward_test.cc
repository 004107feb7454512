// An endpoint that judges answers, beside a server in this process: what it is asked, what counts, and what is said of
// everything that can go wrong.
#include "engine/tasks/rewards/endpoint_reward.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/value/json.h"
#include "tests/unit/engine/tasks/rewards/reward_server.h"

namespace longhaul {
namespace {

std::vector<RewardQuestion> three_answers() {
  return {{"p", "a \"quoted\" one", 1}, {"p", "b", "text"}, {"q", "c", Value()}};
}

std::vector<Reward> rewards_by(const std::string& url, std::int64_t deadline_s = 60) {
  const std::vector<RewardQuestion> questions = three_answers();
  const std::vector<Reward> rewards = EndpointReward(url, deadline_s).judge(questions);
  REQUIRE(rewards.size() == questions.size());
  return rewards;
}

// The one problem of all three answers.
std::string problem_of_all(const std::string& url, std::int64_t deadline_s = 60) {
  const std::vector<Reward> rewards = rewards_by(url, deadline_s);
  for (const Reward& one : rewards) {
    CHECK(!one.value);
    CHECK(one.problem == rewards.front().problem);
  }
  return rewards.front().problem;
}

bool says_so(const std::string& text, const char* part) {
  CAPTURE(text);
  CAPTURE(part);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an endpoint gets all answers in one request, as a command gets them, and gives a number or null for each") {
  RewardServer server([](std::size_t, const HttpRequest&) { return endpoint_says("{\"rewards\": [0.25, null, -3]}"); });
  const std::vector<Reward> rewards = rewards_by(server.url());
  CHECK(rewards[0].value == 0.25);
  CHECK(!rewards[1].value);
  CHECK(says_so(rewards[1].problem, "no reward (null)"));
  CHECK(rewards[2].value == -3);
  const std::vector<HttpRequest> requests = server.requests();
  REQUIRE(requests.size() == 1);
  CHECK(requests[0].method == "POST");
  CHECK(requests[0].path == "/judge");
  CHECK(requests[0].query == "of=answers");
  CHECK(*requests[0].header("content-type") == "application/json");
  CHECK(*parse_json(requests[0].body) == *parse_json(R"({"items": [
      {"prompt": "p", "completion": "a \"quoted\" one", "answer": 1},
      {"prompt": "p", "completion": "b", "answer": "text"},
      {"prompt": "q", "completion": "c", "answer": null}]})"));
}

TEST_CASE("what is no number is the problem of its answer, everything else of all") {
  std::string body;
  int status = 201;
  RewardServer server([&](std::size_t, const HttpRequest&) { return endpoint_says(body, status); });
  body = "{\"rewards\": [\"good\", true, 1]}";
  const std::vector<Reward> rewards = rewards_by(server.url());
  CHECK(says_so(rewards[0].problem, "\"good\", which is no number"));
  CHECK(says_so(rewards[1].problem, "true, which is no number"));
  CHECK(rewards[2].value == 1);
  body = "{\"rewards\": [1, 2]}";
  CHECK(says_so(problem_of_all(server.url()), "2 rewards for 3 items"));
  body = "{\"rewards\": [1, 2, NaN]}";
  CHECK(says_so(problem_of_all(server.url()), "the endpoint's answer is not valid JSON"));
  body = "[1, 2, 3]";
  CHECK(says_so(problem_of_all(server.url()), "no list \"rewards\""));
  body = "out of memory", status = 500;
  CHECK(says_so(problem_of_all(server.url()), "the status 500: out of memory"));
  body = "{\"rewards\": [1, 2, 3]}", status = 302;  // redirects are not followed
  CHECK(says_so(problem_of_all(server.url()), "the status 302"));
  CHECK(server.requests().size() == 6);  // none of them is asked again
}

TEST_CASE("an endpoint that is busy or not there is asked once more, within the deadline") {
  RewardServer busy_once([](std::size_t number, const HttpRequest&) {
    return number == 0 ? endpoint_says("", 503) : endpoint_says("{\"rewards\": [1, 1, 1]}");
  });
  for (const Reward& one : rewards_by(busy_once.url())) CHECK(one.value == 1);
  CHECK(busy_once.requests().size() == 2);
  RewardServer busy([](std::size_t, const HttpRequest&) { return endpoint_says("later", 503); });
  CHECK(says_so(problem_of_all(busy.url()), "the status 503: later"));
  CHECK(busy.requests().size() == 2);
  RewardServer busy_for_long([](std::size_t, const HttpRequest&) {
    HttpResponse response = endpoint_says("", 503);
    response.headers.emplace_back("Retry-After", "30");
    return response;
  });
  CHECK(says_so(problem_of_all(busy_for_long.url(), 10), "the status 503"));
  CHECK(busy_for_long.requests().size() == 1);  // the deadline comes before

  const int listening = *listen_on("127.0.0.1", 0);
  const std::string nobody = format("http://127.0.0.1:{}/", *port_of(listening));
  ::close(listening);
  CHECK(says_so(problem_of_all(nobody), "the endpoint did not answer"));
}

TEST_CASE("an endpoint that does not answer by the deadline is given up, and its address stands in no message") {
  RewardServer silent([](std::size_t, const HttpRequest&) { return std::nullopt; });
  const SystemClock clock;
  const std::int64_t begun_ns = clock.monotonic_ns();
  const std::string problem = problem_of_all(silent.url(), 1);
  CHECK(says_so(problem, "the endpoint did not answer"));
  CHECK(problem.find("127.0.0.1") == std::string::npos);
  CHECK(clock.monotonic_ns() - begun_ns >= 900'000'000);
  CHECK(silent.requests().size() == 1);
}

}  // namespace longhaul
