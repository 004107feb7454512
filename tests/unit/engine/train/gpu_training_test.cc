// Training on a GPU, emulated or real (tests/support/emulated_gpu/test_gpu.h). Emulated: the kernels, the host code
// around them and every copy between host and device are those of a real one, and memory of the device that the host
// touches ends the program.
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "base/text/text.h"
#include "engine/core/tensor/transfer.h"
#include "tests/support/emulated_gpu/test_gpu.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;

namespace {

struct Curve {
  std::vector<double> losses, norms;
  std::vector<float> weights;
};

Curve train(const test::SetupOptions& options, DType dtype, int steps, std::int64_t global_batch = 4) {
  test::TrainingSetup setup(global_batch, 20, 2, nullptr, dtype, 8, options);
  Curve curve;
  for (int i = 0; i < steps; ++i) {
    const auto report = setup.trainer.step();
    REQUIRE_MESSAGE(report.ok(), report.error().message());
    curve.losses.push_back(report->loss), curve.norms.push_back(report->grad_norm);
  }
  if (options.gpu) CHECK(options.gpu->device().owns(setup.store.masters().data()));
  curve.weights.resize(static_cast<std::size_t>(setup.store.layout().owned().size()));
  copy_out(setup.context, setup.store.masters(), std::span<float>(curve.weights));
  return curve;
}

Curve train_on_gpu(test::SetupOptions options, DType dtype, int steps, std::int64_t global_batch = 4) {
  const std::shared_ptr<Gpu> gpu = testing::open_test_gpu();
  options.gpu = gpu.get();
  return train(options, dtype, steps, global_batch);
}

// Returns the GPU's. first_limit: for the losses before the second update, 0: as for the others.
Curve check_same_curve(const test::SetupOptions& options, DType dtype, int steps, double limit,
                       double first_limit = 0) {
  const Curve host = train(options, dtype, steps), gpu = train_on_gpu(options, dtype, steps);
  for (std::size_t i = 0; i < host.losses.size(); ++i) {
    CAPTURE(i);
    const double allowed = first_limit > 0 && i < 2 ? first_limit : limit;
    CHECK(std::abs(gpu.losses[i] - host.losses[i]) <= allowed * host.losses[i]);
  }
  CHECK(host.losses.back() < host.losses.front());  // something was learnt
  return gpu;
}

}  // namespace

TEST_CASE("a training on a GPU: the loss curve of the processor, f32 within 1e-4, bf16 within 2e-2") {
  check_same_curve({}, DType::f32, testing::curve_steps(), 1e-4);
  check_same_curve({}, DType::bf16, testing::curve_steps(), 2e-2);
}

TEST_CASE("training on a GPU twice gives the same bits") {
  const Curve one = train_on_gpu({}, DType::bf16, 3), two = train_on_gpu({}, DType::bf16, 3);
  CHECK(one.losses == two.losses);
  CHECK(one.norms == two.norms);
  CHECK(std::memcmp(one.weights.data(), two.weights.data(), one.weights.size() * sizeof(float)) == 0);
}

TEST_CASE(
    "what a model may have beside that: GPT-2, an output of its own, documents in a sequence, dropout, a sliding "
    "window") {
  ModelShape windowed = test::training_shape();
  windowed.sliding_window = 3;
  check_same_curve(windowed, DType::f32, 6, 1e-4);
  check_same_curve(test::training_gpt2_shape(), DType::f32, 6, 1e-4);
  check_same_curve(test::training_shape(2, false), DType::f32, 6, 1e-4);
  test::SetupOptions packed;
  packed.packed = true;
  check_same_curve(packed, DType::f32, 6, 1e-4);
  test::SetupOptions dropout;
  dropout.dropout = 0.1;
  check_same_curve(dropout, DType::f32, 6, 1e-4);
}

namespace {

void check_same_adapter(test::SetupOptions options, int steps) {
  options.adam_eps = 1e-4;  // steps follow the gradients, and not their signs
  const Curve host = train(options, DType::f32, steps), gpu = train_on_gpu(options, DType::f32, steps);
  for (std::size_t i = 0; i < host.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(gpu.losses[i] == doctest::Approx(host.losses[i]).epsilon(1e-4));
    CHECK(gpu.norms[i] == doctest::Approx(host.norms[i]).epsilon(1e-3));
    CHECK(host.norms[i] > 0);
  }
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < host.weights.size(); ++i) {
    const double difference = static_cast<double>(gpu.weights[i]) - static_cast<double>(host.weights[i]);
    apart += difference * difference, size += static_cast<double>(host.weights[i]) * host.weights[i];
  }
  CHECK(std::sqrt(apart / size) < 1e-3);
}

}  // namespace

TEST_CASE("adapters of each kind on a GPU: the losses, the gradients' norms and the adapter of the processor") {
  struct Case {
    std::string kind;
    double dropout = 0;
    bool gpt2 = false;
  };
  for (const Case& c : {Case{"lora"},
                        {"lora", 0.3},
                        {"dora"},
                        {"dora", 0, true},
                        {"ia3"},
                        {"bottleneck"},
                        {"prompt"},
                        {"p-tuning"},
                        {"p-tuning", 0, true},
                        {"prefix"},
                        {"prefix", 0, true}}) {
    CAPTURE(c.kind);
    CAPTURE(c.dropout);
    test::SetupOptions options(c.gpt2 ? test::training_gpt2_shape() : test::training_shape());
    options.adapter.kind = c.kind, options.adapter.dropout = c.dropout;
    options.adapter.rank = 3, options.adapter.bottleneck_size = 6, options.adapter.virtual_tokens = 3;
    check_same_adapter(options, 3);
  }
}

TEST_CASE("beside an adapter on a GPU: weights in few bits, an adapted table, modules that are trained themselves") {
  test::SetupOptions plain(test::training_shape(2, false));
  plain.adapter.kind = "lora", plain.adapter.rank = 3;
  for (const char* format : {"nf4", "int8"}) {
    CAPTURE(std::string(format));
    test::SetupOptions options = plain;
    options.adapter.base_weights = format, options.adapter.targets = {"model.layers.1.*"};
    check_same_adapter(options, 2);
  }
  test::SetupOptions table = plain, saved = plain;
  table.adapter.targets = {"embed_tokens", "o_proj"};
  check_same_adapter(table, 2);
  saved.adapter.modules_to_save = {"embed_tokens", "lm_head", "norm", "input_layernorm"};
  check_same_adapter(saved, 2);
}

TEST_CASE("weights in few bits are widened on a GPU to the bits that a processor gives them") {
  for (const char* format : {"nf4", "int4", "int8"})
    for (const DType type : {DType::f32, DType::bf16}) {
      CAPTURE(std::string(format));
      test::SetupOptions options;
      options.adapter.kind = "lora", options.adapter.base_weights = format;
      const auto widened = [&](Gpu* gpu) {
        options.gpu = gpu;
        test::TrainingSetup setup(4, 1, 2, nullptr, type, 8, options);
        const FlatRange all{0, setup.frozen->layout().flat_size()};
        Tensor there(type, Shape{all.size()}, &setup.memory.of(MemoryCategory::gathered_weights));
        for (const ShardUnit& unit : setup.frozen->layout().units())
          setup.frozen->widen(setup.context, unit.flat, there.view().rows(unit.flat.begin, unit.flat.end));
        Tensor values(type, Shape{all.size()});
        copy_out(setup.context, there, values);
        const auto* const bytes = static_cast<const char*>(values.view().data());
        return std::vector<char>(bytes, bytes + values.bytes());
      };
      const std::shared_ptr<Gpu> gpu = testing::open_test_gpu();
      const std::vector<char> host = widened(nullptr);
      CHECK(widened(gpu.get()) == host);
      CHECK(std::ranges::count(host, 0) < std::ssize(host) / 2);
    }
}

// Tensor cores add up products of eight bits in fewer bits than f32 has: an H100 differed by up to 2.7e-3. Emulated,
// the sums have other last bits than those of the processor's vectors, and where a value lies in the middle between two
// numbers of a format the last bit decides between them: with one scale for a whole tensor, a processor of 256 bits
// differs by 1.3e-3 after four updates, by less than 1e-6 after one.
#ifdef LONGHAUL_REAL_GPU
constexpr double first_limit = 1e-2, blocks_limit = 1e-2, tensors_limit = 1e-2;
#else
constexpr double first_limit = 1e-4, blocks_limit = 1e-3, tensors_limit = 3e-3;
#endif

TEST_CASE("low precision on a GPU: the curve of the processor's emulation, with blocks and with scales of tensors") {
  ModelShape shape = test::training_shape();
  shape.hidden_size = 64, shape.head_dim = 32, shape.num_attention_heads = 2, shape.num_key_value_heads = 2;
  shape.intermediate_size = 128;
  const Curve plain = train_on_gpu(shape, DType::f32, 5);
  for (const auto& [recipe, limit] : {std::pair{"mxfp8", blocks_limit},
                                      {"blockwise", blocks_limit},
                                      {"delayed", tensors_limit},
                                      {"current", tensors_limit}}) {
    CAPTURE(std::string(recipe));
    test::SetupOptions options(shape);
    options.low_precision.recipe = recipe, options.low_precision.check_every_steps = 2;
    options.low_precision.amax_history = 2;
    const Curve low = check_same_curve(options, DType::f32, 5, limit, first_limit);
    CHECK(low.losses != plain.losses);  // it did compute in low precision
  }
}

TEST_CASE("recomputed activations change no bit on a GPU") {
  test::SetupOptions recompute;
  recompute.recompute.attention = recompute.recompute.norms = recompute.recompute.activation = true;
  const Curve kept = train_on_gpu({}, DType::f32, 2), again = train_on_gpu(recompute, DType::f32, 2);
  CHECK(kept.losses == again.losses);
  CHECK(std::memcmp(kept.weights.data(), again.weights.data(), kept.weights.size() * sizeof(float)) == 0);
}
#endif
