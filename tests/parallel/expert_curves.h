// Trainings of models with experts, and what it is to follow the curve of one rank: a choice between two experts that
// are as good as equal may fall otherwise after a rounding, and then the curves part.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "engine/ops/experts/moe_dispatch.h"
#include "tests/parallel/training_on_ranks.h"
#include "tests/support/reference/moe_reference.h"

namespace longhaul::test {

struct ExpertModel {
  const char* name;
  SetupOptions what;
};

inline SetupOptions mixtral(double capacity = 0) {
  SetupOptions what(training_mixtral_shape());
  // AdamW would make a whole step of the rounding of a gradient that cancels out, and that step may choose another
  // expert. With this it stays a rounding.
  what.adam_eps = 1e-6;
  what.moe.aux_loss_coef = 0.02, what.moe.z_loss_coef = 1e-3, what.moe.capacity_factor = capacity;
  return what;
}

inline std::vector<ExpertModel> expert_models() {
  SetupOptions biased = mixtral(), sinkhorn = mixtral(), position = mixtral(1.0);
  biased.shape.router_score = "sigmoid", biased.shape.router_bias = true, biased.shape.n_shared_experts = 1;
  biased.shape.n_group = 4, biased.shape.topk_group = 2, biased.shape.routed_scaling_factor = 1.5;
  biased.moe.balance = "bias", biased.moe.bias_rate = 1e-2;
  sinkhorn.moe.balance = "sinkhorn";
  position.moe.drop_policy = "position", position.moe.aux_loss = "hugging_face";
  return {{"Mixtral, no token dropped", mixtral()},
          {"capacity by probability", mixtral(1.0)},
          {"capacity by position, Hugging Face's loss", position},
          {"sigmoid with a bias, groups, a shared expert", biased},
          {"Sinkhorn", sinkhorn}};
}

// The curve of one rank, and how close the closest choice between experts was in each of its steps.
struct ExpertCurve {
  RankRun run;
  std::vector<double> gaps;
};

// The smallest distance, over all experts with more tokens than they may take, between the last one kept and the first
// one dropped by its probability.
inline double capacity_gap(const reference::MoeRouter& router, const reference::Vector& logits,
                           const reference::Vector& bias, double factor) {
  const reference::Ids ids = reference::moe_select(router, logits, bias);
  const reference::Vector weights = reference::moe_gates(router, logits, ids);
  const auto tokens = static_cast<std::int64_t>(logits.size()) / router.experts;
  const std::int64_t capacity = moe_capacity(tokens, router.top_k, router.experts, factor);
  double gap = HUGE_VAL;
  for (reference::Index expert = 0; expert < router.experts; ++expert) {
    std::vector<double> asking;
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (ids[i] == expert) asking.push_back(weights[i]);
    if (static_cast<std::int64_t>(asking.size()) <= capacity) continue;
    std::sort(asking.rbegin(), asking.rend());
    const auto last = static_cast<std::size_t>(capacity);
    gap = std::min(gap, asking[last - 1] - asking[last]);
  }
  return gap;
}

// The smallest distance between the expert that a token takes last and the one it takes no more, of the transport plan
// of all tokens (Sinkhorn), where the shares of a token add up to 1.
inline double sinkhorn_gap(const reference::MoeRouter& router, const reference::Vector& logits) {
  reference::Vector plan = reference::moe_sinkhorn_plan(router.experts, logits);
  const auto experts = static_cast<std::size_t>(router.experts), top_k = static_cast<std::size_t>(router.top_k);
  const double tokens = static_cast<double>(plan.size() / experts);
  double gap = HUGE_VAL;
  for (auto row = plan.begin(); row != plan.end() && top_k < experts; row += static_cast<std::ptrdiff_t>(experts)) {
    std::sort(row, row + static_cast<std::ptrdiff_t>(experts), std::greater<>());
    gap =
        std::min(gap, (row[static_cast<std::ptrdiff_t>(top_k) - 1] - row[static_cast<std::ptrdiff_t>(top_k)]) * tokens);
  }
  return gap;
}

inline ExpertCurve curve_of_one_rank(const SetupOptions& what, int steps, DType dtype) {
  ExpertCurve curve;
  curve.gaps.assign(static_cast<std::size_t>(steps), HUGE_VAL);
  const ModelShape s = what.shape;
  const auto score = s.router_score == "sigmoid" ? reference::MoeScore::sigmoid : reference::MoeScore::softmax_selected;
  const reference::MoeRouter router{s.num_local_experts, s.num_experts_per_tok, score, 1, s.n_group, s.topk_group, 2};
  Mesh alone;
  curve.run = train_rank(
      alone, steps, dtype,
      [&](TrainingSetup& setup, int step) {
        setup.model.experts()->watch = [&, step](std::span<const float> logits, std::span<const float> bias) {
          const reference::Vector values(logits.begin(), logits.end()), biases(bias.begin(), bias.end());
          double gap = what.moe.balance == "sinkhorn" && !setup.model.experts()->evaluates
                           ? sinkhorn_gap(router, values)
                           : reference::moe_select_gap(router, values, biases);
          if (what.moe.capacity_factor > 0 && what.moe.drop_policy == "probability")
            gap = std::min(gap, capacity_gap(router, values, biases, what.moe.capacity_factor));
          double& closest = curve.gaps[static_cast<std::size_t>(step)];
          closest = std::min(closest, gap);
        };
      },
      what);
  return curve;
}

// The steps over which a curve has to be followed: up to one in which two experts were so close that a rounding may
// choose otherwise, if that is where the curves part.
struct Followed {
  int steps = 0;
  double worst = 0;  // relative, over these
};
inline Followed followed(const ExpertCurve& one, const RankRun& run, double gap_that_counts) {
  Followed f;
  if (run.losses.size() != one.run.losses.size()) return {0, 1};
  for (; f.steps < static_cast<int>(run.losses.size()); ++f.steps) {
    const auto i = static_cast<std::size_t>(f.steps);
    const double difference = std::abs(run.losses[i] - one.run.losses[i]) / one.run.losses[i];
    // The loss of a step shows its own choices, and those that went into the weights before.
    const double gap = std::min(one.gaps[i], i > 0 ? one.gaps[i - 1] : HUGE_VAL);
    if (difference > 1e-6 && gap < gap_that_counts) return f;
    f.worst = std::max(f.worst, difference);
  }
  return f;
}

}  // namespace longhaul::test
