// "x B parameters on t tokens in y days on z GPUs": what a budget buys, as a shape that can be trained. The rate is
// given, or is what the search predicts for the very shape on those GPUs: then size and rate are looked for together,
// because a larger model on more GPUs runs at another rate. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotune/hyper/mup_transfer.h"
#include "autotune/hyper/scaling_law.h"
#include "autotune/hyper/shape_for_parameters.h"
#include "autotune/hyper/training_budget.h"
#include "autotune/search/layout_search.h"
#include "autotune/time/forecast_source.h"

namespace longhaul {

struct SizeRequest {
  // What is 0 is not given. tflops counts the model's own operations: 6 per parameter and token.
  hyper::TrainingBudget given;
  double mfu = 0;                       // instead of tflops: share of the GPU's peak
  hyper::ShapeWish wish;                // its parameters are found; with vocabulary and sequence length
  std::optional<ModelShape> shape;      // resolved, where the model is there already: given.parameters are
                                        // counted_parameters of it
  std::int64_t batch_tokens = 1 << 22;  // of a step, about: it has to be divided among the ranks
  std::optional<SearchRequest> where;   // without: no GPU is known, and nothing is predicted. Its task and number of
                                        // GPUs are found
  int gpus_per_node = 1;
  std::int64_t proxy_width = 0;  // hidden_size of a narrower model to tune instead; 0: none
};

// What is tuned on the narrower model holds for the model itself after these factors (autotune/hyper/mup_transfer.h).
struct SizeProxy {
  ModelShape shape;
  double lr_factor = 1, weight_decay_factor = 1, initializer_factor = 1;
  std::vector<std::string> approximations;  // one sentence each
};

enum class RateSource { given, forecast, needed };

struct SizeAnswer {
  hyper::TrainingBudget budget;  // all five; parameters are those of the shape
  RateSource rate = RateSource::given;
  std::string found;  // "days", "parameters", "parameters and tokens", ...
  hyper::ShapeFound shape;
  TrainingTask task;
  std::int64_t steps = 0;
  double peak_tflops = 0;                              // of a GPU, in the precision asked for; 0: not known
  std::optional<RankedLayout> layout;                  // the search's best for it
  double forecast_tflops = 0;                          // that it runs at; 0: there is no forecast
  ForecastSource source = ForecastSource::arithmetic;  // of that forecast
  double loss = 0;                                     // by hyper::chinchilla_corrected
  hyper::ComputeOptimal least_loss;                    // for as much computation
  std::optional<SizeProxy> proxy;                      // where one was asked for
  std::vector<std::string> notes;

  double mfu() const { return peak_tflops > 0 ? budget.tflops / peak_tflops : 0; }
};

// Errors: invalid_input, everything that is wrong with the question together; unavailable where the model fits on none
// of the layouts (by how much, and what would make it fit).
Result<SizeAnswer> size_training(const SizeRequest& question);

// Parameters that count for the operations of a token: of a mixture those that its way leads through.
double counted_parameters(const ModelShape& shape);

// Sequences of a step that can be split over that many ranks whatever of their powers of two splits the model: near
// batch_tokens, a multiple of the odd part of `gpus`.
std::int64_t batch_for(std::int64_t batch_tokens, std::int64_t sequence_length, std::int64_t gpus);
// The least number of nodes from `needed` on that is 8 to 15 times a power of two, or below 8: numbers that models can
// be split by.
std::int64_t usual_nodes(double needed);

}  // namespace longhaul
