#include "autotune/time/processor_place.h"

#include <algorithm>

namespace longhaul {

const MeasuredProcessor* measured_processor(const TimeConstants& constants, const RankUse& use) {
  const std::string key = use.text();
  for (const MeasuredProcessor& measured : constants.measured_processors)
    if (measured.key == key) return &measured;
  return nullptr;
}

Result<TrainingPlace> processor_place(const TimeConstants& constants, int threads, int ranks_on_node,
                                      Precision precision, const RanksBeside& beside) {
  TrainingPlace place;
  const RankUse use{ranks_on_node, threads, to_string(precision), beside};
  if (const MeasuredProcessor* measured = measured_processor(constants, use)) {
    place.cluster.gpu = measured->rank, place.framework = measured->framework, place.common = measured->common;
    place.cluster.gpus_per_node = place.cluster.domain = std::max(1, ranks_on_node);
    place.cluster.nic_rate = measured->rank.nic_rate;
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
  const MeasuredProcessor* measured = measured_processor(constants, {1, threads, to_string(precision)});
  return measured != nullptr ? measured->serving : ServingSpeed{};
}

}  // namespace longhaul
