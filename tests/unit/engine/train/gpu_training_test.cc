// Training on a GPU, emulated or real (tests/support/emulated_gpu/test_gpu.h). Emulated: the kernels, the host code
// around them and every copy between host and device are those of a real one, and memory of the device that the host
// touches ends the program.
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
#include <doctest/doctest.h>

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
