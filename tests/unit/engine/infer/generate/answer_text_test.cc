// One answer alone: no slots, no threads, no clock.
#include "engine/infer/generate/answer_text.h"

#include <doctest/doctest.h>

#include "tests/unit/engine/infer/fake_text_model.h"

namespace longhaul {
namespace {

struct HeardAnswer final : GenerationListener {
  std::string text;
  std::size_t tokens = 0;
  int ends = 0;
  void on_text(const std::string& piece, const std::vector<GeneratedToken>& more) override {
    text += piece;
    tokens += more.size();
  }
  void on_end(FinishReason, const GenerationUsage&, const std::string&) override { ++ends; }
};

GenerationRequest asking(const std::string& prompt, std::int64_t max_tokens) {
  GenerationRequest request;
  for (const char c : prompt) request.prompt.push_back(static_cast<unsigned char>(c));
  request.sampling.temperature = 0;
  request.max_tokens = max_tokens;
  return request;
}

// Rows of logits of which `token` is the likeliest.
std::vector<float> rows_for(std::int32_t token, std::size_t rows = 1) {
  std::vector<float> logits(rows * FakeTextModel::vocabulary);
  for (std::size_t row = 0; row < rows; ++row)
    logits[row * FakeTextModel::vocabulary + static_cast<std::size_t>(token)] = 9;
  return logits;
}

TEST_CASE("a prompt is read in pieces of the budget; only its last piece asks for logits") {
  FakeTextModel model;
  const auto heard = std::make_shared<HeardAnswer>();
  AnswerText answer(model, asking("abcde", 2), heard);
  const TextStep first = answer.prompt_step(3, 3);
  CHECK(first.slot == 3);
  CHECK(first.tokens.size() == 3);
  CHECK(first.wanted == TextStep::Logits::none);
  CHECK_FALSE(answer.take(first, {}, -1));
  CHECK_FALSE(answer.prompt_done());
  const TextStep last = answer.prompt_step(3, 3);
  CHECK(last.tokens.size() == 2);
  CHECK(last.wanted == TextStep::Logits::last);
  std::vector<float> logits = rows_for('x');
  CHECK_FALSE(answer.take(last, logits, -1));
  CHECK(answer.prompt_done());
  CHECK(answer.usage().completion_tokens == 1);
  CHECK(answer.decode_step(3).tokens.front() == 'x');
  logits = rows_for('y');
  CHECK(answer.take(answer.decode_step(3), logits, -1) == FinishReason::length);
  CHECK(heard->text == "xy");
}

TEST_CASE("an end token ends an answer and is no text; a stop text is cut off") {
  FakeTextModel model;
  const auto heard = std::make_shared<HeardAnswer>();
  AnswerText ended(model, asking("a", 9), heard);
  std::vector<float> logits = rows_for(FakeTextModel::end_token);
  CHECK(ended.take(ended.prompt_step(0, 9), logits, -1) == FinishReason::stop);
  CHECK(ended.usage().end_token == FakeTextModel::end_token);
  CHECK(heard->text == "");

  GenerationRequest request = asking("a", 9);
  request.stops = {"!"};
  AnswerText stopped(model, request, heard);
  logits = rows_for('n');
  CHECK_FALSE(stopped.take(stopped.prompt_step(0, 9), logits, -1));
  logits = rows_for('!');
  CHECK(stopped.take(stopped.decode_step(0), logits, -1) == FinishReason::stop);
  CHECK(heard->text == "n");
  CHECK(stopped.usage().end_token == -1);
}

TEST_CASE("half a character is held back until it is whole, or until the answer ends") {
  FakeTextModel model;
  const auto heard = std::make_shared<HeardAnswer>();
  AnswerText answer(model, asking("a", 9), heard);
  std::vector<float> logits = rows_for(0xC3);
  CHECK_FALSE(answer.take(answer.prompt_step(0, 9), logits, -1));
  CHECK(heard->text == "");
  answer.release_rest();
  CHECK(heard->text == "\uFFFD");
  answer.end(FinishReason::deadline, "");
  CHECK(heard->ends == 1);
}

TEST_CASE("with echo and log-probabilities every row of the prompt is asked for and reported") {
  FakeTextModel model;
  const auto heard = std::make_shared<HeardAnswer>();
  GenerationRequest request = asking("abc", 0);
  request.echo = true, request.logprobs = 0;
  AnswerText answer(model, request, heard);
  const TextStep step = answer.prompt_step(0, 9);
  CHECK(step.wanted == TextStep::Logits::all);
  std::vector<float> logits = rows_for('x', 3);
  CHECK(answer.take(step, logits, -1) == FinishReason::length);
  CHECK(heard->text == "abc");
  CHECK(heard->tokens == 3);
}

TEST_CASE("a model that draws is asked for a token instead of logits, but not where log-probabilities are wanted") {
  FakeTextModel model;
  model.draw_itself();
  const auto heard = std::make_shared<HeardAnswer>();
  AnswerText answer(model, asking("a", 9), heard);
  const TextStep step = answer.prompt_step(0, 9);
  REQUIRE(step.draw);
  CHECK_FALSE(answer.take(step, {}, 'z'));
  CHECK(heard->text == "z");
  CHECK(answer.decode_step(0).draw->position == 1);
  GenerationRequest request = asking("a", 9);
  request.logprobs = 1;
  CHECK_FALSE(AnswerText(model, request, heard).prompt_step(0, 9).draw);
}

TEST_CASE("a request that no model of this kind can serve is refused before it waits") {
  const TextModelInfo info = FakeTextModel(1, 8).info();
  CHECK(check_request(asking("abc", 5), info).ok());
  CHECK_FALSE(check_request(asking("abc", 6), info).ok());
  CHECK_FALSE(check_request(asking("", 1), info).ok());
  GenerationRequest unknown = asking("a", 1);
  unknown.prompt = {FakeTextModel::vocabulary};
  CHECK(check_request(unknown, info).error().message().find("outside of the vocabulary of 257") != std::string::npos);
}

}  // namespace
}  // namespace longhaul
