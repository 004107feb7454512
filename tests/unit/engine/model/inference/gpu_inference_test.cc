// Generation on a GPU, emulated or real (tests/support/emulated_gpu/test_gpu.h), beside the processor's. Emulated:
// memory of the device that the host touches ends the program, and so does whatever cannot be recorded while a step is
// recorded.
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
#include <cmath>

#include "engine/infer/generate/sampling.h"
#include "engine/model/inference/inference_memory.h"
#include "engine/model/inference/inference_model.h"
#include "engine/quantize/weight_format.h"
#include "tests/support/emulated_gpu/test_gpu.h"
#include "tests/unit/engine/model/inference_folder.h"
#include "tests/unit/engine/model/reference_model.h"

using namespace longhaul;

namespace {

constexpr std::size_t logits_width = 37;

struct OnGpu {
  std::shared_ptr<Gpu> gpu = testing::open_test_gpu();
  ComputeContext context{gpu->device(), gpu->ops()};
  InferenceModel load(const std::string& folder, DType dtype) const {
    auto loaded = InferenceModel::load(folder, dtype, &gpu->device());
    REQUIRE_MESSAGE(loaded.ok(), (loaded.ok() ? "" : loaded.error().message()));
    return std::move(*loaded);
  }
};

double farthest(std::span<const float> a, std::span<const float> b) {
  REQUIRE(a.size() == b.size());
  double difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i])) return HUGE_VAL;
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return difference;
}

std::vector<float> logits_of(InferenceModel& model, const ComputeContext& context, std::span<const SequenceStep> steps,
                             LogitsWanted wanted) {
  std::size_t rows = wanted == LogitsWanted::last ? steps.size() : 0;
  for (const SequenceStep& step : steps) rows += wanted == LogitsWanted::all ? step.tokens.size() : 0;
  std::vector<float> logits(rows * logits_width);
  const Status status = model.forward(context, steps, wanted, logits);
  REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
  return logits;
}

std::span<const std::int32_t> piece(const std::vector<std::int32_t>& ids, std::int64_t at, std::int64_t count) {
  return std::span(ids).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count));
}

// All at once; in pieces and token by token beside another sequence; and after a truncation.
void check_same_logits(const std::string& folder, DType dtype, double limit) {
  const ComputeContext context(1);
  auto host = InferenceModel::load(folder, dtype);
  REQUIRE(host.ok());
  const OnGpu on;
  InferenceModel model = on.load(folder, dtype);
  CHECK(on.gpu->device().owns(model.weights().embedding.dense()
                                  ? model.weights().embedding.dense()->weight.view().data()
                                  : model.weights().embedding.int8()->q.view().data()));
  const std::vector<std::int32_t> ids = test::inference_tokens(4, 20), others = test::inference_tokens(5, 32);
  KvCache here = host->make_cache(32);
  const SequenceStep all{&here, ids};
  const std::vector<float> expected = logits_of(*host, context, {&all, 1}, LogitsWanted::all);
  KvCache there = model.make_cache(32);
  CHECK(on.gpu->device().owns(there.keys(0).data()));
  const SequenceStep same{&there, ids};
  CHECK(farthest(logits_of(model, on.context, {&same, 1}, LogitsWanted::all), expected) < limit);

  KvCache pieces = model.make_cache(20), other = model.make_cache(32);
  std::int64_t at = 0;
  for (const std::int64_t count : {7, 5, 1, 1, 1, 1, 1, 1, 1, 1}) {
    const SequenceStep steps[] = {{&other, piece(others, other.length(), count == 1 && at < 16 ? 1 : 2)},
                                  {&pieces, piece(ids, at, count)}};
    const std::vector<float> last = logits_of(model, on.context, steps, LogitsWanted::last);
    at += count;
    CAPTURE(at);
    CHECK(farthest(std::span(last).subspan(logits_width),
                   std::span(expected).subspan((at - 1) * logits_width, logits_width)) < limit);
  }
  pieces.truncate(model.shape().virtual_tokens + 10);
  const SequenceStep again{&pieces, piece(ids, 10, 4)};
  const std::vector<float> last = logits_of(model, on.context, {&again, 1}, LogitsWanted::last);
  CHECK(farthest(last, std::span(expected).subspan(13 * logits_width, logits_width)) < limit);
}

// A model whose sequences grow beyond one piece of keys.
ModelShape long_shape() {
  ModelShape shape = test::tiny_shape();
  shape.num_hidden_layers = 1, shape.max_position_embeddings = 300;
  return shape;
}

// 20 steps of so many sequences, whose first grows past the length that one recording serves.
void check_replays(const std::string& folder, DType dtype, std::initializer_list<std::int64_t> numbers) {
  const OnGpu on;
  InferenceModel replays = on.load(folder, dtype), plain = on.load(folder, dtype);
  plain.use_graphs(false);
  for (const std::int64_t sequences : numbers) {
    CAPTURE(sequences);
    std::vector<KvCache> of_replays, of_plain;
    for (std::int64_t i = 0; i < sequences; ++i)
      of_replays.push_back(replays.make_cache(300)), of_plain.push_back(plain.make_cache(300));
    const DecodeGraphCounts before = replays.graph_counts();
    // The first sequence passes the length that one recording serves.
    std::vector<std::vector<std::int32_t>> tokens;
    for (std::int64_t i = 0; i < sequences; ++i)
      tokens.push_back(test::inference_tokens(20 + static_cast<std::uint64_t>(i), i == 0 ? 270 : 30));
    std::vector<std::int64_t> at;
    for (int step = -1; step < 20; ++step) {
      std::vector<SequenceStep> one, other;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (step < 0) at.push_back(i == 0 ? 246 : 1 + static_cast<std::int64_t>(i));
        const std::int64_t begin = step < 0 ? 0 : at[i], count = step < 0 ? at[i] : 1;
        one.push_back({&of_replays[i], piece(tokens[i], begin, count)});
        other.push_back({&of_plain[i], piece(tokens[i], begin, count)});
        if (step >= 0) ++at[i];
      }
      const std::vector<float> a = logits_of(replays, on.context, one, LogitsWanted::last);
      const std::vector<float> b = logits_of(plain, on.context, other, LogitsWanted::last);
      CAPTURE(step);
      CHECK(a == b);
      CHECK(farthest(a, b) == 0);  // and finite
    }
    const DecodeGraphCounts& counts = replays.graph_counts();
    CHECK(counts.replayed - before.replayed >= 14);  // the others took memory first
    CHECK(counts.recorded - before.recorded >= 2);   // up to 256 tokens, and beyond
    CHECK(counts.recorded - before.recorded <= 3);
    CHECK(plain.graph_counts().replayed + plain.graph_counts().recorded == 0);
  }
}

}  // namespace

TEST_CASE("generation on a GPU has the processor's logits: at once, in pieces, token by token, after a truncation") {
  ModelShape windowed = test::tiny_shape();
  windowed.sliding_window = 6, windowed.bottleneck = {6, true, true};
  for (const ModelShape& shape :
       {test::tiny_shape(), test::tiny_shape(false), test::tiny_gpt2_shape(), test::tiny_gpt2_shape(false), windowed}) {
    CAPTURE(shape.sliding_window);
    CAPTURE(shape.architecture);
    CAPTURE(shape.tie_word_embeddings);
    const ComputeContext context(1);
    ParameterStore store(shape, DType::f32);
    initialize_parameters(context, store, 8);
    test::move_vectors(store);
    const test::InferenceFolder folder(store);
    check_same_logits(folder.path, DType::f32, 1e-4);
    check_same_logits(folder.path, DType::bf16, 0.15);
  }
}

// In f32: of two experts that are as good as equal bf16 may take the other one.
TEST_CASE("experts, and what stands before every text, on a GPU: the logits of the processor") {
  ModelShape experts = test::tiny_mixtral_shape(), prompt = test::tiny_shape(), prefix = test::tiny_gpt2_shape();
  experts.n_shared_experts = 1, experts.router_score = "sigmoid", experts.router_bias = true;
  prompt.virtual_tokens = 3, prefix.virtual_tokens = 3, prefix.virtual_keys = true;
  for (const ModelShape& shape : {experts, prompt, prefix}) {
    CAPTURE(shape.architecture);
    const ComputeContext context(1);
    ParameterStore store(shape, DType::f32);
    initialize_parameters(context, store, 8);
    test::move_vectors(store);
    check_same_logits(test::InferenceFolder(store).path, DType::f32, 1e-4);
  }
}

TEST_CASE("weights in int8, fp8 and int4 on a GPU, the embedding's in int8 too") {
  const ComputeContext context(1);
  ParameterStore store(test::tiny_shape(), DType::f32);
  initialize_parameters(context, store, 8);
  const test::InferenceFolder folder(store);
  for (const auto& [codes, embedding] : {std::pair{WeightCodes::int8, false},
                                         {WeightCodes::int8, true},
                                         {WeightCodes::fp8, false},
                                         {WeightCodes::int4, false}}) {
    const std::string quantized = folder.path + "/" + name_of(codes) + (embedding ? "-all" : "");
    CAPTURE(quantized);
    REQUIRE(make_directories(quantized).ok());
    REQUIRE(quantize_folder(folder.path, quantized, codes, embedding).ok());
    check_same_logits(quantized, DType::f32, 1e-4);
    check_same_logits(quantized, DType::bf16, 0.15);
  }
}

TEST_CASE("20 replayed steps give the bits of steps that are asked for one by one, for several numbers of sequences") {
  const ComputeContext context(1);
  ParameterStore store(long_shape(), DType::f32);
  initialize_parameters(context, store, 8);
  const test::InferenceFolder folder(store);
  check_replays(folder.path, DType::f32, {1, 2, 3, 9});
  check_replays(folder.path, DType::bf16, {1, 2, 3, 9});
  const std::string quantized = folder.path + "/int8";
  REQUIRE(make_directories(quantized).ok());
  REQUIRE(quantize_folder(folder.path, quantized, WeightCodes::int8, true).ok());
  check_replays(quantized, DType::bf16, {2, 9});

  ModelShape gpt2 = test::tiny_gpt2_shape();
  gpt2.num_hidden_layers = 1, gpt2.max_position_embeddings = 300;
  ParameterStore other(gpt2, DType::f32);
  initialize_parameters(context, other, 8);
  const test::InferenceFolder of_gpt2(other);
  check_replays(of_gpt2.path, DType::f32, {2});

  ModelShape experts = test::tiny_mixtral_shape();
  experts.num_hidden_layers = 1, experts.max_position_embeddings = 300;
  ParameterStore mixture(experts, DType::f32);
  initialize_parameters(context, mixture, 8);
  check_replays(test::InferenceFolder(mixture).path, DType::f32, {2});
}

TEST_CASE("tokens that are drawn on the device, replayed too, are those drawn from its logits; one copy a step") {
  const ComputeContext context(1);
  ParameterStore store(long_shape(), DType::f32);
  initialize_parameters(context, store, 8);
  const test::InferenceFolder folder(store);
  const OnGpu on;
  InferenceModel draws = on.load(folder.path, DType::f32), logits = on.load(folder.path, DType::f32);
  logits.use_graphs(false);
  draws.keep_seen(5);
  const std::size_t sequences = 3;
  std::vector<KvCache> of_draws, of_logits;
  std::vector<SampleRow> rows(sequences);
  std::vector<TokenHistory> histories(sequences);
  std::vector<std::vector<std::int32_t>> next(sequences);
  for (std::size_t i = 0; i < sequences; ++i) {
    of_draws.push_back(draws.make_cache(60)), of_logits.push_back(logits.make_cache(60));
    next[i] = test::inference_tokens(60 + i, 3 + static_cast<std::int64_t>(i));
    for (const std::int32_t token : next[i]) histories[i].add_prompt(token);
    rows[i].temperature = i == 0 ? 0 : 1.2, rows[i].seed = 77 + i, rows[i].top_p = i == 2 ? 0.8 : 1;
    rows[i].repetition_penalty = i == 1 ? 1 : 1.4, rows[i].frequency_penalty = i == 2 ? 0.5 : 0;
    if (i == 1) continue;
    rows[i].seen_row = 4 - static_cast<std::int64_t>(i);
    std::vector<std::int32_t> counts(logits_width);
    for (const auto& [token, times] : histories[i].seen()) counts[static_cast<std::size_t>(token)] = 1 + times;
    draws.set_seen(on.context, rows[i].seen_row, counts);
  }
  for (int step = 0; step < 30; ++step) {
    CAPTURE(step);
    std::vector<SequenceStep> one, other;
    for (std::size_t i = 0; i < sequences; ++i)
      one.push_back({&of_draws[i], next[i]}), other.push_back({&of_logits[i], next[i]});
    std::vector<std::int32_t> tokens(sequences, -7);
    REQUIRE(draws.draw(on.context, one, rows, tokens).ok());
    std::vector<float> all = logits_of(logits, on.context, other, LogitsWanted::last);
    for (std::size_t i = 0; i < sequences; ++i) {
      const SampleRow& r = rows[i];
      const SamplingParameters p{r.temperature,       r.top_k, r.top_p, r.repetition_penalty, r.presence_penalty,
                                 r.frequency_penalty, r.seed,  r.stream};
      const std::int32_t want =
          sample_token(std::span(all).subspan(i * logits_width, logits_width), histories[i], p, r.position);
      CHECK(tokens[i] == want);
      histories[i].add_output(want);
      next[i] = {want};
      ++rows[i].position;
    }
  }
  CHECK(draws.graph_counts().recorded == 1);
  CHECK(draws.graph_counts().replayed == 28);

  rows[0].seen_row = 5;  // there is none
  std::vector<SequenceStep> again;
  for (std::size_t i = 0; i < sequences; ++i) again.push_back({&of_draws[i], next[i]});
  std::vector<std::int32_t> tokens(sequences);
  CHECK_FALSE(draws.draw(on.context, again, rows, tokens).ok());
  auto host = InferenceModel::load(folder.path, DType::f32);
  KvCache of_host = host->make_cache(4);
  const SequenceStep step{&of_host, {tokens.data(), 1}};
  const Status refused = host->draw(context, {&step, 1}, {rows.data(), 1}, {tokens.data(), 1});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::unsupported);
}

TEST_CASE("more sequences at once than there may be recordings are asked for one by one") {
  const ComputeContext context(1);
  ParameterStore store(long_shape(), DType::f32);
  initialize_parameters(context, store, 8);
  const test::InferenceFolder folder(store);
  const OnGpu on;
  InferenceModel model = on.load(folder.path, DType::f32);
  std::vector<KvCache> caches;
  for (std::int64_t i = 0; i <= DecodeGraphs::sequences_max; ++i) caches.push_back(model.make_cache(4));
  const std::vector<std::int32_t> ids = test::inference_tokens(4, 3);
  for (std::int64_t at = 0; at < 3; ++at) {
    std::vector<SequenceStep> steps;
    for (KvCache& cache : caches) steps.push_back({&cache, piece(ids, at, 1)});
    const std::vector<float> logits = logits_of(model, on.context, steps, LogitsWanted::last);
    CHECK(std::equal(logits.begin(), logits.begin() + logits_width, logits.end() - logits_width));
  }
  CHECK(model.graph_counts().plain == 3);
  CHECK(model.graph_counts().recorded == 0);
}

TEST_CASE("memory that is released makes a recording void: the next step is asked for anew, with the same logits") {
  const ComputeContext context(1);
  ParameterStore store(long_shape(), DType::f32);
  initialize_parameters(context, store, 8);
  const test::InferenceFolder folder(store);
  const OnGpu on;
  InferenceModel model = on.load(folder.path, DType::f32), plain = on.load(folder.path, DType::f32);
  plain.use_graphs(false);
  KvCache cache = model.make_cache(64), same = plain.make_cache(64);
  const std::vector<std::int32_t> ids = test::inference_tokens(4, 40);
  for (std::int64_t at = 0; at < 12; ++at) {
    if (at == 6) {  // a long prompt of somebody else moves the scratch memory
      KvCache other = model.make_cache(200);
      const std::vector<std::int32_t> text = test::inference_tokens(9, 190);
      const SequenceStep step{&other, text};
      logits_of(model, on.context, {&step, 1}, LogitsWanted::last);
    }
    const SequenceStep one{&cache, piece(ids, at, 1)}, other{&same, piece(ids, at, 1)};
    CHECK(logits_of(model, on.context, {&one, 1}, LogitsWanted::last) ==
          logits_of(plain, on.context, {&other, 1}, LogitsWanted::last));
  }
  CHECK(model.graph_counts().recorded == 2);
}

TEST_CASE("a model that a GPU has no room for is refused with the numbers, before it is loaded") {
  const ComputeContext context(1);
  const OnGpu on;
  ParameterStore store(test::tiny_shape(), DType::f32);
  initialize_parameters(context, store, 8);
  const test::InferenceFolder folder(store);
  InferenceLoad load;
  load.sequences = 2, load.context_length = 32, load.tokens_max = 16;
  const auto planned = plan_inference_memory(folder.path, test::tiny_shape(), DType::bf16, load);
  REQUIRE(planned.ok());
  CHECK(planned->weights == 2 * test::tiny_shape().parameter_count());
  CHECK(planned->caches == 2 * KvCache::bytes_for(test::tiny_shape(), 32, DType::bf16));
  CHECK(check_inference_memory(*planned, load, on.gpu->device()).ok());
  load.sequences = 1 << 30;
  const auto large = plan_inference_memory(folder.path, test::tiny_shape(), DType::bf16, load);
  const Status refused = check_inference_memory(*large, load, on.gpu->device());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::unavailable);
  CHECK(refused.error().what.find("1073741824 sequences of 32 tokens") != std::string::npos);
  CHECK(refused.error().hint.find("fewer slots") != std::string::npos);
}

#ifndef LONGHAUL_REAL_GPU  // whose driver gives memory out in pages, to others as well
TEST_CASE("what a model holds on a GPU is counted, and given back with it") {
  const ComputeContext context(1);
  ParameterStore store(test::tiny_shape(), DType::f32);
  initialize_parameters(context, store, 8);
  const test::InferenceFolder folder(store);
  const OnGpu on;
  const std::int64_t before = on.gpu->device().free_bytes();
  {
    InferenceModel model = on.load(folder.path, DType::f32);
    CHECK(model.weights().memory->bytes_now == model.weights().bytes());
    const KvCache cache = model.make_cache(32);
    CHECK(model.weights().memory->bytes_now ==
          model.weights().bytes() + KvCache::bytes_for(test::tiny_shape(), 32, DType::f32));
    CHECK(before - on.gpu->device().free_bytes() >= model.weights().memory->bytes_now);
  }
  CHECK(on.gpu->device().free_bytes() == before);
}
#endif
#endif
