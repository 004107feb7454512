// Who speaks between two turns: what a program and an endpoint are asked, what counts as a reply, and what is said of
// everything that can go wrong.
#include "engine/tasks/environment/environment.h"

#include <doctest/doctest.h>

#include "base/value/json.h"
#include "tests/unit/engine/tasks/rewards/reward_server.h"

namespace longhaul {
namespace {

namespace environment_test {

std::vector<OpenConversation> two_conversations() {
  return {{{{"system", "be brief"}, {"user", "2+2?"}, {"assistant", "call 2+2"}}, 1, "4"},
          {{{"user", "3?"}, {"assistant", "a \"b\""}}, 2, Value()}};
}

RolloutSettings by_script(const std::string& script, std::int64_t deadline_s = 60) {
  RolloutSettings settings;
  settings.turns = 3, settings.environment = {"/bin/sh", "-c", script}, settings.environment_deadline_s = deadline_s;
  return settings;
}

std::vector<EnvironmentReply> replies_by(const RolloutSettings& settings) {
  const std::vector<OpenConversation> asked = two_conversations();
  const std::vector<EnvironmentReply> replies = Environment(settings).ask(asked);
  REQUIRE(replies.size() == asked.size());
  for (const EnvironmentReply& one : replies) CHECK((one.problem.empty() || one.done));
  return replies;
}

// The one problem of all conversations.
std::string problem_of_both(const RolloutSettings& settings) {
  const std::vector<EnvironmentReply> replies = replies_by(settings);
  CHECK(replies[0].problem == replies[1].problem);
  return replies[0].problem;
}

bool names(const std::string& text, const char* part) {
  CAPTURE(text);
  CAPTURE(part);
  return text.find(part) != std::string::npos;
}

constexpr const char* lines_of_both = R"({"messages":[{"role":"system","content":"be brief"},)"
                                      R"({"role":"user","content":"2+2?"},)"
                                      R"({"role":"assistant","content":"call 2+2"}],"turn":1,"answer":"4"})";

TEST_CASE("a program gets each conversation whole, and replies to it or ends it") {
  const auto replies = replies_by(by_script(R"(read a; read b; echo '{"content": "4", "done": false}'
      case "$b" in *'"turn":2'*) echo '{"done": true}';; esac)"));
  CHECK(replies[0].content == "4");
  CHECK_FALSE(replies[0].done);
  CHECK(replies[1].content.empty());
  CHECK(replies[1].done);
  for (const EnvironmentReply& one : replies) CHECK(one.problem.empty());
  const auto echoed = replies_by(by_script(
      R"sh(read a; read b; printf '{"content": "%s"}\n{"content": "", "done": true}\n' "$(echo "$a" | sed 's/"/\\"/g')")sh"));
  CHECK(*parse_json(echoed[0].content) == *parse_json(lines_of_both));
  CHECK(Environment(by_script("exit 1")).ask({}).empty());
}

TEST_CASE("what is no reply is the problem of its conversation alone") {
  const auto problem = [](const std::string& line) {
    const auto replies =
        replies_by(by_script("cat > /dev/null; cat <<'END'\n" + line + "\n{\"content\": \"fine\"}\nEND"));
    CHECK(replies[1].content == "fine");
    CHECK(replies[1].problem.empty());
    CHECK(replies[0].content.empty());
    return replies[0].problem;
  };
  CHECK(names(problem("Traceback"), "prints 'Traceback', which is no JSON"));
  CHECK(names(problem("[1]"), "says [1], which is no reply"));
  CHECK(names(problem(R"({"content": "a", "reward": 1})"), "gives the key 'reward', which no reply has"));
  CHECK(names(problem(R"({"content": 4})"), "gives integer as 'content'"));
  CHECK(names(problem(R"({"content": "a", "done": "no"})"), "gives string as 'done'"));
  CHECK(names(problem(R"({"done": false})"), "gives no content, and is not done"));
  const auto longest = replies_by(by_script(
      R"sh(cat > /dev/null; printf '{"content": "%s"}\n' "$(head -c 1048577 /dev/zero | tr '\0' x)"; echo '{"done": true}')sh"));
  CHECK(names(longest[0].problem, "gives a content of 1048577 bytes, more than 1048576"));
  CHECK(longest[1].problem.empty());
}

TEST_CASE("a program that hangs, dies or prints another number of lines is the problem of those without a reply") {
  CHECK(names(problem_of_both(by_script("sleep 60", 1)), "the environment fails: "));
  RolloutSettings missing = by_script("");
  missing.environment = {"/no/such/program"};
  CHECK(names(problem_of_both(missing), "/no/such/program"));
  CHECK(names(problem_of_both(by_script("cat > /dev/null; for i in 1 2 3; do echo '{\"done\": true}'; done")),
              "prints 3 lines for 2 conversations"));
  const auto silent = replies_by(by_script("read a; read b; echo '{\"content\": \"4\"}'"));
  CHECK(silent[0].content == "4");
  CHECK(names(silent[1].problem, "the environment prints nothing for it"));
}

TEST_CASE("a program that fails is not believed, whatever it has printed") {
  const std::string both = "read a; read b; echo '{\"content\": \"4\"}'; echo '{\"done\": true}'; ";
  CHECK(names(problem_of_both(by_script(both + "kill -9 $$")), "the environment fails: killed by signal 9"));
  CHECK(names(problem_of_both(by_script(both + "echo Traceback >&2; echo 'no module' >&2; exit 1")),
              "the environment fails: exit code 1 (no module)"));
  CHECK(names(problem_of_both(by_script("read a; echo '{\"content\": \"4\"}'; exit 3")), "fails: exit code 3"));
}

TEST_CASE("an endpoint gets the lines of a program as items, and says one reply for each") {
  std::string body = R"({"replies": [{"content": "4"}, {"done": true}]})";
  RewardServer server([&](std::size_t, const HttpRequest&) { return endpoint_says(body); });
  RolloutSettings settings;
  settings.turns = 2, settings.environment_url = server.url();
  const auto replies = replies_by(settings);
  CHECK(replies[0].content == "4");
  CHECK(replies[1].done);
  const Value asked = *parse_json(server.requests().at(0).body);
  CHECK(asked.find("items")->as_array().at(0) == *parse_json(lines_of_both));
  body = R"({"replies": [{"content": "4"}]})";
  CHECK(names(problem_of_both(settings), "the endpoint gives 1 replies for 2 items"));
}

}  // namespace environment_test

}  // namespace
}  // namespace longhaul
