#include "engine/data/samples/prompt_rows.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {

std::string prompt_problems(std::string_view text, bool needs_answer = true) {
  const auto read = parse_prompts(text, "p.jsonl", needs_answer);
  REQUIRE(!read.ok());
  return read.error().message();
}

}  // namespace

TEST_CASE("prompts are texts or conversations that the user ends, with an answer of any JSON") {
  const auto read = parse_prompts(
      "{\"prompt\": \"2+2?\", \"answer\": \"4\"}\n\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"},"
      " {\"role\": \"user\", \"content\": \"c\"}], \"system\": \"s\", \"answer\": {\"x\": 1}, \"note\": 1}\n",
      "p.jsonl", true, std::vector<std::string>{"note"});
  REQUIRE_MESSAGE(read.ok(), read.error().message());
  REQUIRE(read->size() == 2);
  CHECK((*read)[0].messages == std::vector<ChatMessage>{{.role = "user", .content = "2+2?"}});
  CHECK((*read)[0].answer.as_string() == "4");
  CHECK((*read)[1].line == 3);
  CHECK((*read)[1].messages.size() == 4);
  CHECK((*read)[1].messages[0].role == "system");
  CHECK((*read)[1].question() == "c");
  CHECK((*read)[1].answer.get_integer("x") == 1);
  CHECK(parse_prompts("{\"prompt\": \"2+2?\"}", "p.jsonl", false).ok());
}

TEST_CASE("prompts that make no sense are named by line, all together") {
  const std::string all = prompt_problems(
      "{\"prompt\": \"a\"}\n{\"answer\": 1}\n{\"prompt\": \"a\", \"messages\": [], \"answer\": 1}\n"
      "{\"prompt\": 3, \"answer\": 1}\n{\"prompt\": \"a\", \"answer\": 1, \"chosen\": \"b\"}\n"
      "{\"prompt\": [{\"role\": \"user\"}], \"answer\": 1}\n"
      "{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}], "
      "\"answer\": 1}\nnot json\n");
  for (const char* part : {"p.jsonl:1", "no 'answer'", "p.jsonl:2", "neither", "p.jsonl:3", "p.jsonl:4", "p.jsonl:5",
                           "'chosen'", "p.jsonl:6", "content", "p.jsonl:7", "ends with the assistant", "p.jsonl:8"}) {
    CAPTURE(part);
    CHECK(all.find(part) != std::string::npos);
  }
}
