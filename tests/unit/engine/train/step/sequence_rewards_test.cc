#include "engine/train/step/sequence_rewards.h"

#include <doctest/doctest.h>

#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;

TEST_CASE("a text is judged the same beside others as alone, and one that the model does not know is refused") {
  ModelShape shape = test::training_shape(1, false);
  shape.scalar_head = true;
  const ComputeContext context(1);
  ParameterStore store(shape, DType::f32);
  initialize_parameters(context, store, 5);
  LlamaOptions options;
  options.tokens_max = 64;  // two texts at once
  Llama model(store, options);
  const std::vector<std::vector<std::int32_t>> ids = {{1, 2, 3}, {4, 5, 6, 7, 8, 9, 10}, {11}, {12, 13}, {14, 15, 16}};
  std::vector<std::span<const std::int32_t>> texts(ids.begin(), ids.end());
  std::vector<std::size_t> done;
  const auto together = sequence_rewards(context, model, options.tokens_max, texts,
                                         [&](std::size_t texts_done) { done.push_back(texts_done); });
  REQUIRE(together.ok());
  REQUIRE(together->size() == texts.size());
  CHECK(done == std::vector<std::size_t>{2, 4, 5});
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto alone = sequence_rewards(context, model, options.tokens_max, std::span(texts).subspan(i, 1));
    REQUIRE(alone.ok());
    CHECK(alone->front() != 0);
    CHECK((*together)[i] == doctest::Approx(alone->front()).epsilon(1e-5));
  }
  const std::vector<std::int32_t> unknown = {1, 1 << 30};
  texts = {unknown};
  const auto refused = sequence_rewards(context, model, options.tokens_max, texts);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message().find("token 1073741824 is outside the model's vocabulary of 37") !=
        std::string::npos);
}
