#include "engine/infer/generate/answer_batch.h"

#include <doctest/doctest.h>

#include "tests/unit/engine/infer/fake_text_model.h"

using namespace longhaul;

TEST_CASE("prompts are answered together: tokens with their end, texts, and which were cut") {
  FakeTextModel model(2);
  const std::vector<std::int32_t> short_one = {'a', 'b'}, long_one = {'a', 'b', 'c', 'd', 'e', 'f'};
  std::vector<AnswerRequest> requests;
  for (int i = 0; i < 5; ++i) requests.push_back({i % 2 == 0 ? short_one : long_one, {}});
  for (AnswerRequest& request : requests) request.sampling.temperature = 0;
  AnswerBatchOptions options;
  options.max_tokens = 4;
  int steps = 0;
  options.between = [&] { ++steps; };
  const SystemClock clock;
  const auto answers = generate_answers(model, clock, requests, options);
  REQUIRE_MESSAGE(answers.ok(), answers.error().message());
  REQUIRE(answers->size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    const GeneratedAnswer& answer = (*answers)[i];
    CHECK(answer.cut == (i % 2 == 1));
    CHECK(answer.text == (i % 2 == 0 ? "ab" : "abcd"));
    CHECK(answer.tokens.size() == (i % 2 == 0 ? 3 : 4));
    CHECK(answer.logprobs.size() == answer.tokens.size());
    if (i % 2 == 0) CHECK(answer.tokens.back() == FakeTextModel::end_token);
    for (const double logprob : answer.logprobs) CHECK(logprob <= 0);
  }
  CHECK(steps > 4);
  CHECK(model.largest_batch == 2);
}

TEST_CASE("a model that fails, or takes too long, is an error of the whole batch") {
  FakeTextModel model(2);
  const std::vector<std::int32_t> prompt = {'f', 'o', 'r', 'e', 'v', 'e', 'r'};
  const std::vector<AnswerRequest> requests(3, {prompt, {}});
  const SystemClock clock;
  model.fail_next = true;
  CHECK(!generate_answers(model, clock, requests, {}).ok());
  FakeTextModel slow(2, 4096, 2);
  AnswerBatchOptions options;
  options.max_tokens = 2000, options.deadline_ms = 1;
  const auto late = generate_answers(slow, clock, requests, options);
  REQUIRE(!late.ok());
  CHECK(late.error().code == ErrorCode::timeout);
}
