// What `longhaul-engine measure` would have timed on a machine that the time model describes exactly.
#pragma once

#include "autotune/time/processor_place.h"
#include "autotune/time/step_time.h"
#include "contracts/plan/processor_speed.h"

namespace longhaul::testing {

// A section [processor.2x1-bf16] to put behind the constants that ship. factor: of every time.
inline std::string made_up_section(double factor = 1) {
  const auto line = [](const char* name, double value) {
    return std::string(name) + " = { value = " + std::to_string(value) + ", unit = \"-\", source = \"made up\" }\n";
  };
  return "[processor.2x1-bf16]\n" + line("peak_bf16", 0.03 / factor) + line("gemm_bf16", 1) +
         line("memory_rate", 6 / factor) + line("product_memory", 3) + line("backward_products", 2.4) +
         line("attention", 0.3) + line("memory_share", 0.8) + line("kernel_latency", 3 * factor) +
         line("logit_cost", 4 * factor) + line("accumulate_traffic", 9) + line("optimizer_traffic", 60) +
         line("micro_batch_overhead", 0.2 * factor) + line("step_overhead", 0.4 * factor) + line("jitter", 0);
}

struct SmallModel {
  std::int64_t hidden, layers, heads, feed_forward, vocabulary, length, micro_batch, micro_batches;
};

inline double step_seconds(const TimeConstants& constants, const SmallModel& m) {
  TrainingTask task;
  task.shape.hidden_size = m.hidden, task.shape.num_hidden_layers = m.layers;
  task.shape.num_attention_heads = task.shape.num_key_value_heads = m.heads;
  task.shape.intermediate_size = m.feed_forward, task.shape.vocab_size = m.vocabulary;
  task.shape.max_position_embeddings = m.length;
  task.shape = resolve_shape(task.shape).value();
  task.sequence_length = m.length, task.global_batch_size = 2 * m.micro_batch * m.micro_batches;
  TrainingLayout layout;
  layout.dims.dp_replicate = 2, layout.micro_batch_size = static_cast<int>(m.micro_batch);
  const TrainingPlace place = processor_place(constants, 1, 2, Precision::bf16).value();
  return step_time(task, layout, place)->seconds();
}

// constants: with the section above.
inline ProcessorSpeed made_up_speed(const TimeConstants& constants) {
  ProcessorSpeed speed;
  speed.identity = {"A made-up processor", 2, "avx2", "avx2", "0123"};
  speed.ranks = 2, speed.at_ms = 1'790'000'000'000, speed.spent_seconds = 1.5;
  const TrainingPlace place = processor_place(constants, 1, 2, Precision::bf16).value();
  speed.copy_rate = place.cluster.gpu.memory_rate, speed.call_seconds = 1e-7;
  for (const auto& [m, n, k] : {std::array<double, 3>{512, 128, 128}, {512, 512, 512}, {512, 1024, 256}}) {
    const double seconds = product_time(place, Precision::bf16, m, n, k);
    for (const ProductPass pass : {ProductPass::forward, ProductPass::input, ProductPass::weight})
      speed.products.push_back({pass, static_cast<std::int64_t>(m), static_cast<std::int64_t>(n),
                                static_cast<std::int64_t>(k),
                                seconds * (pass == ProductPass::forward ? 1 : place.framework.backward_products / 2)});
  }
  for (const SmallModel& m : {SmallModel{128, 2, 4, 384, 256, 128, 4, 1},
                              {128, 6, 4, 384, 256, 128, 2, 1},
                              {256, 1, 4, 768, 256, 128, 2, 1},
                              {128, 1, 4, 384, 4096, 128, 2, 1},
                              {128, 2, 2, 384, 256, 512, 1, 1},
                              {64, 1, 2, 192, 256, 32, 1, 1},
                              {128, 2, 4, 384, 1024, 64, 1, 4}})
    speed.steps.push_back({m.hidden, m.layers, m.heads, m.feed_forward, m.vocabulary, m.length, m.micro_batch,
                           m.micro_batches, step_seconds(constants, m)});
  return speed;
}

}  // namespace longhaul::testing
