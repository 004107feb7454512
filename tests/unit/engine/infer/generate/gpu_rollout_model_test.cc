// A model in training as rollouts use it, on an emulated GPU beside the processor's: the same tokens and
// log-probabilities, by the training's own memory, also after that has changed.
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "base/digest/philox.h"
#include "base/system/clock.h"
#include "engine/core/tensor/memory_accounts.h"
#include "engine/infer/generate/answer_batch.h"
#include "engine/infer/generate/rollout_model.h"
#include "engine/model/inference/stored_weights.h"
#include "engine/model/store/model_folder.h"
#include "tests/support/emulated_gpu/test_gpu.h"

namespace longhaul {
namespace {

const std::string rollout_folder = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/model-untied";
constexpr std::int64_t rollout_room = 40;  // tokens of a prompt and its answer

// A training's weights, and what draws with them.
struct RolloutSide {
  // `change`: of the folder's shape, whose weights are then random ones.
  explicit RolloutSide(bool on_gpu, DType dtype = DType::f32, const std::function<void(ModelShape&)>& change = {})
      : gpu(on_gpu ? testing::open_test_gpu() : nullptr),
        context(gpu ? ComputeContext(gpu->device(), gpu->ops()) : ComputeContext(1)),
        tokenizer(Tokenizer::load(rollout_folder + "/tokenizer.json").value()),
        shape(load_model_config(rollout_folder).value().shape) {
    if (gpu) memory.place_on(gpu->device());
    if (change) change(shape);
    store.emplace(shape, dtype, &memory);
    if (change) initialize_parameters(context, *store, 4);
    if (!change) REQUIRE(load_model_weights(context, rollout_folder, *store).ok());
    TextModelInfo info;
    info.slots = 3, info.context_length = rollout_room, info.end_tokens = {1};
    model.emplace(context, tokenizer, shape, info);
  }

  InferenceWeights weights() {
    InferenceWeights empty;
    empty.dtype = store->compute_dtype();
    if (gpu) {
      empty.memory = std::make_unique<MemoryAccount>();
      empty.memory->device = &gpu->device(), empty.memory->whole = &memory.of(MemoryCategory::answers);
    }
    return inference_weights_of(context, *store, std::move(empty)).value();
  }

  std::vector<GeneratedAnswer> answers(std::size_t count = 10, std::int64_t tokens = 10, std::int64_t drafts = 0) {
    std::vector<std::vector<std::int32_t>> prompts;
    PhiloxSequence draw(5, 1);
    for (std::size_t i = 0; i < 5; ++i) {
      prompts.emplace_back();
      for (std::size_t t = 0; t < 1 + 5 * i; ++t) prompts[i].push_back(static_cast<std::int32_t>(draw.next_below(320)));
    }
    std::vector<AnswerRequest> requests;
    for (std::size_t i = 0; i < count; ++i) {
      AnswerRequest& request = requests.emplace_back(AnswerRequest{prompts[i % 5], {}});
      request.sampling.temperature = i < 5 ? 0 : 1, request.sampling.seed = 3, request.sampling.stream = i;
    }
    AnswerBatchOptions options;
    options.max_tokens = tokens, options.prefill_tokens = 12, options.draft_tokens = drafts;
    model->begin(weights(), 3, rollout_room, false, drafts);
    auto given = generate_answers(*model, clock, requests, options);
    model->end();
    REQUIRE_MESSAGE(given.ok(), (given.ok() ? "" : given.error().message()));
    return std::move(*given);
  }

  SystemClock clock;
  std::shared_ptr<Gpu> gpu;
  ComputeContext context;
  Tokenizer tokenizer;
  ModelShape shape;
  MemoryAccounts memory;
  std::optional<ParameterStore> store;
  std::optional<RolloutModel> model;
};

void check_same_answers(const std::vector<GeneratedAnswer>& there, const std::vector<GeneratedAnswer>& here) {
  REQUIRE(there.size() == here.size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    CAPTURE(i);
    CHECK(there[i].tokens == here[i].tokens);
    REQUIRE(there[i].logprobs.size() == here[i].logprobs.size());
    for (std::size_t t = 0; t < here[i].logprobs.size(); ++t)
      CHECK(there[i].logprobs[t] == doctest::Approx(here[i].logprobs[t]).epsilon(1e-4).scale(1));
  }
}

}  // namespace

TEST_CASE("answers of a model in training: a GPU draws the processor's, with the training's own memory as weights") {
  RolloutSide host(false), there(true);
  const std::int64_t of_weights = there.memory.now()[MemoryCategory::master];
  const std::vector<GeneratedAnswer> first = host.answers();
  check_same_answers(there.answers(), first);
  const MemoryAccount& account = there.memory.of(MemoryCategory::answers);
  CHECK(account.bytes_now == 0);  // given back
  CHECK(account.bytes_peak > 0);
  const InferenceLoad load = RolloutModel::load_for(3, rollout_room, 0, 0);
  const InferenceMemory planned = plan_inference_memory(there.shape, DType::f32, load);
  CHECK(account.bytes_peak <= planned.caches + planned.scratch);  // and no copy of the weights
  CHECK(there.memory.now()[MemoryCategory::master] == of_weights);

  // Other weights at the same addresses, as after a step: what was recorded with the last ones is not replayed.
  initialize_parameters(host.context, *host.store, 9);
  initialize_parameters(there.context, *there.store, 9);
  const std::vector<GeneratedAnswer> second = host.answers();
  CHECK(second.front().tokens != first.front().tokens);
  check_same_answers(there.answers(), second);
}

TEST_CASE("tokens that are guessed on a GPU change no answer, and as many are right as on the processor") {
  RolloutSide host(false), there(true);
  const std::vector<GeneratedAnswer> expected = host.answers(3, 24, 3), found = there.answers(3, 24, 3);
  check_same_answers(found, expected);
  check_same_answers(found, there.answers(3, 24));
  std::int64_t accepted = 0, rejected = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i].drafted == expected[i].drafted);
    CHECK(found[i].accepted == expected[i].accepted);
    CHECK(found[i].decode_steps == expected[i].decode_steps);
    accepted += found[i].accepted, rejected += found[i].drafted - found[i].accepted;
  }
  CHECK(accepted > 0);
  CHECK(rejected > 0);
  const MemoryAccount& account = there.memory.of(MemoryCategory::answers);
  const InferenceMemory planned =
      plan_inference_memory(there.shape, DType::f32, RolloutModel::load_for(3, rollout_room, 0, 3));
  CHECK(account.bytes_peak <= planned.caches + planned.scratch);
}

TEST_CASE("answers behind what stands before every text, and of experts: a GPU draws the processor's, in pages") {
  const std::function<void(ModelShape&)> changes[] = {
      [](ModelShape& s) { s.virtual_tokens = 18; },  // more than a page
      [](ModelShape& s) { s.virtual_tokens = 5, s.virtual_keys = true; },
      [](ModelShape& s) {
        s.architecture = "mixtral", s.num_local_experts = 4, s.num_experts_per_tok = 2;
        s.moe_intermediate_size = s.intermediate_size, s.router_bias = true;
      }};
  for (const auto& change : changes) {
    RolloutSide host(false, DType::f32, change), there(true, DType::f32, change);
    CAPTURE(there.shape.virtual_tokens);
    check_same_answers(there.answers(6, 4), host.answers(6, 4));
    const MemoryAccount& account = there.memory.of(MemoryCategory::answers);
    CHECK(account.bytes_now == 0);
    const InferenceLoad load = RolloutModel::load_for(3, rollout_room, there.shape.virtual_tokens, 0);
    const InferenceMemory planned = plan_inference_memory(there.shape, DType::f32, load);
    CHECK(account.bytes_peak <= weights_always_copied(there.shape, DType::f32) + planned.caches + planned.scratch);
  }
}

TEST_CASE("answers to one prompt on a GPU hold the pages that it fills together, and are those of a processor") {
  std::vector<std::int32_t> prompt;
  PhiloxSequence draw(5, 2);
  for (int t = 0; t < 21; ++t) prompt.push_back(static_cast<std::int32_t>(draw.next_below(320)));
  for (const int before : {0, 3}) {
    CAPTURE(before);
    const auto change = [&](ModelShape& shape) { shape.virtual_tokens = before; };
    std::vector<std::vector<GeneratedAnswer>> sides;
    for (const bool on_gpu : {false, true}) {
      RolloutSide side(on_gpu, DType::f32, change);
      std::vector<AnswerRequest> requests(6, AnswerRequest{prompt, {}});
      for (std::size_t i = 0; i < requests.size(); ++i)
        requests[i].sampling.temperature = 1, requests[i].sampling.seed = 3, requests[i].sampling.stream = i;
      AnswerBatchOptions options;
      options.max_tokens = 12, options.prefill_tokens = 12;
      side.model->begin(side.weights(), 3, rollout_room);
      auto given = generate_answers(*side.model, side.clock, requests, options);
      side.model->end();
      REQUIRE_MESSAGE(given.ok(), (given.ok() ? "" : given.error().message()));
      sides.push_back(std::move(*given));
    }
    check_same_answers(sides[1], sides[0]);
    CHECK(sides[1][0].read == 21);
    for (std::size_t i = 1; i < 3; ++i) CHECK(sides[1][i].read == 21 + before - 16);  // behind the first page
  }
}

TEST_CASE("weights of a training on a GPU are borrowed where they compute in the type that is asked for, else copied") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    RolloutSide there(true, dtype);
    const InferenceWeights weights = there.weights();
    CHECK(weights.embedding.dense()->weight.is_borrowed());
    CHECK(weights.blocks.front().qkv.dense()->weight.is_borrowed());
    CHECK(weights.final_norm.weight.is_borrowed());
    CHECK(there.memory.of(MemoryCategory::answers).bytes_peak == 0);
  }
  const RolloutSide there(true);
  InferenceWeights narrow;
  narrow.dtype = DType::bf16, narrow.memory = std::make_unique<MemoryAccount>();
  narrow.memory->device = &there.gpu->device();
  const InferenceWeights copied = inference_weights_of(there.context, *there.store, std::move(narrow)).value();
  CHECK_FALSE(copied.embedding.dense()->weight.is_borrowed());
  CHECK(there.gpu->device().owns(copied.embedding.dense()->weight.view().data()));
  CHECK(copied.memory->bytes_now >= copied.bytes());
}

TEST_CASE("log-probabilities of texts: a GPU's are the processor's, behind a beginning that was read before, too") {
  RolloutSide host(false), there(true);
  PhiloxSequence draw(7, 2);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 30; ++i) ids.push_back(static_cast<std::int32_t>(draw.next_below(320)));
  const auto scores = [&](RolloutSide& side) {
    InferenceModel model(side.shape, side.weights());
    KvCache cache = model.make_cache(rollout_room);
    std::vector<double> all(29), behind(20);
    REQUIRE(score_tokens(side.context, model, cache, ids, 1, false, all).ok());
    ids[25] = (ids[25] + 1) % 320;
    REQUIRE(score_tokens(side.context, model, cache, ids, 10, true, behind).ok());
    ids[25] = (ids[25] + 319) % 320;
    all.insert(all.end(), behind.begin(), behind.end());
    return all;
  };
  const std::vector<double> expected = scores(host), found = scores(there);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-4).scale(1));
    CHECK(expected[i] < 0);
  }
  // What the engine refuses to read.
  InferenceModel model(there.shape, there.weights());
  KvCache cache = model.make_cache(4);
  std::vector<double> one(1);
  const std::vector<std::int32_t> token = {5}, outside = {320};
  CHECK(model.score(there.context, {&cache, token}, outside, one).error().code == ErrorCode::invalid_input);
  CHECK(cache.length() == 0);
}

}  // namespace longhaul
#endif
