// Forms of instruction files, problems with their lines, and rows for training.
#include "engine/data/samples/instruct_data.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "tests/support/random_text.h"

using namespace longhaul;

namespace {

Tokenizer instruct_tokenizer() {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/reference_tokenizer.json";
  return Tokenizer::parse(to_json(*parse_json(read_file(path).value()).value().find("tokenizer"))).value();
}

}  // namespace

TEST_CASE("the forms that users bring are read") {
  const auto examples = parse_instructions(R"({"input": "a?", "output": "b"}

{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "c?"}, {"role": "assistant", "content": "d"}]}
{"question": "e?", "answer": "f"}
{"instruction": "Translate.", "input": "casa", "output": "house"}
{"instruction": "Say hi.", "input": "", "output": "hi"}
)",
                                           "x.jsonl")
                            .value();
  REQUIRE(examples.size() == 5);
  CHECK(examples[0].messages == std::vector<ChatMessage>{{"user", "a?"}, {"assistant", "b"}});
  CHECK(examples[1].line == 3);
  CHECK(examples[1].messages.size() == 3);
  CHECK(examples[2].messages[1].content == "f");
  CHECK(examples[3].messages[0].content == "Translate.\n\ncasa");
  CHECK(examples[4].messages[0].content == "Say hi.");
}

TEST_CASE("all problems of a file come together, with lines, and are bounded") {
  const auto read = parse_instructions(R"({"input": "a?", "output": "b"}
not json
{"input": "a?"}
{"input": 3, "output": "b"}
{"messages": [{"role": "robot", "content": "s"}]}
{"messages": [{"role": "user", "content": "s"}]}
{"input": "x", "output": ""}
[1]
)",
                                       "bad.jsonl");
  REQUIRE_FALSE(read.ok());
  const std::string message = read.error().message();
  CAPTURE(message);
  for (const char* part : {"bad.jsonl:2", "bad.jsonl:3", "bad.jsonl:4", "'input' is integer", "bad.jsonl:5", "robot",
                           "bad.jsonl:6", "bad.jsonl:7", "bad.jsonl:8", "7 errors"})
    CHECK(message.find(part) != std::string::npos);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "{}\n";
  const std::string bounded = parse_instructions(many, "many.jsonl").error().message();
  CHECK(bounded.find("980 more") != std::string::npos);
  CHECK(bounded.size() < 6000);
  CHECK(parse_instructions("\n \n", "empty.jsonl").error().message().find("empty.jsonl") != std::string::npos);
  CHECK_FALSE(read_instructions("/nonexistent.jsonl").ok());
}

TEST_CASE("random bytes are never instructions and never a crash") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    PhiloxSequence draw(seed);
    CHECK_FALSE(parse_instructions(random_bytes(draw, 1 + draw.next_below(200)), "r").ok());
    CHECK_FALSE(parse_preferences(random_bytes(draw, 1 + draw.next_below(200)), "r").ok());
  }
}

TEST_CASE("preferences as texts and as messages") {
  const auto examples = parse_preferences(R"({"prompt": "a?", "chosen": "yes", "rejected": "no"}
{"prompt": [{"role": "user", "content": "b?"}], "chosen": [{"role": "assistant", "content": "y"}], "rejected": [{"role": "user", "content": "b?"}, {"role": "assistant", "content": "n"}]}
)",
                                          "p.jsonl")
                            .value();
  REQUIRE(examples.size() == 2);
  CHECK(examples[1].prompt[0].content == "b?");
  CHECK(examples[1].rejected == std::vector<ChatMessage>{{"assistant", "n"}});
  CHECK_FALSE(parse_preferences(R"({"prompt": "a?", "chosen": "x", "rejected": "x"})", "p").ok());
  CHECK_FALSE(parse_preferences(R"({"prompt": "a?", "chosen": "x"})", "p").ok());
  CHECK_FALSE(
      parse_preferences(
          R"({"prompt": [{"role":"user","content":"a"},{"role":"assistant","content":"b"}], "chosen": "x", "rejected": "y"})",
          "p")
          .ok());

  const Tokenizer tokenizer = instruct_tokenizer();
  const ChatEncoder encoder = ChatEncoder::create(tokenizer).value();
  const auto pairs = tokenize_preferences(examples, encoder, 64).value();
  REQUIRE(pairs.pairs.size() == 2);
  CHECK(tokenizer.decode(pairs.pairs[0].chosen.ids) == "<|user|>a?<|end|><|assistant|>yes<|end|>");
  CHECK(tokenizer.decode(pairs.pairs[0].rejected.ids) == "<|user|>a?<|end|><|assistant|>no<|end|>");
  CHECK_FALSE(tokenize_preferences(examples, encoder, 3).ok());
}

TEST_CASE("every example once per epoch, in an order of its own") {
  std::vector<int> count(17, 0);
  bool other_order = false;
  for (std::int64_t k = 0; k < 34; ++k) {
    ++count[static_cast<std::size_t>(example_of_sample(k, 17, 3))];
    if (k < 17 && example_of_sample(k, 17, 3) != example_of_sample(k + 17, 17, 3)) other_order = true;
  }
  CHECK(count == std::vector<int>(17, 2));
  CHECK(other_order);
}
