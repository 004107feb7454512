// Conversations of a model in training: with caches that keep their texts a turn reads what is new, and draws the same.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/system/clock.h"
#include "engine/infer/generate/answer_batch.h"
#include "engine/infer/generate/rollout_model.h"
#include "engine/model/store/model_folder.h"

namespace longhaul {
namespace {

namespace kept_texts_test {

const std::string kept_folder = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/model-untied";

struct Turns {
  std::vector<GeneratedAnswer> answers;  // of all turns
  std::vector<std::int64_t> read = {};   // tokens, of each turn
};

// Three turns of two groups of three, each answered by 8 tokens and followed by a reply of its own.
Turns turns_of(bool keeps, int slots) {
  const ComputeContext context(1);
  const SystemClock clock;
  const Tokenizer tokenizer = Tokenizer::load(kept_folder + "/tokenizer.json").value();
  const ModelShape shape = load_model_config(kept_folder).value().shape;
  TextModelInfo info;
  info.slots = slots, info.context_length = 120, info.end_tokens = {1};
  RolloutModel model(context, tokenizer, shape, info);
  model.begin(load_inference_weights(kept_folder, shape, DType::f32, nullptr).value(), slots, 120, keeps);
  std::vector<std::vector<std::int32_t>> texts;
  for (int i = 0; i < 6; ++i)
    texts.push_back(i < 3 ? std::vector<std::int32_t>{9, 8, 7, 30, 31, 32, 33, 34}
                          : std::vector<std::int32_t>{9, 8, 41});
  Turns all;
  AnswerBatchOptions options;
  options.max_tokens = 8, options.prefill_tokens = 1024;
  for (std::uint64_t turn = 0; turn < 3; ++turn) {
    std::vector<AnswerRequest> requests;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      AnswerRequest& request = requests.emplace_back(AnswerRequest{texts[i], {}});
      request.sampling.temperature = 1, request.sampling.seed = 3, request.sampling.stream = 10 * turn + i;
    }
    auto answers = generate_answers(model, clock, requests, options);
    REQUIRE_MESSAGE(answers.ok(), (answers.ok() ? "" : answers.error().message()));
    all.read.push_back(0);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      all.read.back() += (*answers)[i].read;
      texts[i].insert(texts[i].end(), (*answers)[i].tokens.begin(), (*answers)[i].tokens.end());
      for (const std::int32_t token : {50, 51, static_cast<int>(60 + i)}) texts[i].push_back(token);
      all.answers.push_back(std::move((*answers)[i]));
    }
  }
  model.end();
  return all;
}

TEST_CASE("conversations: caches that keep their texts draw the same, and read what is new since the last turn") {
  for (const int slots : {6, 2}) {
    CAPTURE(slots);
    const Turns fresh = turns_of(false, slots), kept = turns_of(true, slots);
    REQUIRE(fresh.answers.size() == kept.answers.size());
    for (std::size_t i = 0; i < fresh.answers.size(); ++i) {
      CAPTURE(i);
      CHECK(kept.answers[i].tokens == fresh.answers[i].tokens);
      REQUIRE(kept.answers[i].logprobs.size() == fresh.answers[i].logprobs.size());
      for (std::size_t t = 0; t < fresh.answers[i].logprobs.size(); ++t)
        CHECK(kept.answers[i].logprobs[t] == doctest::Approx(fresh.answers[i].logprobs[t]).epsilon(1e-5).scale(1));
    }
    CHECK(kept.read[0] == fresh.read[0]);  // a group's prompt is shared as without
    for (const std::size_t turn : {1, 2}) {
      if (slots == 6) CHECK(kept.read[turn] == 6 * (1 + 3));  // the last token that was drawn, and the reply
      CHECK(kept.read[turn] < fresh.read[turn]);
    }
  }
}

}  // namespace kept_texts_test

}  // namespace
}  // namespace longhaul
