#include "autotune/time/processor_place.h"

#include <algorithm>

namespace longhaul {

Result<TrainingPlace> processor_place(const TimeConstants& constants, int threads, int ranks_on_node,
                                      Precision precision) {
  TrainingPlace place;
  const std::string key = measured_processor_key(ranks_on_node, threads, precision);
  for (const MeasuredProcessor& measured : constants.measured_processors) {
    if (measured.key != key) continue;
    place.cluster.gpu = measured.rank, place.framework = measured.framework, place.common = measured.common;
    place.cluster.gpus_per_node = place.cluster.domain = std::max(1, ranks_on_node);
    place.cluster.nic_rate = measured.rank.nic_rate;
    return place;
  }
  LH_TRY(place.cluster.gpu, constants.gpu_named("one core of a processor"));
  LH_TRY(place.framework, constants.framework(processor_framework));
  GpuType& rank = place.cluster.gpu;
  const double cores = std::max(1, threads);
  rank.peak_f32 *= cores, rank.peak_bf16 *= cores, rank.memory_rate *= cores, rank.power *= cores;
  place.cluster.gpus_per_node = place.cluster.domain = std::max(1, ranks_on_node);
  place.cluster.nic_rate = rank.nic_rate;
  place.common = constants.processors;
  return place;
}

ServingSpeed processor_serving(const TimeConstants& constants, int threads, Precision precision) {
  const std::string key = measured_processor_key(1, threads, precision);
  for (const MeasuredProcessor& measured : constants.measured_processors)
    if (measured.key == key) return measured.serving;
  return {};
}

}  // namespace longhaul
