// Generation with keys and values in pages, on an emulated GPU and on the processor, beside caches with memory of their
// own: the same logits and tokens, whoever's pages lie where.
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
#include <cmath>

#include "engine/model/inference/inference_model.h"
#include "tests/support/emulated_gpu/test_gpu.h"
#include "tests/unit/engine/model/inference_folder.h"
#include "tests/unit/engine/model/reference_model.h"

using namespace longhaul;

namespace {

constexpr std::size_t vocab = 37;
constexpr std::int64_t text_length = 120;

struct Where {
  std::shared_ptr<Gpu> gpu;  // null: the processor
  ComputeContext context = gpu ? ComputeContext(gpu->device(), gpu->ops()) : ComputeContext(1);
  InferenceModel load(const std::string& folder, DType dtype) const {
    auto loaded = InferenceModel::load(folder, dtype, gpu ? &gpu->device() : nullptr);
    REQUIRE_MESSAGE(loaded.ok(), (loaded.ok() ? "" : loaded.error().message()));
    return std::move(*loaded);
  }
};

ModelShape longer(ModelShape shape) {
  shape.max_position_embeddings = 600;
  return shape;
}

std::vector<float> last_of(InferenceModel& model, const ComputeContext& context, std::span<const SequenceStep> steps) {
  std::vector<float> logits(steps.size() * vocab);
  const Status status = model.forward(context, steps, LogitsWanted::last, logits);
  REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
  return logits;
}

KvCache cache_of(KvPool& pool, std::int64_t length) {
  KvCache cache(pool);
  REQUIRE(cache.reserve(length));
  return cache;
}

// Several texts grow together, in pieces of prompts and token by token, one is cut and goes on, one ends and another
// takes its pages; each step beside the processor's with contiguous caches.
void check_same_logits(const Where& where, const std::string& folder, DType dtype, double limit) {
  const Where host;
  InferenceModel expected = host.load(folder, dtype), model = where.load(folder, dtype);
  const auto pool = model.make_pool(3 * KvPool::pages_for(text_length));
  PhiloxSequence draw(17, 1);
  std::vector<KvCache> paged, plain;
  std::vector<std::vector<std::int32_t>> texts;
  for (std::uint64_t i = 0; i < 3; ++i) {
    paged.push_back(cache_of(*pool, text_length)), plain.push_back(expected.make_cache(text_length));
    texts.push_back(test::inference_tokens(30 + i, text_length));
  }
  double worst = 0;
  for (int round = 0; round < 40; ++round) {
    if (round == 20) {  // another text takes the place of one, and its pages
      paged[1] = KvCache();
      paged[1] = cache_of(*pool, text_length), plain[1].truncate(0);
    }
    std::vector<SequenceStep> one, other;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (paged[i].length() == text_length) paged[i].truncate(45), plain[i].truncate(45);
      std::int64_t count = draw.next_below(8) == 0 ? 1 + static_cast<std::int64_t>(draw.next_below(40)) : 1;
      if (round == 0) count = 1 + static_cast<std::int64_t>(i) * 17;
      const std::int64_t at = paged[i].length();
      const auto tokens = std::span(texts[i]).subspan(static_cast<std::size_t>(at),
                                                      static_cast<std::size_t>(std::min(count, text_length - at)));
      one.push_back({&paged[i], tokens}), other.push_back({&plain[i], tokens});
    }
    const std::vector<float> a = last_of(model, where.context, one), b = last_of(expected, host.context, other);
    for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
    CAPTURE(round);
    for (const float logit : a) CHECK(std::isfinite(logit));
    REQUIRE(worst < limit);
  }
}

}  // namespace

TEST_CASE("keys and values in pages give the logits of contiguous ones: prompts in pieces, mixed steps, cuts, reuse") {
  ModelShape windowed = test::tiny_shape();
  windowed.sliding_window = 6;
  for (const ModelShape& shape : {test::tiny_shape(), test::tiny_gpt2_shape(), windowed}) {
    CAPTURE(shape.architecture);
    CAPTURE(shape.sliding_window);
    const ComputeContext context(1);
    ParameterStore store(longer(shape), DType::f32);
    initialize_parameters(context, store, 8);
    test::move_vectors(store);
    const test::InferenceFolder folder(store);
    check_same_logits({}, folder.path, DType::f32, 1e-4);
    const Where gpu{testing::open_test_gpu()};
    check_same_logits(gpu, folder.path, DType::f32, 1e-4);
    check_same_logits(gpu, folder.path, DType::bf16, 0.2);
  }
}

TEST_CASE(
    "steps in pages are recorded once for each power of two of the longest text, and no text that grows voids one") {
  ModelShape shape = longer(test::tiny_shape());
  shape.num_hidden_layers = 1;
  const ComputeContext host(1);
  ParameterStore store(shape, DType::f32);
  initialize_parameters(host, store, 8);
  const test::InferenceFolder folder(store);
  const Where on{testing::open_test_gpu()}, beside{testing::open_test_gpu()};
  InferenceModel model = on.load(folder.path, DType::f32), plain = beside.load(folder.path, DType::f32);
  plain.use_graphs(false);
  InferenceLoad load;
  load.sequences = 3, load.context_length = 600, load.tokens_max = 300, load.logits_rows = 3, load.seen_rows = 3;
  load.in_pages = true;
  const auto pool = model.make_pool(100), of_plain = plain.make_pool(100);
  model.take_scratch(on.context, load, *pool);
  const std::int64_t releases = on.gpu->device().releases();
  const std::vector<std::int32_t> text = test::inference_tokens(4, 600);
  const auto piece = [&](std::int64_t at, std::int64_t count) {
    return std::span(text).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count));
  };
  KvCache a = cache_of(*pool, 600), b = cache_of(*pool, 600), c = cache_of(*of_plain, 600),
          d = cache_of(*of_plain, 600);
  std::int64_t steps = 0;
  for (const std::int64_t before : {200, 250, 510, 230}) {  // within 256, beyond it, beyond 512, and back
    for (KvCache* cache : {&a, &b, &c, &d}) cache->truncate(0);
    for (std::int64_t at = 0; at < before; at += 250) {
      const SequenceStep one{&a, piece(at, std::min<std::int64_t>(250, before - at))}, other{&c, one.tokens};
      last_of(model, on.context, {&one, 1}), last_of(plain, beside.context, {&other, 1});
    }
    for (std::int64_t t = 0; t < 15; ++t, ++steps) {
      const SequenceStep ones[] = {{&a, piece(before + t, 1)}, {&b, piece(t, 1)}};
      const SequenceStep others[] = {{&c, piece(before + t, 1)}, {&d, piece(t, 1)}};
      SampleRow draws[2];
      draws[0].seed = 5, draws[1].seed = 6, draws[0].position = draws[1].position = static_cast<std::uint64_t>(t);
      std::vector<std::int32_t> tokens(2), same(2);
      REQUIRE(model.draw(on.context, ones, draws, tokens).ok());
      REQUIRE(plain.draw(beside.context, others, draws, same).ok());
      CHECK(tokens == same);
    }
  }
  const DecodeGraphCounts& counts = model.graph_counts();
  CHECK(counts.recorded == 3);  // up to 256, 512 and 1,024 tokens
  CHECK(counts.plain == 3);
  CHECK(counts.replayed == steps - 3);
  CHECK(on.gpu->device().releases() == releases);
}

TEST_CASE("caches of two pools, of a pool and not, and tokens that were not promised room are refused") {
  const ComputeContext context(1);
  ParameterStore store(test::tiny_shape(), DType::f32);
  initialize_parameters(context, store, 8);
  const test::InferenceFolder folder(store);
  auto model = InferenceModel::load(folder.path, DType::f32);
  REQUIRE(model.ok());
  const auto pool = model->make_pool(4), another = model->make_pool(4);
  KvCache a = cache_of(*pool, 10), b = cache_of(*another, 10), c = model->make_cache(10);
  const std::vector<std::int32_t> ids = test::inference_tokens(4, 11);
  std::vector<float> logits(2 * vocab);
  for (KvCache* other : {&b, &c}) {
    const SequenceStep steps[] = {{&a, std::span(ids).first(2)}, {other, std::span(ids).first(2)}};
    const Status refused = model->forward(context, steps, LogitsWanted::last, logits);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().what.find("another pool") != std::string::npos);
  }
  const SequenceStep long_one{&a, ids};
  CHECK_FALSE(model->forward(context, {&long_one, 1}, LogitsWanted::last, logits).ok());
  CHECK(pool->used() == 0);
}
#endif
