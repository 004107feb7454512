// A training that is measured as a whole: which model, how much of it at a time, what others reach with it, and whether
// it fits on a GPU before it is begun. Pure: no device is asked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "contracts/plan/memory_plan.h"
#include "contracts/settings/training/low_precision.h"

namespace longhaul::gpu_bench {

struct TrainingCase {
  std::string name;   // "llama2-7b-bf16", of options and files
  std::string title;  // "Llama-2-7B shape, bf16"
  ModelShape shape;   // resolved
  std::int64_t sequence_length = 0;
  std::int64_t sequences = 1;    // of an optimizer step
  std::int64_t micro_batch = 1;  // of those, at a time
  LowPrecisionSettings low_precision;
  double tokens_per_s_bar = 0;  // 0: none
  std::string peer;             // what others publish

  std::int64_t tokens() const { return sequences * sequence_length; }
  double flops() const;  // of a step
  TrainingCase with_layers(std::int64_t layers) const;
};

// What the issue of GPUs asks for: Llama-2-7B in bf16 and fp8, GPT-2 124M and 1.5B.
std::vector<TrainingCase> training_cases();
// Of a few thousand weights, for emulated GPUs: Llama in bf16 and with fp8's numbers, GPT-2.
std::vector<TrainingCase> tiny_training_cases();

// The way that its step is taken on one GPU; recompute is what the fit has chosen.
TrainingOutline outline_of(const TrainingCase& training, const Recompute& recompute);

// What a step will take, said before it is begun.
struct Fit {
  MemoryTable planned;      // of the whole training
  std::int64_t needed = 0;  // on the device, with gpu_allowance
  std::int64_t free = 0;
  std::int64_t layers = 0;  // that fit: all, or the most of the same shape; 0: not one
  Recompute recompute;      // that it takes; none where that fits
  std::string said;         // both in words
  bool fits(const TrainingCase& training) const { return layers == training.shape.num_hidden_layers; }
};
Result<Fit> fit(const TrainingCase& training, std::int64_t free_bytes);

// A step of `layers` from one of two depths, by a straight line: layers are alike, the rest is there once. None where
// more layers took no longer, as clocks of a busy machine have it.
std::optional<double> extrapolated_seconds(std::int64_t deep, double deep_s, std::int64_t shallow, double shallow_s,
                                           std::int64_t layers);

// Dense bf16 FLOP/s of a chip by its name, from NVIDIA's data sheets; none: not known here.
std::optional<double> peak_bf16_flops(const std::string& device_name);

}  // namespace longhaul::gpu_bench
