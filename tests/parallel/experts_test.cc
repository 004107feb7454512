// One loss curve for every way to deal experts to ranks.
#include <doctest/doctest.h>
#include <unistd.h>

#include "base/files.h"
#include "base/text.h"
#include "engine/checkpoint/checkpoint_store.h"
#include "tests/parallel/training_on_ranks.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr int expert_steps = 4, expert_ranks_max = 4;
#else
constexpr int expert_steps = 20, expert_ranks_max = 16;
#endif
constexpr int expert_half_way = expert_steps / 2;

struct ExpertModel {
  const char* name;
  SetupOptions what;
};

void mixtral_shape(ModelShape& shape) {
  shape.architecture = "mixtral";
  shape.num_local_experts = 8, shape.num_experts_per_tok = 2;
  shape.intermediate_size = shape.moe_intermediate_size = 32;
}

SetupOptions mixtral(double capacity = 0) {
  SetupOptions what;
  what.shape = mixtral_shape;
  what.moe.aux_loss_coef = 0.02, what.moe.z_loss_coef = 1e-3, what.moe.capacity_factor = capacity;
  return what;
}

std::vector<ExpertModel> expert_models() {
  SetupOptions biased = mixtral(), sinkhorn = mixtral(), position = mixtral(1.0);
  biased.shape = [](ModelShape& shape) {
    mixtral_shape(shape);
    shape.router_score = "sigmoid", shape.router_bias = true, shape.n_shared_experts = 1;
    shape.n_group = 4, shape.topk_group = 2, shape.routed_scaling_factor = 1.5;
  };
  biased.moe.balance = "bias", biased.moe.bias_rate = 1e-2;
  sinkhorn.moe.balance = "sinkhorn";
  position.moe.drop_policy = "position", position.moe.aux_loss = "hugging_face";
  return {{"Mixtral, no token dropped", mixtral()},
          {"capacity by probability", mixtral(1.0)},
          {"capacity by position, Hugging Face's loss", position},
          {"sigmoid with a bias, groups, a shared expert", biased},
          {"Sinkhorn", sinkhorn}};
}

ParallelDims expert_layout(int tp, bool sp, int ep, int etp, int pp, int dp, int shard = 1) {
  ParallelDims d;
  d.tp = tp, d.sp = sp, d.ep = ep, d.etp = etp, d.pp = pp;
  d.dp_replicate = dp / shard, d.dp_shard = shard, d.zero = shard > 1;
  return d;
}

std::vector<ParallelDims> expert_layouts() {
  std::vector<ParallelDims> all = {
      // ep over replicas, with one copy of the experts or several
      expert_layout(1, false, 2, 1, 1, 2), expert_layout(1, false, 4, 1, 1, 4), expert_layout(1, false, 2, 1, 1, 4),
      expert_layout(1, false, 1, 2, 1, 2), expert_layout(1, false, 2, 2, 1, 4),
      // the ranks of tp as copies, with parts of their own, and beyond them
      expert_layout(2, true, 1, 1, 1, 1), expert_layout(2, false, 1, 1, 1, 2), expert_layout(2, true, 2, 1, 1, 1),
      expert_layout(2, false, 2, 1, 1, 2), expert_layout(2, true, 1, 2, 1, 2), expert_layout(2, true, 4, 1, 1, 2),
      expert_layout(2, false, 2, 2, 1, 4), expert_layout(4, true, 2, 1, 1, 1),
      // stages
      expert_layout(1, false, 1, 1, 2, 1), expert_layout(1, false, 2, 1, 2, 2), expert_layout(2, true, 4, 1, 2, 4),
      // ZeRO-1
      expert_layout(1, false, 1, 1, 1, 2, 2), expert_layout(1, false, 2, 1, 1, 4, 4),
      expert_layout(1, false, 4, 1, 1, 4, 2), expert_layout(2, true, 2, 1, 1, 4, 2),
      expert_layout(1, false, 2, 1, 2, 4, 2)};
  std::erase_if(all, [](const ParallelDims& d) { return d.world_size() > expert_ranks_max; });
  return all;
}

bool fits(const SetupOptions& what, const ParallelDims& dims) {
  const ModelShape shape = training_shape(what);
  return check_moe_settings(what.moe, shape, dims).ok() && shape.num_key_value_heads % dims.tp == 0;
}

}  // namespace

TEST_CASE("experts: every layout follows the curve of one rank") {
  for (const ExpertModel& model : expert_models()) {
    CAPTURE(std::string(model.name));
    const RankRun one = train_one_rank(expert_steps, DType::f32, model.what);
    REQUIRE(one.losses.size() == expert_steps);
    CHECK(one.losses.back() < one.losses.front());
    double worst = 0;
    for (const ParallelDims& dims : expert_layouts()) {
      if (!fits(model.what, dims)) continue;
      CAPTURE(dims.to_string());
      for (const RankRun& run : train_on_threads(dims, expert_steps, DType::f32, {}, model.what)) {
        REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
        const double difference = worst_relative(one.losses, run.losses);
        worst = std::max(worst, difference);
        CHECK(difference <= 1e-5);
        CHECK(worst_relative(one.norms, run.norms) <= 1e-4);
        if (one.balance_losses.front() > 0) CHECK(worst_relative(one.balance_losses, run.balance_losses) <= 1e-4);
        // Replicas that only bring their experts together add in the same order.
        if (dims.tp * dims.etp * dims.pp == 1 && dims.zero == 0) CHECK(run.losses == one.losses);
      }
    }
    MESSAGE(std::string(model.name) << ": worst relative difference of a loss " << worst);
  }
}
