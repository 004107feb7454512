// The server's model on an emulated GPU beside the processor's: what clients are answered is the same, with requests of
// every kind and length joining and leaving.
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
#include <doctest/doctest.h>

#include "base/digest/philox.h"
#include "base/text/text.h"
#include "contracts/plan/memory_plan.h"
#include "engine/infer/generate/generator.h"
#include "engine/infer/generate/inference_text_model.h"
#include "engine/model/inference/cache/kv_pool.h"
#include "engine/model/inference/inference_memory.h"
#include "engine/model/store/model_folder.h"
#include "tests/support/emulated_gpu/emulated_device.h"
#include "tests/support/long_run.h"

namespace longhaul {
namespace {

struct Answer final : GenerationListener {
  std::string text;
  std::vector<GeneratedToken> tokens;
  int ends = 0;
  FinishReason reason = FinishReason::error;
  GenerationUsage usage;
  std::string error;
  void on_text(const std::string& piece, const std::vector<GeneratedToken>& more) override {
    text += piece;
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  void on_end(FinishReason why, const GenerationUsage& used, const std::string& what) override {
    ++ends, reason = why, usage = used, error = what;
  }
};

OpenGpu emulated(std::int64_t bytes) {
  return [bytes](int, bool) -> Result<std::unique_ptr<Gpu>> {
    return std::unique_ptr<Gpu>(std::make_unique<testing::EmulatedGpu>(bytes));
  };
}

const std::string folder = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/model-untied";
constexpr std::int64_t context_length = 128;

// A GPU with so much memory that the server's pool has so many pages.
std::int64_t memory_for(int slots, std::int64_t pages) {
  const ModelShape shape = load_model_config(folder).value().shape;
  InferenceLoad l;
  l.in_pages = true, l.sequences = slots, l.context_length = context_length, l.seen_rows = slots;
  l.tokens_max = l.logits_rows = GeneratorLimits().prefill_tokens + slots;
  const InferenceMemory planned = plan_inference_memory(folder, shape, DType::f32, l).value();
  return gpu_allowance + planned.weights + planned.scratch + KvPool::bytes_for(shape, pages, DType::f32);
}

Result<std::unique_ptr<TextModel>> open(const std::string& device, int slots, std::int64_t bytes) {
  InferenceTextModelOptions options;
  options.precision = "f32", options.threads = 1, options.slots = slots, options.device = device;
  return load_inference_text_model(folder, options, emulated(bytes));
}
std::unique_ptr<TextModel> load(const std::string& device, int slots, std::int64_t bytes = std::int64_t{4} << 30) {
  auto model = open(device, slots, bytes);
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().message()));
  return std::move(*model);
}

GenerationRequest random_request(PhiloxSequence& draw) {
  const auto pick = [&](std::initializer_list<double> values) {
    return values.begin()[draw.next_below(values.size())];
  };
  GenerationRequest r;
  const std::uint64_t length = 1 + draw.next_below(draw.next_below(4) == 0 ? 60 : 12);
  for (std::uint64_t i = 0; i < length; ++i) r.prompt.push_back(static_cast<std::int32_t>(draw.next_below(320)));
  r.max_tokens = static_cast<std::int64_t>(draw.next_below(draw.next_below(4) == 0 ? 60 : 12));
  SamplingParameters& p = r.sampling;
  p.temperature = pick({0, 0.7, 1, 1.5}), p.top_k = static_cast<std::int64_t>(pick({0, 0, 5, 40}));
  p.top_p = pick({1, 1, 0.9, 0.5}), p.repetition_penalty = pick({1, 1, 1, 1.3});
  p.presence_penalty = pick({0, 0, 0, 0.6}), p.frequency_penalty = pick({0, 0, 0, 0.4});
  p.seed = draw.next_u64(), p.stream = draw.next_below(3);
  if (draw.next_below(6) == 0) r.logprobs = static_cast<int>(draw.next_below(3));
  r.echo = draw.next_below(8) == 0;
  return r;
}

// Some join at the beginning, others between steps; how many at a time is the slots' business.
std::vector<std::shared_ptr<Answer>> answer_all(TextModel& model, const std::vector<GenerationRequest>& requests,
                                                std::size_t a_step) {
  ManualClock clock;
  GeneratorLimits limits;
  limits.queue_max = static_cast<int>(requests.size()), limits.prefill_tokens = 24;
  Generator generator(model, clock, limits);
  std::vector<std::shared_ptr<Answer>> answers;
  for (const GenerationRequest& request : requests) {
    answers.push_back(std::make_shared<Answer>());
    REQUIRE(generator.submit({{request, answers.back()}}).ok());
    if (answers.size() % a_step == 0) generator.step();
  }
  for (int i = 0; i < 1'000'000 && generator.step(); ++i) {
  }
  return answers;
}

}  // namespace

TEST_CASE("requests of every kind that join and leave are answered on a GPU as on the processor") {
  const std::uint64_t seed = 11;
  CAPTURE(seed);
  PhiloxSequence draw(seed, 1);
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < (testing::long_run() ? 60 : 36); ++i) requests.push_back(random_request(draw));
  const auto host = load("cpu", 5), gpu = load("gpu", 5);
  CHECK_FALSE(host->info().draws);
  CHECK(gpu->info().draws);
  const auto expected = answer_all(*host, requests, 2), answers = answer_all(*gpu, requests, 2);
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    CAPTURE(i);
    CHECK(answers[i]->ends == 1);
    CHECK_MESSAGE(answers[i]->error.empty(), answers[i]->error);
    CHECK(answers[i]->text == expected[i]->text);
    CHECK(answers[i]->reason == expected[i]->reason);
    CHECK(answers[i]->usage.completion_tokens == expected[i]->usage.completion_tokens);
    REQUIRE(answers[i]->tokens.size() == expected[i]->tokens.size());
    for (std::size_t t = 0; t < answers[i]->tokens.size(); ++t) {
      const GeneratedToken &a = answers[i]->tokens[t], &b = expected[i]->tokens[t];
      CHECK(a.token == b.token);
      CHECK(a.logprob.value_or(1) == doctest::Approx(b.logprob.value_or(1)).epsilon(1e-4));
    }
    tokens += answers[i]->usage.completion_tokens;
  }
  CHECK(tokens > 5 * static_cast<std::int64_t>(requests.size()));
}

TEST_CASE("an answer on a GPU is its own, whoever is answered beside it and in whatever order") {
  const std::uint64_t seed = 12;
  CAPTURE(seed);
  PhiloxSequence draw(seed, 1);
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < (testing::long_run() ? 20 : 12); ++i) requests.push_back(random_request(draw));
  const auto four = load("gpu", 4), one = load("gpu", 1);
  const auto together = answer_all(*four, requests, 3);
  std::vector<GenerationRequest> reversed(requests.rbegin(), requests.rend());
  const auto alone = answer_all(*one, reversed, 1);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    CAPTURE(i);
    CHECK(together[i]->text == alone[requests.size() - 1 - i]->text);
  }
}

TEST_CASE("more requests than a pool has pages for wait for their turn, and get the processor's answers") {
  const std::uint64_t seed = 13;
  CAPTURE(seed);
  PhiloxSequence draw(seed, 1);
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < (testing::long_run() ? 50 : 30); ++i) requests.push_back(random_request(draw));
  requests[20].prompt.resize(60, 7), requests[20].max_tokens = context_length - 60;  // all pages
  const auto host = load("cpu", 6), gpu = load("gpu", 6, memory_for(6, 9));
  CHECK(gpu->pages().total == 9);
  CHECK(load("gpu", 6)->pages().total == 6 * KvPool::pages_for(context_length));
  const auto expected = answer_all(*host, requests, 3), answers = answer_all(*gpu, requests, 3);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    CAPTURE(i);
    CHECK_MESSAGE(answers[i]->error.empty(), answers[i]->error);
    CHECK(answers[i]->text == expected[i]->text);
    CHECK(answers[i]->reason == expected[i]->reason);
  }
  CHECK(gpu->pages().used == 0);
  CHECK(gpu->pages().promised == 0);
}

TEST_CASE("a GPU with too little memory for one text of the whole context is refused with the numbers") {
  CHECK(load("gpu", 3, memory_for(3, 8))->pages().total == 8);
  const auto refused = open("gpu", 3, memory_for(3, 7));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::unavailable);
  CHECK(refused.error().what.find("caches of 1 sequences of 128 tokens") != std::string::npos);
}

TEST_CASE("pages are reused over hundreds of requests, thousands in the long test, and none is lost") {
  const auto gpu = load("gpu", 8, memory_for(8, 10));
  PhiloxSequence draw(14, 1);
  ManualClock clock;
  GeneratorLimits limits;
  limits.queue_max = 1000;
  Generator generator(*gpu, clock, limits);
  std::vector<std::shared_ptr<Answer>> answers;
  std::int64_t most = 0;
  const bool long_run = testing::long_run();
  const int requests = long_run ? 2000 : 200;
  for (int i = 0; i < requests; ++i) {
    GenerationRequest r;
    r.prompt.assign(1 + draw.next_below(draw.next_below(long_run ? 20 : 2) == 0 ? 100 : 4), 7);
    r.max_tokens = draw.next_below(8) == 0 ? 2 : 0;
    r.sampling.temperature = 0;
    if (draw.next_below(50) == 0) r.deadline_ms = 0;
    answers.push_back(std::make_shared<Answer>());
    const auto ids = generator.submit({{r, answers.back()}});
    REQUIRE(ids.ok());
    if (i % 8 == 7) generator.step();
    if (draw.next_below(50) == 0) generator.cancel(ids->front());
    most = std::max(most, generator.counters().pages.used);
    while (i % 200 == 199 && generator.step()) most = std::max(most, generator.counters().pages.used);
  }
  CHECK(most >= 6);
  CHECK(generator.counters().pages.used == 0);
  CHECK(generator.counters().pages.promised == 0);
  CHECK(std::all_of(answers.begin(), answers.end(), [](const auto& a) { return a->ends == 1; }));
}

}  // namespace longhaul
#endif
