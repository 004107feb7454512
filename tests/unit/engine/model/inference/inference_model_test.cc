#include "engine/model/inference/inference_model.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/unit/engine/model/inference_folder.h"
#include "tests/unit/engine/model/reference_model.h"

using namespace longhaul;

namespace {

double worst(std::span<const float> got, const reference::Vector& expected) {
  double difference = 0;
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    difference = std::max(difference, std::abs(static_cast<double>(got[i]) - expected[i]));
  return difference;
}

}  // namespace

TEST_CASE(
    "a model written to a folder and loaded again has the reference's logits, at once, in pieces and token by token") {
  ModelShape windowed = test::tiny_shape();
  windowed.sliding_window = 6;
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
    auto model = InferenceModel::load(folder.path, DType::f32);
    REQUIRE(model.ok());
    CHECK(model->shape() == shape);
    const std::vector<std::int32_t> ids = test::inference_tokens(4, 20);
    const std::vector<double> flat(store.masters().begin(), store.masters().end());
    const reference::Vector expected =
        test::ReferenceModel(shape, store.layout(), flat).logits({1, 20, ids, {}, {}, {}});

    std::vector<float> logits(20 * 37);
    KvCache cache = model->make_cache(32);
    SequenceStep step{&cache, ids};
    REQUIRE(model->forward(context, {&step, 1}, LogitsWanted::all, logits).ok());
    CHECK(worst(logits, expected) < 1e-4);
    CHECK(cache.length() == 20);

    // Prefill 7, then 5 at once, then one by one, beside another sequence that changes nothing.
    KvCache pieces = model->make_cache(20), other = model->make_cache(32);
    const std::vector<std::int32_t> other_ids = test::inference_tokens(5, 32);
    std::int64_t at = 0;
    for (const std::int64_t count : {7, 5, 1, 1, 1, 1, 1, 1, 1, 1}) {
      std::vector<float> last(2 * 37);
      const SequenceStep steps[] = {
          {&other, std::span(other_ids).subspan(static_cast<std::size_t>(other.length()), 2)},
          {&pieces, std::span(ids).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count))}};
      REQUIRE(model->forward(context, steps, LogitsWanted::last, last).ok());
      at += count;
      const reference::Vector row(expected.begin() + (at - 1) * 37, expected.begin() + at * 37);
      CHECK(worst(std::span(last).subspan(37), row) < 1e-4);
    }
    // A copy of a beginning is what was read: the same bits behind it.
    KvCache from = model->make_cache(16), to = model->make_cache(24);
    std::vector<float> behind_read(37), behind_copy(37);
    SequenceStep whole{&from, std::span(ids).first(11)};
    REQUIRE(model->forward(context, {&whole, 1}, LogitsWanted::none, {}).ok());
    to.copy_beginning(from, 9);
    CHECK(to.length() == 9);
    from.truncate(9);
    for (const auto& [place, row] : {std::pair(&from, &behind_read), std::pair(&to, &behind_copy)}) {
      const SequenceStep next{place, std::span(ids).subspan(9, 2)};
      REQUIRE(model->forward(context, {&next, 1}, LogitsWanted::last, *row).ok());
    }
    CHECK(behind_copy == behind_read);

    // A truncated cache goes on as if the rest had never been.
    pieces.truncate(10);
    std::vector<float> last(37);
    step = {&pieces, std::span(ids).subspan(10, 4)};
    REQUIRE(model->forward(context, {&step, 1}, LogitsWanted::last, last).ok());
    CHECK(worst(last, reference::Vector(expected.begin() + 13 * 37, expected.begin() + 14 * 37)) < 1e-4);
  }
}

TEST_CASE("a model with experts, loaded again, has the reference's logits, at once and token by token") {
  ModelShape shape = test::tiny_mixtral_shape();
  for (const bool own : {false, true}) {
    CAPTURE(own);
    if (own) {
      shape.router_score = "sigmoid", shape.router_bias = true, shape.n_shared_experts = 1;
      shape.routed_scaling_factor = 2, shape.n_group = 2, shape.topk_group = 1;
    }
    const ComputeContext context(1);
    ParameterStore store(shape, DType::f32);
    initialize_parameters(context, store, 8);
    const test::InferenceFolder folder(store);
    auto model = InferenceModel::load(folder.path, DType::f32);
    REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().message()));
    CHECK(model->shape() == shape);
    const std::vector<std::int32_t> ids = test::inference_tokens(4, 12);
    const std::vector<double> flat(store.masters().begin(), store.masters().end());
    MicroBatch batch;
    batch.sequences = 1, batch.length = 12, batch.ids = ids;
    const reference::Vector expected = test::ReferenceModel(shape, store.layout(), flat).logits(batch);
    std::vector<float> logits(static_cast<std::size_t>(12 * shape.vocab_size));
    KvCache cache = model->make_cache(12), again = model->make_cache(12);
    const SequenceStep all{&cache, ids};
    REQUIRE(model->forward(context, {&all, 1}, LogitsWanted::all, logits).ok());
    CHECK(worst(logits, expected) < 1e-4);
    for (std::size_t t = 0; t < ids.size(); ++t) {
      const SequenceStep one{&again, std::span(ids).subspan(t, 1)};
      const auto vocab = static_cast<std::size_t>(shape.vocab_size);
      REQUIRE(model->forward(context, {&one, 1}, LogitsWanted::last, std::span(logits).subspan(t * vocab, vocab)).ok());
    }
    CHECK(worst(logits, expected) < 1e-4);
  }
}

TEST_CASE("bf16 weights and activations stay near the reference") {
  for (const ModelShape& shape : {test::tiny_shape(), test::tiny_gpt2_shape()}) {
    CAPTURE(shape.architecture);
    const ComputeContext context(1);
    ParameterStore store(shape, DType::f32);
    initialize_parameters(context, store, 8);
    const test::InferenceFolder folder(store, "bf16");
    auto model = InferenceModel::load(folder.path, DType::bf16);
    REQUIRE(model.ok());
    const std::vector<std::int32_t> ids = test::inference_tokens(4, 12);
    std::vector<float> logits(12 * 37);
    KvCache cache = model->make_cache(12);
    const SequenceStep step{&cache, ids};
    REQUIRE(model->forward(context, {&step, 1}, LogitsWanted::all, logits).ok());
    const std::vector<double> flat(store.masters().begin(), store.masters().end());
    const reference::Vector expected =
        test::ReferenceModel(shape, store.layout(), flat).logits({1, 12, ids, {}, {}, {}});
    CHECK(worst(logits, expected) < 0.15);
    CHECK(worst(logits, expected) > 1e-6);
  }
}

TEST_CASE("a bad call is refused and changes nothing") {
  const ModelShape shape = test::tiny_shape();
  const ComputeContext context(1);
  ParameterStore store(shape, DType::f32);
  initialize_parameters(context, store, 8);
  const test::InferenceFolder folder(store);
  auto model = InferenceModel::load(folder.path, DType::f32);
  REQUIRE(model.ok());
  KvCache cache = model->make_cache(4);
  std::vector<float> logits(37);
  const std::vector<std::int32_t> five(5, 1), foreign{40}, one{1};
  for (const auto& tokens : {five, foreign, std::vector<std::int32_t>()}) {
    const SequenceStep step{&cache, tokens};
    CHECK(model->forward(context, {&step, 1}, LogitsWanted::last, logits).error().code == ErrorCode::invalid_input);
  }
  const SequenceStep twice[] = {{&cache, one}, {&cache, one}};
  CHECK_FALSE(model->forward(context, twice, LogitsWanted::none, {}).ok());
  CHECK(cache.length() == 0);
  // A folder whose files do not belong together, or that is cut short.
  REQUIRE(write_file_atomic(folder.path + "/model.safetensors",
                            read_file(folder.path + "/model.safetensors")->substr(0, 5000))
              .ok());
  CHECK_FALSE(InferenceModel::load(folder.path, DType::f32).ok());
}
