// What the expert layers of a model share: how they are balanced, the ranks that hold their experts, scratch memory,
// and what they count while a step goes on.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "contracts/model/model_shape.h"
#include "contracts/settings/training/moe.h"
#include "engine/core/tensor/memory_accounts.h"
#include "engine/core/tensor/placed_array.h"
#include "engine/model/store/growing_memory.h"
#include "engine/ops/experts/moe_balance.h"
#include "engine/parallel/expert/expert_exchange.h"

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
      : logits(account), received(account), gate_up(account), shared(account), shared_gate_up(account) {}
  PlacedArray<float> logits;     // [m, experts]
  GrowingMemory received;        // [R, h] of the experts' answers
  GrowingMemory gate_up;         // [R, 2 f]
  GrowingMemory shared;          // [m, h]
  GrowingMemory shared_gate_up;  // [m, 2 shared]
};

// What one layer needs at a time. m rows of this rank, each to k experts; R rows that its experts received.
struct MoeScratch {
  explicit MoeScratch(MemoryAccount* account)
      : x32(account),
        router(account),
        bias(account),
        rows(account),
        answers(account),
        activated(account),
        own(account),
        dlogits_x(account),
        dweights(account),
        slopes(account),
        selected(account),
        all_logits(account),
        all_ids(account) {}
  GrowingMemory x32, router, bias;  // of the router, in f32: its input [m, h], its weight, its selection's bias
  GrowingMemory rows, answers;      // on their way to experts and back
  GrowingMemory activated;          // gradient of an activation
  GrowingMemory own;                // [m, h]: the result of this rank's rows, where all have to hold it
  GrowingMemory dlogits_x;          // [m, h]: what the router adds to dx, in the model's type
  PlacedArray<float> dweights;      // [m, k]
  PlacedArray<float> slopes;        // [experts + 3], of the losses
  PlacedArray<float> selected;      // [2 experts + 2]: statistics of what was selected, where padding is left out
  // Of all tokens of a micro-batch, for Sinkhorn's selection: [tokens, experts], [tokens, k].
  PlacedArray<float> all_logits;
  PlacedArray<std::int32_t> all_ids;

  std::int64_t host_bytes() const { return dweights.host_bytes() + all_logits.host_bytes() + all_ids.host_bytes(); }
};

class MoeState {
 public:
  // slots: micro-batches alive at once.
  MoeState(const ModelShape& shape, const MoeSettings& settings, Mesh* mesh, int slots, MemoryAccount* account);

  const MoeSettings& settings() const { return settings_; }
  ExpertExchange& exchange() { return exchange_; }
  MemoryAccount* account() const { return account_; }
  // Outside the account.
  std::int64_t bytes() const { return exchange_.bytes() + gradients.logits.host_bytes() + scratch.host_bytes(); }
  // Nothing is dropped and Sinkhorn does not decide while a model is judged.
  bool evaluates = false;
  // What a micro-batch weighs in the step's mean, during its backward: the auxiliary losses are means, too.
  float weight = 0;

  // Called with what each selection sees, [tokens, experts] and [experts] or nothing: how close it was.
  std::function<void(std::span<const float> logits, std::span<const float> bias)> watch;

  // Hugging Face's auxiliary loss: all layers' statistics of a slot's micro-batch, [2 experts + 2].
  bool pools() const { return settings_.balance == "aux" && settings_.aux_loss == "hugging_face"; }
  std::span<float> pooled(int slot) { return pooled_[static_cast<std::size_t>(slot)].span(); }

  // The auxiliary losses.
  bool has_losses() const { return terms_.balance_coefficient != 0 || terms_.z_coefficient != 0; }
  const RouterLossTerms& losses() const { return terms_; }

  // Where a layer adds up its part of MoeTotals, [experts + 2]: where operations work.
  std::span<float> totals(std::int64_t layer);
  // Those since the last call, brought to the host.
  MoeTotals take_totals();

  // Scratch that lives inside one operation of one layer.
  MoeGradients gradients;   // where input and weight backward of a layer follow each other
  ExpertActivations again;  // what layers compute again, one at a time, instead of keeping it
  MoeScratch scratch;

 private:
  MoeSettings settings_;
  RouterLossTerms terms_;
  ExpertExchange exchange_;
  MemoryAccount* account_;
  std::vector<PlacedArray<float>> pooled_;
  std::int64_t layers_;
  PlacedArray<float> totals_;  // MoeTotals::values
};

}  // namespace longhaul
