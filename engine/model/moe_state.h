// What the expert layers of a model share: how they are balanced, the ranks that hold their experts, scratch memory,
// and what they count while a step goes on.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "contracts/model_shape.h"
#include "contracts/settings/moe.h"
#include "engine/model/growing_memory.h"
#include "engine/ops/moe_balance.h"
#include "engine/parallel/expert_exchange.h"

namespace longhaul {

// Sums over the micro-batches of a step, for every layer of the model (zeros for those of other stages):
// [layers, experts + 2]: tokens that chose an expert, then the auxiliary and the z-loss, times the micro-batch's weight
// (that of its tokens in the mean). f32: counts are exact to 2^24.
struct MoeTotals {
  std::int64_t layers = 0, experts = 0;
  std::vector<float> values;
  std::span<float> counts(std::int64_t layer) { return row(layer).first(static_cast<std::size_t>(experts)); }
  float& balance_loss(std::int64_t layer) { return row(layer)[static_cast<std::size_t>(experts)]; }
  float& z_loss(std::int64_t layer) { return row(layer)[static_cast<std::size_t>(experts) + 1]; }

 private:
  std::span<float> row(std::int64_t layer) {
    const auto width = static_cast<std::size_t>(experts + 2);
    return std::span(values).subspan(static_cast<std::size_t>(layer) * width, width);
  }
};

// The busiest expert's share of its layer's tokens over an even one, the worst layer's; and the mean over the layers.
struct ExpertLoad {
  double worst = 0, mean = 0;
};
ExpertLoad expert_load(MoeTotals& totals);

// What a layer's experts keep of a micro-batch for its backward. S rows that this rank sent, f the part of an expert's
// width here.
struct ExpertActivations {
  explicit ExpertActivations(MemoryAccount* account)
      : received(account),
        gate_up(account),
        activated(account),
        outputs(account),
        shared_gate_up(account),
        shared_activated(account) {}
  GrowingMemory received;          // [R, h]
  GrowingMemory gate_up;           // [R, 2 f]
  GrowingMemory activated;         // [R, f]
  GrowingMemory outputs;           // [S, h] of the experts, before weighting
  GrowingMemory shared_gate_up;    // [m, 2 shared]
  GrowingMemory shared_activated;  // [m, shared]
};

// What the weights' backward of a layer needs from the input's. m rows of this rank, R rows that its experts received.
struct MoeGradients {
  explicit MoeGradients(MemoryAccount* account)
      : received(account), gate_up(account), shared(account), shared_gate_up(account) {}
  std::vector<float> logits;     // [m, experts]
  GrowingMemory received;        // [R, h] of the experts' answers
  GrowingMemory gate_up;         // [R, 2 f]
  GrowingMemory shared;          // [m, h]
  GrowingMemory shared_gate_up;  // [m, 2 shared]
};

class MoeState {
 public:
  // slots: micro-batches alive at once.
  MoeState(const ModelShape& shape, const MoeSettings& settings, Mesh* mesh, int slots, MemoryAccount* account);

  const MoeSettings& settings() const { return settings_; }
  ExpertExchange& exchange() { return exchange_; }
  MemoryAccount* account() const { return account_; }
  // Nothing is dropped and Sinkhorn does not decide while a model is judged.
  bool evaluates = false;
  // What a micro-batch weighs in the step's mean, during its backward: the auxiliary losses are means, too.
  float weight = 0;

  // Called with what each selection sees, [tokens, experts] and [experts] or nothing: how close it was.
  std::function<void(std::span<const float> logits, std::span<const float> bias)> watch;

  // Hugging Face's auxiliary loss: all layers' statistics of a slot's micro-batch.
  bool pools() const { return settings_.balance == "aux" && settings_.aux_loss == "hugging_face"; }
  RouterStatistics& pooled(int slot) { return pooled_[static_cast<std::size_t>(slot)]; }

  // The auxiliary losses from the statistics of one layer (of all, where they are pooled).
  RouterLoss balance_loss(const RouterStatistics& statistics) const;
  RouterLoss z_loss(const RouterStatistics& statistics) const;

  MoeTotals& totals() { return totals_; }
  // Those since the last call.
  MoeTotals take_totals();

  // Scratch that lives inside one operation of one layer.
  MoeGradients gradients;   // where input and weight backward of a layer follow each other
  ExpertActivations again;  // what layers compute again, one at a time, instead of keeping it
  GrowingMemory x32, router, bias, rows, answers, activated, own, dlogits_x;

 private:
  MoeSettings settings_;
  std::int64_t top_k_;
  ExpertExchange exchange_;
  MemoryAccount* account_;
  std::vector<RouterStatistics> pooled_;
  MoeTotals totals_;
};

}  // namespace longhaul
