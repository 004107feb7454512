// A server as the tuner is asked about it: who asks what of it, and one way to lay it out.
#pragma once

#include <cstdint>
#include <vector>

#include "autotune/hardware/cluster.h"
#include "autotune/inference/number_format.h"
#include "contracts/plan/serving_speed.h"

namespace longhaul {

enum class ServingGoal { throughput, latency };

struct ServingTask {
  // Requests: mean lengths in tokens, and the longest context a slot has to carry (0: the sum of both).
  std::int64_t prompt_tokens = 1024, answer_tokens = 256, context_length = 0;
  // How many come: requests/s over all replicas (0: as many as the slots take), or how many ask at a time when the
  // goal is latency.
  double request_rate = 0;
  int concurrency = 1;
  // Targets in seconds, 0 for none, and the share of first tokens and of steps that have to meet them.
  double ttft_max = 0, itl_max = 0, percentile = 0.95;
  ServingGoal goal = ServingGoal::throughput;
  // Variance over squared mean of how long requests hold a slot: 0 all alike, 1 as if drawn from an exponential
  // distribution, as chats roughly are.
  double length_variation = 1;

  int gpus = 1;
  int tp = 0;  // 0: free
  // What the server may use. Fewer bits cost quality, so that they are a choice of the user's; the plan says what they
  // would bring.
  std::vector<WeightFormat> weights = {WeightFormat::bf16};
  std::vector<CacheFormat> caches = {CacheFormat::bf16};
  std::vector<int> chunks = {256, 512, 1024, 2048, 4096, 8192};  // tokens of prompts per step
  std::vector<int> blocks = {16, 32, 64};                        // tokens of a cache block
  int slots_max = 1024;
  // Share of a GPU's memory that stays free, and bytes that the program takes before it holds anything: the driver's
  // context, libraries, recorded graphs, buffers for messages. Both are customary, not measured.
  double memory_reserve = 0.10, memory_base = 1.5e9;

  std::int64_t context() const { return context_length > 0 ? context_length : prompt_tokens + answer_tokens; }
};

// What `longhaul-engine serve` can do today: one rank, bf16 or int8 weights, chunks of 256, in every slot a cache of
// the whole context.
inline void limit_to_own_server(ServingTask& task) {
  task.tp = 1, task.weights = {WeightFormat::bf16, WeightFormat::int8}, task.caches = {CacheFormat::bf16};
  task.chunks = {256}, task.slots_max = 1024;
}

struct ServingLayout {
  int tp = 1, replicas = 1;
  WeightFormat weights = WeightFormat::bf16;
  CacheFormat cache = CacheFormat::bf16;
  int slots = 1, block = 16, chunk = 2048;
  bool operator==(const ServingLayout&) const = default;
};

// Where, and with what constants.
struct ServingPlace {
  Cluster cluster;
  CommonConstants common;
  ServingConstants serving;
  double attention_scale = 1;   // of the GPU's share for fused attention
  double product_memory = 1;    // share of the memory's rate at which products read
  ServingSpeed processor = {};  // known where our own server answers on a rank that was measured
  // Seconds of whole rollouts there, and of their reference, over those of their operations (rollout_time.h).
  double drawing = 1, scoring = 1;
};

}  // namespace longhaul
