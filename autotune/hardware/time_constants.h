// Room autotune/hardware
// What the time model knows of machines and programs: GPU types, links, frameworks, each number with its source.
// constant_table.h reads constants.toml; time_constants.h makes gpu_type.h and framework_profile.h out of it.
// cluster.h places the ranks: which link joins the ranks of a group.
// It knows no formula for time: those in autotune/time and autotune/inference read these numbers.
//
// Everything the time model knows beside the training itself, out of a ConstantTable.
#pragma once

#include <vector>

#include "autotune/hardware/constant_table.h"
#include "autotune/hardware/framework_profile.h"
#include "autotune/hardware/gpu_type.h"
#include "autotune/hardware/serving_constants.h"
#include "contracts/plan/processor_speed.h"

namespace longhaul {

// What is alike on all GPUs.
struct CommonConstants {
  double memory_share = 0;          // of the memory's rate, by kernels that stream
  double kernel_latency = 0;        // s: one kernel, from its start to full speed and back
  double epilogue = 0;              // of a product, in columns of its inner dimension in bf16
  double cast_traffic = 0;          // products below bf16: passes over their input that casting it takes
  double expert_share = 0;          // of a product's rate, by the products of many experts at once
  double expert_latency = 0;        // s: a mixture's layer beside its products: router, permutation, their launches
  double unfused_product = 0;       // share of the peak that the products of unfused attention reach
  double unfused_memory = 0;        // share of the memory's rate that its scores are moved at
  double host_mix = 0;              // exponent of the mean in which the host's and the GPU's time of a layer add up
  double link_share = 0;            // of link_rate
  double link_latency = 0;          // s
  double nic_share = 0;             // of nic_rate
  double nic_latency = 0;           // s
  double ring_latency = 0;          // s: one hop of a ring
  double shard_contention = 0;      // ZeRO 3: what hidden gathers cost the computation, as a share of their own time
  double host_rate = 0;             // bytes/s between a GPU and its host's memory, one direction
  double jitter = 0;                // a step's growth with each doubling of the ranks
  double step_overhead = 0;         // s
  double micro_batch_overhead = 0;  // s
  double spread_seen = 0;           // relative standard error of a prediction on a GPU that the fit saw,
  double spread_new = 0;            // and on one that it did not
  double spread_experts = 0;        // and of a mixture of experts
};

inline constexpr const char* processor_key = "cpu-core";            // section of [gpu.*]: one core
inline constexpr const char* processor_framework = "longhaul-cpu";  // section of [framework.*]

// Ranks on this machine's processor as they were measured: so many at once, of so many threads, in one precision, and
// those that draw answers beside them. Its section is named after these (RankUse::text), [processor.2x1-bf16]. What it
// does not say is that of [gpu.cpu-core], [common-cpu] and [framework.longhaul-cpu]; rates are those of a whole rank.
struct MeasuredProcessor {
  std::string key;
  GpuType rank;
  CommonConstants common;
  FrameworkProfile framework;
  ServingSpeed serving = {};        // of a rank that draws answers, while all of them do
  double drawing = 1, scoring = 1;  // seconds of whole rollouts, and of their reference, over those of their operations
};

struct TimeConstants {
  CommonConstants common;
  CommonConstants processors;  // the same of ranks on processors: [common-cpu], and what it does not say from [common]
  std::vector<MeasuredProcessor> measured_processors = {};
  ServingConstants serving;
  std::vector<GpuType> gpus;
  std::vector<FrameworkProfile> frameworks;

  // By a name such as "NVIDIA H100 80GB HBM3". not_found asks for the four numbers that an unknown one needs.
  Result<GpuType> gpu_named(const std::string& name) const;
  // not_found names all that there are.
  Result<FrameworkProfile> framework(const std::string& key) const;
};

// Errors (invalid_input): constants that are missing, all of them together.
Result<TimeConstants> make_time_constants(const ConstantTable& table);
Result<TimeConstants> read_time_constants(const std::string& path);

// A GPU that no table has, by the four numbers that people know: peak in TFLOP/s (bf16, dense), memory in GB and its
// rate in GB/s, and the rate of its links in GB/s. It reaches the shares that those of the table reach on average.
GpuType unknown_gpu(const TimeConstants& constants, const std::string& name, double peak_tflops, double memory_gb,
                    double memory_gbyte, double link_gbyte);

}  // namespace longhaul
