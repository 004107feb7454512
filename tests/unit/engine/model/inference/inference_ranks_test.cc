// Ranks that compute a model's steps together, each with a part of it, against one rank that has all.
#include "engine/model/inference/ranks/inference_ranks.h"

#include <doctest/doctest.h>

#include <thread>

#include "engine/comm/threads_communicator.h"
#include "engine/model/inference/inference_model.h"
#include "engine/model/inference/stored_weights.h"
#include "engine/parallel/mesh/box_copy.h"
#include "engine/parallel/mesh/mesh.h"
#include "tests/unit/engine/model/inference_folder.h"
#include "tests/unit/engine/model/reference_model.h"

namespace longhaul {
namespace {

namespace inference_ranks_test {

// What one part of a test asks for: the logits of two prompts, of a token more of each, and of all of a third text.
std::vector<float> ask(InferenceModel& model) {
  const ComputeContext context(1);
  const std::vector<std::int32_t> first = test::inference_tokens(4, 9), second = test::inference_tokens(5, 3),
                                  third = test::inference_tokens(6, 7);
  const auto vocab = static_cast<std::size_t>(model.shape().vocab_size);
  std::vector<float> all;
  const auto forward = [&](std::span<const SequenceStep> steps, LogitsWanted wanted, std::size_t rows) {
    all.resize(all.size() + rows * vocab);
    const Status done = model.forward(context, steps, wanted, std::span<float>(all).last(rows * vocab));
    if (!done.ok()) MESSAGE(done.error().message());
    return done.ok();
  };
  KvCache a = model.make_cache(20), b = model.make_cache(20), c = model.make_cache(20);
  const std::vector<SequenceStep> prompts = {{&a, first}, {&b, second}};
  const std::vector<std::int32_t> next = {7}, other = {36};
  const std::vector<SequenceStep> decode = {{&a, next}, {&b, other}};
  const SequenceStep scored{&c, third}, filled{&c, next};
  const bool ok = forward(prompts, LogitsWanted::last, 2) && forward(decode, LogitsWanted::last, 2) &&
                  forward({&scored, 1}, LogitsWanted::all, third.size()) &&
                  forward({&filled, 1}, LogitsWanted::none, 0);
  return ok ? all : std::vector<float>();
}

Result<InferenceModel> model_of(const ParameterStore& store, DType dtype, InferenceRanks ranks) {
  LH_TRY(InferenceWeights weights,
         inference_weights_of(ComputeContext(1), store, weights_to_fill(dtype, nullptr, nullptr)));
  return InferenceModel(store.shape(), std::move(weights), std::move(ranks));
}

// This rank's part of it.
ParameterStore part_of(const ParameterStore& whole, DType dtype, const MeshPlace& place) {
  ParameterStore part(whole.shape(), dtype, nullptr, place);
  for (const FlatParameter& p : part.layout().parameters()) {
    const FlatParameter& from = whole.layout().find(p.spec.name);
    const auto values =
        whole.masters().subspan(static_cast<std::size_t>(from.begin), static_cast<std::size_t>(from.end - from.begin));
    copy_between_boxes(
        values, from.box, 0, from.end - from.begin, p.box,
        part.masters().subspan(static_cast<std::size_t>(p.begin), static_cast<std::size_t>(p.end - p.begin)));
  }
  part.refresh_compute_copy(ComputeContext(1));
  return part;
}

// The logits of each rank.
std::vector<std::vector<float>> ask_ranks(const ParameterStore& whole, DType dtype, const ParallelDims& dims) {
  const SystemClock clock;
  const ThreadsWorld world(dims.world_size());
  CommOptions options;
  options.clock = &clock;
  std::vector<std::vector<float>> found(static_cast<std::size_t>(dims.world_size()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < dims.world_size(); ++rank)
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Communicator> all = world.communicator(rank, 1, options);
      const std::unique_ptr<Mesh> mesh = Mesh::create(dims, *all, 20'000).value();
      MeshPlace place{dims, mesh->at(), even_stages(static_cast<int>(whole.shape().num_hidden_layers), dims.pp)};
      const ParameterStore part = part_of(whole, dtype, place);
      auto model = model_of(part, dtype, {mesh->tensor_communicator(), mesh->pipeline_communicator(), 20'000});
      if (model.ok()) found[static_cast<std::size_t>(rank)] = ask(*model);
    });
  for (std::thread& thread : threads) thread.join();
  return found;
}

std::vector<ModelShape> shapes() {
  std::vector<ModelShape> all = {test::tiny_shape(), test::tiny_shape(false), test::tiny_gpt2_shape(),
                                 test::tiny_gpt2_shape(false), test::tiny_mixtral_shape()};
  ModelShape shared = test::tiny_mixtral_shape(), prompt = test::tiny_shape(), prefix = test::tiny_shape(),
             bottleneck = test::tiny_gpt2_shape();
  shared.n_shared_experts = 1, shared.router_bias = true, shared.router_score = "sigmoid";
  prompt.virtual_tokens = prefix.virtual_tokens = 3, prefix.virtual_keys = true;
  bottleneck.bottleneck = {4, true, true};
  all.insert(all.end(), {shared, prompt, prefix, bottleneck});
  return all;
}

TEST_CASE("ranks that have parts of a model compute its logits together, the same bits on each") {
  for (const ModelShape& shape : shapes()) {
    ParameterStore whole(shape, DType::f32);
    initialize_parameters(ComputeContext(1), whole, 8);
    test::move_vectors(whole);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      InferenceModel alone = model_of(whole, dtype, {}).value();
      const std::vector<float> one = ask(alone);
      REQUIRE(!one.empty());
      for (const auto& [tp, pp] : {std::pair{2, 1}, std::pair{1, 2}, std::pair{2, 2}}) {
        CAPTURE(shape.architecture);
        CAPTURE(shape.n_shared_experts);
        CAPTURE(shape.virtual_tokens);
        CAPTURE(tp);
        CAPTURE(pp);
        CAPTURE(dtype == DType::bf16);
        ParallelDims dims;
        dims.tp = tp, dims.pp = pp, dims.etp = shape.is_moe() ? tp : 1;
        const std::vector<std::vector<float>> ranks = ask_ranks(whole, dtype, dims);
        for (const std::vector<float>& rank : ranks) REQUIRE(rank == ranks.front());
        REQUIRE(ranks.front().size() == one.size());
        const double near = dtype == DType::f32 ? 2e-5 : 0.06;
        for (std::size_t i = 0; i < one.size(); ++i)
          REQUIRE(ranks.front()[i] == doctest::Approx(one[i]).epsilon(near).scale(1));
      }
    }
  }
}

TEST_CASE("a rank that is missing ends a step of the others by its deadline, with an error and no logits") {
  const ModelShape shape = test::tiny_shape();
  ParallelDims dims;
  dims.tp = 2;
  const SystemClock clock;
  const ThreadsWorld world(2);
  CommOptions options;
  options.clock = &clock;
  const std::unique_ptr<Communicator> mine = world.communicator(0, 1, options);
  const ParameterStore part(shape, DType::f32, nullptr, MeshPlace{dims, {}, even_stages(2, 1)});
  auto model = model_of(part, DType::f32, {mine.get(), nullptr, 50});
  REQUIRE(model.ok());
  KvCache cache = model->make_cache(8);
  const std::vector<std::int32_t> ids = {1, 2};
  const SequenceStep step{&cache, ids};
  std::vector<float> logits(37);
  const Status done = model->forward(ComputeContext(1), {&step, 1}, LogitsWanted::last, logits);
  REQUIRE_FALSE(done.ok());
  CHECK(done.error().code == ErrorCode::timeout);
}

}  // namespace inference_ranks_test

}  // namespace
}  // namespace longhaul
