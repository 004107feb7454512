// What is minimised: turns a micro-batch into a loss and its gradient. Sums over micro-batches and ranks are plain
// additions, so an objective reports sums and what they are divided by in the end.
#pragma once

#include <array>

#include "base/value/value.h"
#include "engine/model/llama.h"
#include "engine/train/step/batch_source.h"

namespace longhaul {

inline constexpr std::size_t objective_extras = 5;

struct ObjectiveSums {
  double loss = 0;                               // the gradient is that of this sum
  double count = 0;                              // tokens, or pairs: what the mean is over
  double tokens = 0;                             // of the data, for the rate
  double computed = 0;                           // the same with padding
  std::array<double, objective_extras> extra{};  // of the objective's own, named by extra_names
  double largest = 0;                            // the same, named by largest_name: not a sum, and not below 0
};

class Objective {
 public:
  virtual ~Objective() = default;
  virtual void forward(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch) {
    model.forward(context, slot, batch.view());
  }
  virtual ObjectiveSums backward(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch,
                                 const GradientTarget& target) = 0;
  // The same sums without gradients, after forward.
  virtual ObjectiveSums evaluate(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch) = 0;
  // Names of `extra` in events; empty: not used. They are divided by count.
  virtual std::vector<std::string> extra_names() const { return {}; }
  // Name of `largest`, the largest of all micro-batches; empty: not used.
  virtual std::string largest_name() const { return {}; }
  // What else it knows of the last step, alike on all ranks: beside `extra` in its metric.
  virtual void add_metrics(Value& fields) const { (void)fields; }
  // Memory that it keeps.
  virtual std::int64_t bytes() const { return 0; }
};

// Cross-entropy of the next token, averaged over the tokens that have a weight: pretraining and supervised fine-tuning.
class LanguageModelObjective final : public Objective {
 public:
  ObjectiveSums backward(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch,
                         const GradientTarget& target) override;
  ObjectiveSums evaluate(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch) override;
  std::int64_t bytes() const override { return bytes_of_vector(loss_); }

 private:
  ObjectiveSums sums_of(const BatchStorage& batch) const;
  std::vector<float> loss_;
};

}  // namespace longhaul
