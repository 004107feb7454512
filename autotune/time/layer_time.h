// How long one transformer layer takes on one rank for one micro-batch, and the embedding with the output and the loss,
// as a sum of named parts. Roofline (Williams, Waterman & Patterson 2009) with shares of the peaks that were reached:
// a product takes the longer of its arithmetic and its traffic, tiles of 128 x 256 are assigned to the processors in
// waves, short inner dimensions pay for the epilogue. Everything else streams through memory.
#pragma once

#include "autotune/time/training_case.h"

namespace longhaul {

// Seconds of one pass over a layer.
struct PassTime {
  double gemm = 0, attention = 0, memory = 0;   // computation: products, attention's core, everything that streams
  double tensor = 0, context = 0, experts = 0;  // messages that nothing hides
  double host = 0;                              // the GPU waits for launches
  double total() const { return gemm + attention + memory + tensor + context + experts + host; }
  PassTime operator+(const PassTime& other) const;
  PassTime operator*(double factor) const;
};

struct LayerTime {
  PassTime forward, backward;   // backward without what is computed again
  PassTime again;               // of a layer whose activations are recomputed
  double weight_gradients = 0;  // part of backward.gemm that zero-bubble schedules move
};

// Of a layer under `layout`.
LayerTime layer_time(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place);
// Embedding (first stage), and final norm, output and loss (last stage), forward and backward.
struct EndTimes {
  double embedding = 0;
  PassTime output_forward, output_backward;
};
EndTimes end_times(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place);

// Seconds of one micro-batch through a whole model on one rank, forward alone: what scores, rewards and values take.
double forward_time(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place);

// Seconds of a product [m, k] x [k, n] in this precision.
double product_time(const TrainingPlace& place, Precision precision, double m, double n, double k);

}  // namespace longhaul
