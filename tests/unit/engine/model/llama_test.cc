#include "engine/model/llama.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/digest/philox.h"
#include "tests/unit/engine/model/reference_model.h"

using namespace longhaul;

namespace {

struct LlamaBatch {
  std::vector<std::int32_t> ids, targets, positions, first_key;
  std::vector<float> weights;
  std::int64_t sequences, length;
  MicroBatch view() const { return {sequences, length, ids, targets, positions, first_key}; }
};

LlamaBatch random_batch(std::uint64_t seed, std::int64_t sequences, std::int64_t length, std::int64_t vocab,
                        bool packed) {
  LlamaBatch b;
  b.sequences = sequences, b.length = length;
  PhiloxSequence random(seed, 1);
  for (std::int64_t t = 0; t < sequences * length; ++t) {
    b.ids.push_back(static_cast<std::int32_t>(random.next_below(static_cast<std::uint64_t>(vocab))));
    const bool masked = random.next_below(5) == 0;
    b.targets.push_back(masked ? -1 : static_cast<std::int32_t>(random.next_below(static_cast<std::uint64_t>(vocab))));
    b.weights.push_back(masked ? 0.0F
                               : static_cast<float>(random.next_uniform() - 0.3));  // DPO has negative weights too
    if (packed) {
      const std::int64_t i = t % length, start = i >= length / 2 ? length / 2 : 0;
      b.positions.push_back(static_cast<std::int32_t>(i - start));
      b.first_key.push_back(static_cast<std::int32_t>(start));
    }
  }
  return b;
}

std::vector<double> flat_of(const ParameterStore& store) {
  return {store.masters().begin(), store.masters().end()};
}

LlamaOptions options_for(std::int64_t tokens, int slots = 1, bool split = false) {
  LlamaOptions options;
  options.tokens_max = tokens, options.slots = slots, options.split_backward = split;
  return options;
}

}  // namespace

TEST_CASE("loss and every parameter's gradient agree with the f64 reference") {
  for (const ModelShape& shape :
       {test::tiny_shape(), test::tiny_shape(false), test::tiny_gpt2_shape(), test::tiny_gpt2_shape(false)}) {
    for (const bool packed : {false, true}) {
      CAPTURE(shape.architecture);
      CAPTURE(shape.tie_word_embeddings);
      CAPTURE(packed);
      const std::uint64_t seed = 11;
      CAPTURE(seed);
      const ComputeContext context(1);
      ParameterStore store(shape, DType::f32);
      initialize_parameters(context, store, seed);
      // Norm weights of 1 would hide an error in their gradient.
      for (const FlatParameter& p : store.layout().parameters())
        if (p.spec.shape.size() == 1)
          for (std::int64_t i = p.begin; i < p.end; ++i)
            store.masters()[static_cast<std::size_t>(i)] =
                1.0F + 0.3F * static_cast<float>(Philox{seed, 9}.normal(static_cast<std::uint64_t>(i)));
      const LlamaBatch batch = random_batch(seed, 2, 10, shape.vocab_size, packed);
      Llama model(store, options_for(20));
      std::vector<float> gradient(static_cast<std::size_t>(store.layout().flat_size()), 99.0F), loss(20);
      GradientTarget target;
      target.flat = gradient, target.overwrite = true;
      model.forward(context, 0, batch.view());
      model.backward(context, 0, batch.weights, loss, target);

      std::vector<double> flat = flat_of(store);
      const test::ReferenceModel reference(shape, store.layout(), flat);
      double sum = 0;
      for (std::size_t t = 0; t < loss.size(); ++t)
        sum += static_cast<double>(batch.weights[t]) * static_cast<double>(loss[t]);
      CHECK(sum == doctest::Approx(reference.loss(batch.view(), batch.weights)).epsilon(1e-5));

      // Central differences of the reference: along a random direction of each parameter, and at single elements.
      for (const FlatParameter& p : store.layout().parameters()) {
        CAPTURE(p.spec.name);
        const Philox random{seed, parameter_stream(p.spec.name) + 1};
        const std::vector<double> saved = flat;
        double analytic = 0, norm = 0;
        const double step = 1e-5;
        const auto move = [&](double by) {
          for (std::int64_t i = p.begin; i < p.end; ++i)
            flat[static_cast<std::size_t>(i)] =
                saved[static_cast<std::size_t>(i)] + by * random.normal(static_cast<std::uint64_t>(i));
        };
        for (std::int64_t i = p.begin; i < p.end; ++i) {
          const double g = static_cast<double>(gradient[static_cast<std::size_t>(i)]);
          analytic += g * random.normal(static_cast<std::uint64_t>(i));
          norm += g * g;
        }
        move(step);
        const double up = reference.loss(batch.view(), batch.weights);
        move(-step);
        const double down = reference.loss(batch.view(), batch.weights);
        flat = saved;
        CHECK(norm > 0);
        CHECK(std::abs(analytic - (up - down) / (2 * step)) < 2e-4 * std::sqrt(norm) + 1e-6);
        for (std::uint64_t k = 0; k < 4; ++k) {
          const std::size_t i =
              static_cast<std::size_t>(p.begin) + random.u64(k) % static_cast<std::uint64_t>(p.end - p.begin);
          flat[i] = saved[i] + step;
          const double plus = reference.loss(batch.view(), batch.weights);
          flat[i] = saved[i] - step;
          const double minus = reference.loss(batch.view(), batch.weights);
          flat[i] = saved[i];
          CHECK(std::abs(static_cast<double>(gradient[i]) - (plus - minus) / (2 * step)) <
                2e-4 * std::sqrt(norm) + 1e-6);
        }
      }
    }
  }
}

TEST_CASE("bf16 compute stays near the f64 reference") {
  for (const ModelShape& shape : {test::tiny_shape(), test::tiny_gpt2_shape()}) {
    CAPTURE(shape.architecture);
    const ComputeContext context(1);
    ParameterStore store(shape, DType::bf16);
    initialize_parameters(context, store, 5);
    LlamaBatch batch = random_batch(5, 2, 16, shape.vocab_size, false);
    for (float& w : batch.weights) w = w == 0 ? 0.0F : 1.0F;
    Llama model(store, options_for(32));
    std::vector<float> gradient(static_cast<std::size_t>(store.layout().flat_size())), loss(32);
    GradientTarget target;
    target.flat = gradient, target.overwrite = true;
    model.forward(context, 0, batch.view());
    model.backward(context, 0, batch.weights, loss, target);
    double sum = 0;
    for (std::size_t t = 0; t < loss.size(); ++t)
      sum += static_cast<double>(batch.weights[t]) * static_cast<double>(loss[t]);
    const std::vector<double> flat = flat_of(store);
    CHECK(sum == doctest::Approx(test::ReferenceModel(shape, store.layout(), flat).loss(batch.view(), batch.weights))
                     .epsilon(5e-3));
  }
}

TEST_CASE("split backward over several slots equals the joint one, bit for bit") {
  for (const ModelShape& shape : {test::tiny_shape(), test::tiny_gpt2_shape()}) {
    CAPTURE(shape.architecture);
    const ComputeContext context(1);
    ParameterStore store(shape, DType::f32);
    initialize_parameters(context, store, 3);
    const LlamaBatch a = random_batch(21, 2, 8, shape.vocab_size, false),
                     b = random_batch(22, 1, 16, shape.vocab_size, false);
    const auto size = static_cast<std::size_t>(store.layout().flat_size());
    std::vector<float> joint(size), split(size), loss(16);

    Llama one(store, options_for(16));
    GradientTarget target;
    target.flat = joint;
    target.overwrite = true;
    one.forward(context, 0, a.view());
    one.backward(context, 0, a.weights, loss, target);
    target.overwrite = false;
    one.forward(context, 0, b.view());
    one.backward(context, 0, b.weights, loss, target);

    Llama two(store, options_for(16, 2, true));
    target.flat = split;
    two.forward(context, 0, a.view());
    two.forward(context, 1, b.view());
    target.overwrite = true;
    two.backward(context, 0, a.weights, loss, target);
    two.backward_weight(context, 0, target);
    target.overwrite = false;
    two.backward(context, 1, b.weights, loss, target);
    two.backward_weight(context, 1, target);
    CHECK(joint == split);
  }
}

TEST_CASE("gradients are said to be ready once each, and do not change afterwards") {
  for (const ModelShape& shape : {test::tiny_shape(false), test::tiny_gpt2_shape(false)}) {
    CAPTURE(shape.architecture);
    const ComputeContext context(1);
    ParameterStore store(shape, DType::f32);
    initialize_parameters(context, store, 3);
    const LlamaBatch batch = random_batch(7, 2, 8, shape.vocab_size, false);
    std::vector<float> gradient(static_cast<std::size_t>(store.layout().flat_size())), copy(gradient), loss(16);
    std::vector<int> said(gradient.size(), 0);
    Llama model(store, options_for(16));
    GradientTarget target;
    target.flat = gradient, target.overwrite = true;
    target.ready = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        ++said[static_cast<std::size_t>(i)];
        copy[static_cast<std::size_t>(i)] = gradient[static_cast<std::size_t>(i)];
      }
    };
    model.forward(context, 0, batch.view());
    model.backward(context, 0, batch.weights, loss, target);
    CHECK(copy == gradient);
    for (const FlatParameter& p : store.layout().parameters())
      for (std::int64_t i = p.begin; i < p.end; ++i) CHECK(said[static_cast<std::size_t>(i)] == 1);
  }
}

TEST_CASE("initial values are the same in every layout") {
  ModelShape shape = test::tiny_shape();
  const ComputeContext context(1), two_threads(2);
  ParameterStore store(shape, DType::f32), again(shape, DType::f32);
  initialize_parameters(context, store, 42);
  initialize_parameters(two_threads, again, 42);
  CHECK(std::equal(store.masters().begin(), store.masters().end(), again.masters().begin()));
  ParallelDims dims;
  dims.tp = 2;
  dims.pp = 2;
  std::int64_t seen = 0, wanted = 0;
  for (const FlatParameter& p : store.layout().parameters()) wanted += p.spec.elements();
  for (int rank = 0; rank < dims.world_size(); ++rank) {
    for (const FlatParameter& p : store.layout().parameters()) {
      const Box box = shard_of(p.spec, shape, dims, coordinates_of(dims, rank));
      std::vector<float> values(static_cast<std::size_t>(box.elements()));
      initialize_box(context, p.spec, box, 42, values);
      const std::int64_t columns = p.spec.shape.back();
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::int64_t row = 0, column = static_cast<std::int64_t>(i);
        if (box.extent.size() == 2)
          row = box.offset[0] + column / box.extent[1], column = box.offset[1] + column % box.extent[1];
        CHECK(values[i] == store.masters()[static_cast<std::size_t>(p.begin + row * columns + column)]);
        ++seen;
      }
    }
  }
  CHECK(seen >= wanted);  // replicated ones several times
}

TEST_CASE("a batch that does not fit, or a token outside the vocabulary, is refused") {
  const ModelShape shape = test::tiny_shape();
  ParameterStore store(shape, DType::f32);
  const Llama model(store, options_for(16));
  LlamaBatch batch = random_batch(1, 2, 8, shape.vocab_size, false);
  CHECK(model.check(batch.view()).ok());
  batch.ids[3] = 37;
  CHECK(model.check(batch.view()).error().code == ErrorCode::invalid_input);
  CHECK_FALSE(model.check(random_batch(1, 4, 8, shape.vocab_size, false).view()).ok());
}
