// Training whose products are of eight bits: the engine's own code for them, over what stands in for cuBLASLt on an
// emulated Hopper, beside the processor, which emulates the same recipe.
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "engine/core/tensor/transfer.h"
#include "tests/support/emulated_gpu/stand_in_gpu.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;

namespace {

struct Run {
  std::vector<double> losses;
  std::vector<std::string> notes, kernels;  // of all steps; of the last
  std::vector<float> weights;
  std::int64_t waits = 0;  // of the host for the device, in the last step
  bool said(const std::string& what) const {
    return std::ranges::any_of(notes, [&](const std::string& note) { return note.find(what) != std::string::npos; });
  }
  bool started(const std::string& kernel) const { return std::ranges::find(kernels, kernel) != kernels.end(); }
  // By any of its kernels: in order, transposed, or with scales of blocks.
  bool cast_to_fp8() const {
    return std::ranges::any_of(kernels, [](const std::string& one) { return one.starts_with("cast_fp8"); });
  }
};

Run train(test::SetupOptions options, DType dtype, int steps, testing::StandInGpu* gpu, std::int64_t global_batch = 2) {
  options.gpu = gpu;
  test::TrainingSetup setup(global_batch, 20, 2, nullptr, dtype, 8, options);
  Run run;
  for (int i = 0; i < steps; ++i) {
    const testing::StartedKernels started;
    const std::int64_t before = gpu ? gpu->waits() : 0;
    const auto report = setup.trainer.step();
    REQUIRE_MESSAGE(report.ok(), report.error().message());
    run.losses.push_back(report->loss);
    run.notes.insert(run.notes.end(), report->low_precision_notes.begin(), report->low_precision_notes.end());
    run.kernels = started.names;
    run.waits = gpu ? gpu->waits() - before : 0;
  }
  run.weights.resize(static_cast<std::size_t>(setup.store.layout().owned().size()));
  copy_out(setup.context, setup.store.masters(), std::span<float>(run.weights));
  return run;
}
Run train_on(int capability, const test::SetupOptions& options, DType dtype, int steps, std::int64_t global_batch = 2) {
  testing::StandInGpu gpu(capability);
  return train(options, dtype, steps, &gpu, global_batch);
}

void check_same_curve(const Run& one, const Run& two, double limit) {
  REQUIRE(one.losses.size() == two.losses.size());
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(one.losses[i] - two.losses[i]) <= limit * two.losses[i]);
  }
}

Run first_steps(Run run, std::size_t steps) {
  run.losses.resize(steps);
  return run;
}

// One layer, sizes that are multiples of 16.
test::SetupOptions options_of(const char* recipe, std::int64_t check_every_steps) {
  ModelShape shape = test::training_shape(1);
  shape.hidden_size = 64, shape.head_dim = 32, shape.num_attention_heads = 2, shape.num_key_value_heads = 2;
  shape.intermediate_size = 128;
  test::SetupOptions options(shape);
  options.low_precision.recipe = recipe, options.low_precision.check_every_steps = check_every_steps;
  options.low_precision.amax_history = 4;
  return options;
}

}  // namespace

TEST_CASE("20 steps with delayed scales and products of eight bits: the curve of the processor's emulation") {
  const test::SetupOptions options = options_of("delayed", 0);
  const Run gpu = train_on(90, options, DType::f32, 20), host = train(options, DType::f32, 20, nullptr);
  // The same GPU with the operands rounded instead: the order of the products' sums is all that differs.
  const Run emulated = train_on(80, options, DType::f32, 20);
  check_same_curve(gpu, emulated, 1e-5);
  CHECK(emulated.started("quantize_flat"));
  // Against the processor everything else differs in last bits as well, and values in the middle between two numbers
  // round the other way: that grows with the steps.
  check_same_curve(first_steps(gpu, 7), first_steps(host, 7), 1e-5);
  check_same_curve(gpu, host, 1e-2);
  CHECK(gpu.losses.back() < 0.95 * gpu.losses.front());
  CHECK(gpu.losses != host.losses);
  CHECK(gpu.said("low precision delayed: fp8 products, with scales of tensors"));
  CHECK(gpu.notes.size() == 1);  // none was emulated
  CHECK(gpu.cast_to_fp8());
  CHECK(!gpu.started("quantize_flat"));
  CHECK(
      host.said("low precision delayed: emulated, operands are rounded and products those of high precision: "
                "processors multiply no numbers of eight bits"));
}

TEST_CASE("scales of the step and of blocks, and steps that measure: the same curve; bf16 too") {
  for (const char* recipe : {"current", "blockwise"}) {
    CAPTURE(recipe);
    const test::SetupOptions options = options_of(recipe, 3);
    const Run gpu = train_on(90, options, DType::f32, 5), host = train(options, DType::f32, 5, nullptr);
    check_same_curve(gpu, host, 1e-3);
    CHECK(gpu.said("fp8 products"));
    CHECK(gpu.notes.size() == 1);
    CHECK(gpu.cast_to_fp8());
  }
  const test::SetupOptions options = options_of("blockwise", 0);
  check_same_curve(train_on(90, options, DType::bf16, 4), train(options, DType::bf16, 4, nullptr), 2e-2);
  const test::SetupOptions mx = options_of("mxfp8", 0);
  const Run blackwell = train_on(100, mx, DType::f32, 3);
  check_same_curve(blackwell, train(mx, DType::f32, 3, nullptr), 1e-3);
  CHECK(blackwell.said("low precision mxfp8: fp8 products, with scales of 32 neighbours"));
}

TEST_CASE("twice the same bits, and the host waits as often for one micro-batch as for three") {
  for (const char* recipe : {"delayed", "blockwise"}) {
    CAPTURE(recipe);
    const test::SetupOptions options = options_of(recipe, 0);
    const Run one = train_on(90, options, DType::bf16, 2), two = train_on(90, options, DType::bf16, 2);
    CHECK(one.losses == two.losses);
    CHECK(std::memcmp(one.weights.data(), two.weights.data(), one.weights.size() * sizeof(float)) == 0);
  }
  for (const char* recipe : {"delayed", "current"}) {
    CAPTURE(recipe);
    const auto waits = [](const char* what, std::int64_t batch) {
      return train_on(90, options_of(what, 0), DType::bf16, 2, batch).waits;
    };
    CHECK(waits(recipe, 2) - waits("none", 2) == waits(recipe, 6) - waits("none", 6));
  }
}

TEST_CASE("where a GPU or a size has no such products the emulation stays, and says why") {
  const test::SetupOptions options = options_of("delayed", 0);
  const Run ampere = train_on(80, options, DType::f32, 3);
  check_same_curve(ampere, train(options, DType::f32, 3, nullptr), 1e-3);
  CHECK(
      ampere.said("emulated, operands are rounded and products those of high precision: products of eight bits begin "
                  "with compute capability 8.9; this is compute capability 8.0"));
  CHECK(ampere.started("quantize_flat"));
  CHECK(!ampere.cast_to_fp8());
  CHECK(train_on(90, options_of("mxfp4", 0), DType::f32, 1).said("numbers of fewer than eight bits"));
  for (const char* recipe : {"delayed", "current"}) {
    CAPTURE(recipe);
    test::SetupOptions odd = options_of(recipe, 0);
    odd.shape.intermediate_size = 120;
    const Run some = train_on(90, odd, DType::f32, 3);
    check_same_curve(some, train(odd, DType::f32, 3, nullptr), 1e-3);
    CHECK(some.said("emulated: the feed-forward's output, forward: 32 x 64, summed over 120: not all multiples of 16"));
    CHECK(!some.said("emulated: q, k and v"));
    CHECK((some.cast_to_fp8() && some.started("quantize_flat")));
  }
}

TEST_CASE("GPT-2's feed-forward: GELU is the products' own last step, and no kernel of its own") {
  test::SetupOptions options(test::training_gpt2_shape());
  const Run fused = train_on(90, options, DType::bf16, 3);
  check_same_curve(fused, train(options, DType::bf16, 3, nullptr), 2e-2);
  CHECK(!fused.started("gelu_forward"));
  CHECK(!fused.started("gelu_backward"));
  CHECK(!fused.started("add_to_rows"));
  // Recomputed with the product before it, it comes from the same sums: no bit changes. By itself it comes from what
  // was stored, and so does the first one.
  options.recompute.activation = options.recompute.feed_forward = true;
  const Run again = train_on(90, options, DType::bf16, 3);
  CHECK(again.losses == fused.losses);
  CHECK(std::memcmp(again.weights.data(), fused.weights.data(), again.weights.size() * sizeof(float)) == 0);
  options.recompute.feed_forward = false;
  CHECK(train_on(90, options, DType::bf16, 1).started("gelu_forward"));
}
#endif
