// Training of mixtures of experts on a GPU, emulated or real (tests/support/emulated_gpu/test_gpu.h): the routing never
// leaves it.
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "engine/core/tensor/transfer.h"
#include "tests/support/emulated_gpu/test_gpu.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;

namespace gpu_experts {  // its helpers have the names of gpu_training_test.cc's
namespace {

struct Curve {
  std::vector<double> losses, balance, spread;
  std::vector<float> weights;
};

Curve train(const test::SetupOptions& options, DType dtype, int steps) {
  test::TrainingSetup setup(4, 20, 2, nullptr, dtype, 8, options);
  Curve curve;
  for (int i = 0; i < steps; ++i) {
    const auto report = setup.trainer.step();
    REQUIRE_MESSAGE(report.ok(), report.error().message());
    curve.losses.push_back(report->loss);
    curve.balance.push_back(report->balance_loss), curve.spread.push_back(report->z_loss);
  }
  curve.weights.resize(static_cast<std::size_t>(setup.store.layout().owned().size()));
  copy_out(setup.context, setup.store.masters(), std::span<float>(curve.weights));
  return curve;
}

Curve train_on_gpu(test::SetupOptions options, DType dtype, int steps) {
  const std::shared_ptr<Gpu> gpu = testing::open_test_gpu();
  options.gpu = gpu.get();
  return train(options, dtype, steps);
}

void compare_curves(const Curve& host, const Curve& gpu, double limit) {
  for (std::size_t i = 0; i < host.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(gpu.losses[i] - host.losses[i]) <= limit * host.losses[i]);
    CHECK(std::abs(gpu.balance[i] - host.balance[i]) <= 10 * limit * std::abs(host.balance[i]));
    CHECK(std::abs(gpu.spread[i] - host.spread[i]) <= 10 * limit * std::abs(host.spread[i]));
  }
}

void check_same_curve(const test::SetupOptions& options, DType dtype, int steps, double limit) {
  const Curve host = train(options, dtype, steps);
  compare_curves(host, train_on_gpu(options, dtype, steps), limit);
  CHECK(host.losses.back() < host.losses.front());  // something was learnt
}

bool same_bits(const Curve& a, const Curve& b) {
  return a.losses == b.losses && a.balance == b.balance && a.spread == b.spread &&
         std::memcmp(a.weights.data(), b.weights.data(), a.weights.size() * sizeof(float)) == 0;
}

test::SetupOptions mixtral() {
  test::SetupOptions options(test::training_mixtral_shape());
  options.shape.num_local_experts = 4;  // each is a tile of its own to emulate
  options.moe.aux_loss_coef = 0.05, options.moe.z_loss_coef = 1e-3;
  return options;
}

// DeepSeek-V3's: sigmoid scores, a bias that balances, groups, shared experts.
test::SetupOptions deepseek() {
  test::SetupOptions options = mixtral();
  options.shape.num_local_experts = 6;
  options.shape.router_score = "sigmoid", options.shape.router_bias = true, options.shape.n_shared_experts = 2;
  options.shape.routed_scaling_factor = 2.5, options.shape.n_group = 2, options.shape.topk_group = 1;
  options.moe.balance = "bias", options.moe.bias_rate = 1e-2;
  return options;
}

struct Practice {
  const char* name;
  test::SetupOptions options;
};
std::vector<Practice> practices() {
  std::vector<Practice> all = {{"sigmoid, a bias, groups, shared experts", deepseek()}};
  all.push_back({"Hugging Face's loss", mixtral()});
  all.back().options.moe.aux_loss = "hugging_face";
  all.push_back({"capacity by probability", mixtral()});
  all.back().options.moe.capacity_factor = 0.8, all.back().options.shape.router_score = "softmax_all";
  all.push_back({"capacity by position", mixtral()});
  all.back().options.moe.capacity_factor = 0.8, all.back().options.moe.drop_policy = "position";
  all.push_back({"sinkhorn", mixtral()});
  all.back().options.moe.balance = "sinkhorn", all.back().options.shape.router_score = "softmax_all";
  return all;
}

}  // namespace

TEST_CASE("experts on a GPU: the loss curve of the processor, f32 within 1e-4, bf16 within 2e-2") {
  check_same_curve(mixtral(), DType::f32, testing::curve_steps(), 1e-4);
  check_same_curve(mixtral(), DType::bf16, testing::curve_steps(), 2e-2);
}

TEST_CASE("experts on a GPU twice give the same bits") {
  for (const test::SetupOptions& options : {mixtral(), deepseek()}) {
    const Curve one = train_on_gpu(options, DType::bf16, 2), two = train_on_gpu(options, DType::bf16, 2);
    CHECK(same_bits(one, two));
  }
}

TEST_CASE("routers and practices on a GPU give the processor's curve") {
  for (const Practice& practice : practices()) {
    CAPTURE(std::string(practice.name));
    check_same_curve(practice.options, DType::f32, 6, 1e-4);
  }
}

TEST_CASE("padding counts for nothing on a GPU as on the processor, whatever the router's practice is") {
  std::vector<Practice> all = practices();
  all.push_back({"the auxiliary loss", mixtral()});
  for (Practice& practice : all) {
    CAPTURE(std::string(practice.name));
    practice.options.padded = true;
    const Curve host = train(practice.options, DType::f32, 3);
    compare_curves(host, train_on_gpu(practice.options, DType::f32, 3), 1e-4);
  }
}

TEST_CASE("recomputed experts change no bit on a GPU") {
  for (test::SetupOptions options : {mixtral(), deepseek()}) {
    const Curve kept = train_on_gpu(options, DType::f32, 2);
    for (const char* module : {"activation", "feed_forward", "block"}) {
      CAPTURE(std::string(module));
      options.recompute = recompute_from({{module}, 0}).value();
      CHECK(same_bits(kept, train_on_gpu(options, DType::f32, 2)));
    }
  }
}
}  // namespace gpu_experts
#endif
