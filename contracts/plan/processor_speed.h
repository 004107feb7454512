// What `longhaul-engine measure` has timed: how fast ranks on this machine's processor multiply, copy and train, all of
// them at the same time, as the ranks of a stage are. Written by the engine, kept beside the runs, turned into
// constants of the time model by autotune/calibrate/processor_constants.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"
#include "contracts/plan/serving_speed.h"

namespace longhaul {

// What a measurement is of: it stands for no other machine, no other build of the engine and no other instruction set.
struct ProcessorIdentity {
  std::string processor;  // its model's name
  int cores = 0;          // that this process may use
  std::string kernels;    // instruction set of the engine's own operations
  std::string products;   // and the one that oneDNN's products are held to
  std::string engine;     // digest of the program
  bool operator==(const ProcessorIdentity&) const = default;
};

// [m, k] x [k, n], with a weight as it lies in a layer: y = x W^T, the gradient of x, or that of W.
enum class ProductPass { forward, input, weight };
const char* to_string(ProductPass pass);

struct TimedProduct {
  ProductPass pass = ProductPass::forward;
  std::int64_t m = 0, n = 0, k = 0;
  double seconds = 0;
};

// A whole step of a small model on every rank, dp over the ranks: forward, backward, sums, update.
struct TimedStep {
  std::int64_t hidden = 0, layers = 0, heads = 0, feed_forward = 0, vocabulary = 0;
  std::int64_t sequence_length = 0, micro_batch_size = 0, micro_batches = 1;  // of a rank
  double seconds = 0;
};

// A whole rollout of a small model of random weights, drawn by every rank that draws (engine/infer/generate): prompts,
// `group` answers to each and none of them shorter than `answer_tokens`, all of them open at once; and what a reference
// takes to say how likely each is.
struct TimedRollout {
  std::int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, feed_forward = 0, vocabulary = 0;
  std::int64_t prompt_tokens = 0, answer_tokens = 0, answers = 0, group = 1;  // of a rank
  double generate_seconds = 0, reference_seconds = 0;
};

// Ranks that draw answers for as long as others train; none: those that train draw as well, before or behind it.
struct RanksBeside {
  int ranks = 0, threads = 0;  // of each
  auto operator<=>(const RanksBeside&) const = default;
};

// So many ranks at once, of so many threads, in one precision: what a measurement is of, beside the machine.
struct RankUse {
  int ranks = 1, threads = 1;
  std::string precision;
  RanksBeside beside = {};
  auto operator<=>(const RankUse&) const = default;
  std::string text() const;  // "2x1-bf16", "1x1-f32-beside-1x1"
};

struct ProcessorSpeed {
  static constexpr int version = 3;  // of what is timed, and how: another one is another measurement
  ProcessorIdentity identity;
  int ranks = 1, threads = 1;  // of a rank that trains
  std::string precision = "bf16";
  RanksBeside beside;
  RankUse use() const { return {ranks, threads, precision, beside}; }
  double copy_rate = 0;                // bytes/s of a rank: read plus written, far beyond the caches
  double call_seconds = 0;             // of an operation on a few numbers
  std::vector<TimedProduct> products;  // in `precision`
  std::vector<TimedStep> steps;
  // Of a rank that draws, while all that draw do: those beside, or all that train.
  ServingSpeed serving;
  std::vector<TimedRollout> rollouts;
  double spent_seconds = 0;
  std::int64_t at_ms = 0;  // since 1970
};

Value identity_to_value(const ProcessorIdentity& identity);
Result<ProcessorIdentity> identity_from_value(const Value& value, const std::string& name);
Value processor_speed_to_value(const ProcessorSpeed& speed);
// corrupt: another version, or a size or a time that is missing or cannot be. `name` stands in errors.
Result<ProcessorSpeed> processor_speed_from_value(const Value& value, const std::string& name);

}  // namespace longhaul
