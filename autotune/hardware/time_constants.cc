#include "autotune/hardware/time_constants.h"

#include <algorithm>

#include "autotune/hardware/measured_serving.h"
#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {

const char* to_string(Precision precision) {
  switch (precision) {
    case Precision::f32: return "f32";
    case Precision::bf16: return "bf16";
    case Precision::fp8: return "fp8";
    case Precision::fp4: return "fp4";
  }
  return "";
}

double GpuType::peak(Precision precision) const {
  switch (precision) {
    case Precision::f32: return peak_f32;
    case Precision::bf16: return peak_bf16;
    case Precision::fp8: return peak_fp8;
    case Precision::fp4: return peak_fp4;
  }
  return 0;
}

double GpuType::gemm_rate(Precision precision) const {
  switch (precision) {
    case Precision::f32: return peak_f32 * gemm_bf16;
    case Precision::bf16: return peak_bf16 * gemm_bf16;
    case Precision::fp8: return peak_fp8 * gemm_fp8;
    case Precision::fp4: return peak_fp4 * gemm_fp4;
  }
  return 0;
}

namespace {

template <class S>
struct Binding {
  const char* name;
  double S::* member;
  double scale;  // of the file's unit
  bool required;
};

constexpr double giga = 1e9, tera = 1e12, nano = 1e-9, micro = 1e-6, milli = 1e-3;

const std::vector<Binding<GpuType>>& gpu_bindings() {
  static const std::vector<Binding<GpuType>> all = {
      {"peak_f32", &GpuType::peak_f32, tera, false},  {"peak_bf16", &GpuType::peak_bf16, tera, true},
      {"peak_fp8", &GpuType::peak_fp8, tera, false},  {"peak_fp4", &GpuType::peak_fp4, tera, false},
      {"memory", &GpuType::memory, giga, true},       {"memory_rate", &GpuType::memory_rate, giga, true},
      {"link_rate", &GpuType::link_rate, giga, true}, {"nic_rate", &GpuType::nic_rate, giga, true},
      {"power", &GpuType::power, 1, false},           {"gemm_bf16", &GpuType::gemm_bf16, 1, true},
      {"gemm_fp8", &GpuType::gemm_fp8, 1, false},     {"gemm_fp4", &GpuType::gemm_fp4, 1, false},
      {"attention", &GpuType::attention, 1, true},
  };
  return all;
}

// Not required is what constants that a run of an earlier version has kept do not have.
const std::vector<Binding<CommonConstants>>& common_bindings() {
  using C = CommonConstants;
  static const std::vector<Binding<CommonConstants>> all = {
      {"memory_share", &C::memory_share, 1, true},
      {"kernel_latency", &C::kernel_latency, micro, true},
      {"epilogue", &C::epilogue, 1, true},
      {"cast_traffic", &C::cast_traffic, 1, true},
      {"expert_share", &C::expert_share, 1, true},
      {"expert_latency", &C::expert_latency, micro, false},
      {"unfused_product", &C::unfused_product, 1, true},
      {"unfused_memory", &C::unfused_memory, 1, true},
      {"host_mix", &C::host_mix, 1, true},
      {"link_share", &C::link_share, 1, true},
      {"link_latency", &C::link_latency, micro, true},
      {"nic_share", &C::nic_share, 1, true},
      {"nic_latency", &C::nic_latency, micro, true},
      {"ring_latency", &C::ring_latency, micro, true},
      {"shard_contention", &C::shard_contention, 1, true},
      {"host_rate", &C::host_rate, giga, true},
      {"jitter", &C::jitter, 1, true},
      {"step_overhead", &C::step_overhead, milli, true},
      {"micro_batch_overhead", &C::micro_batch_overhead, milli, true},
      {"spread_seen", &C::spread_seen, 1, true},
      {"spread_new", &C::spread_new, 1, true},
      {"spread_experts", &C::spread_experts, 1, false},
  };
  return all;
}

const std::vector<Binding<ServingConstants>>& serving_bindings() {
  using S = ServingConstants;
  static const std::vector<Binding<ServingConstants>> all = {
      {"message_latency", &S::message_latency, micro, true},
      {"step_cost", &S::step_cost, micro, true},
      {"sequence_cost", &S::sequence_cost, micro, true},
      {"unpack_share", &S::unpack_share, 1, true},
      {"spread_seen", &S::spread_seen, 1, false},
      {"spread_new", &S::spread_new, 1, false},
  };
  return all;
}

const std::vector<Binding<FrameworkProfile>>& framework_bindings() {
  using F = FrameworkProfile;
  static const std::vector<Binding<FrameworkProfile>> all = {
      {"attention_scale", &F::attention_scale, 1, false},
      {"tensor_exposed", &F::tensor_exposed, 1, false},
      {"data_exposed", &F::data_exposed, 1, false},
      {"pipeline_exposed", &F::pipeline_exposed, 1, false},
      {"expert_exposed", &F::expert_exposed, 1, false},
      {"gradient_bytes", &F::gradient_bytes, 1, false},
      {"optimizer_traffic", &F::optimizer_traffic, 1, false},
      {"accumulate_traffic", &F::accumulate_traffic, 1, false},
      {"backward_products", &F::backward_products, 1, false},
      {"product_memory", &F::product_memory, 1, false},
      {"logit_cost", &F::logit_cost, nano, false},
      {"stream_passes", &F::stream_passes, 1, false},
      {"kernels", &F::kernels, 1, false},
      {"host_layer", &F::host_layer, micro, false},
      {"host_backward", &F::host_backward, 1, false},
      {"host_tensor", &F::host_tensor, 1, false},
      {"host_head", &F::host_head, micro, false},
  };
  return all;
}

template <class S>
void fill(const ConstantTable& table, const std::string& group, const std::string& section,
          const std::vector<Binding<S>>& bindings, S& target, std::vector<std::string>& missing) {
  for (const Binding<S>& b : bindings) {
    const Constant* found =
        table.find_or_borrow(format("{}.{}{}{}", group, section, section.empty() ? "" : ".", b.name));
    if (found != nullptr)
      target.*b.member = found->value * b.scale;
    else if (b.required)
      missing.push_back(group + "." + (section.empty() ? "" : section + ".") + b.name);
  }
}

int whole(const ConstantTable& table, const std::string& group, const std::string& section, const std::string& name,
          int otherwise) {
  const Constant* found = table.find_or_borrow(format("{}.{}.{}", group, section, name));
  return found == nullptr ? otherwise : static_cast<int>(found->value);
}

GpuType read_gpu(const ConstantTable& table, const std::string& key, std::vector<std::string>& missing) {
  GpuType gpu;
  gpu.key = key, gpu.names = table.list_of("gpu." + key + ".names");
  fill(table, "gpu", key, gpu_bindings(), gpu, missing);
  gpu.link_domain = whole(table, "gpu", key, "link_domain", 1);
  gpu.processors = whole(table, "gpu", key, "processors", 1);
  gpu.measured = whole(table, "gpu", key, "measured", 1) != 0;
  return gpu;
}

FrameworkProfile read_framework(const ConstantTable& table, const std::string& key, std::vector<std::string>& missing) {
  FrameworkProfile f;
  f.key = key;
  fill(table, "framework", key, framework_bindings(), f, missing);
  f.fused_attention = whole(table, "framework", key, "fused_attention", 1) != 0;
  f.shard_overlap = whole(table, "framework", key, "shard_overlap", 1) != 0;
  f.recompute_last = whole(table, "framework", key, "recompute_last", 1) != 0;
  f.split_sends = whole(table, "framework", key, "split_sends", 1) != 0;
  f.keeps_qkv = whole(table, "framework", key, "keeps_qkv", 0) != 0;
  f.gathers_per_layer = whole(table, "framework", key, "gathers_per_layer", 1);
  return f;
}

// Over what is assumed of a core: the sections of a rank's three parts, under one name.
MeasuredProcessor read_measured(const ConstantTable& table, const std::string& key, const TimeConstants& assumed) {
  MeasuredProcessor one;
  one.key = key, one.common = assumed.processors;
  for (const GpuType& gpu : assumed.gpus)
    if (gpu.key == processor_key) one.rank = gpu;
  for (const FrameworkProfile& framework : assumed.frameworks)
    if (framework.key == processor_framework) one.framework = framework;
  std::vector<std::string> said_above;
  fill(table, "processor", key, gpu_bindings(), one.rank, said_above);
  fill(table, "processor", key, common_bindings(), one.common, said_above);
  fill(table, "processor", key, framework_bindings(), one.framework, said_above);
  one.serving = read_measured_serving(table, "processor." + key);
  for (const auto& [name, at] : {std::pair{"drawing", &one.drawing}, std::pair{"scoring", &one.scoring}})
    if (const Constant* found = table.find(format("processor.{}.{}", key, name))) *at = found->value;
  one.rank.measured = true, one.rank.key = key;
  return one;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
  return text;
}

}  // namespace

Result<TimeConstants> make_time_constants(const ConstantTable& table) {
  TimeConstants out;
  std::vector<std::string> missing;
  fill(table, "common", "", common_bindings(), out.common, missing);
  std::vector<std::string> said_above;
  fill(table, "common-cpu", "", common_bindings(), out.processors, said_above);
  fill(table, "serving", "", serving_bindings(), out.serving, missing);
  for (const std::string& key : table.sections("gpu")) out.gpus.push_back(read_gpu(table, key, missing));
  for (const std::string& key : table.sections("framework"))
    out.frameworks.push_back(read_framework(table, key, missing));
  for (const std::string& key : table.sections("processor"))
    out.measured_processors.push_back(read_measured(table, key, out));
  if (out.gpus.empty()) missing.emplace_back("gpu");
  if (out.frameworks.empty()) missing.emplace_back("framework");
  if (missing.empty()) return out;
  return make_error(ErrorCode::invalid_input, "the constants of the time model lack " + join(missing, ", "),
                    "add them with value, unit and source, or `like = \"...\"` to borrow a section's");
}

Result<TimeConstants> read_time_constants(const std::string& path) {
  LH_TRY(const std::string text, read_file(path));
  LH_TRY(const ConstantTable table, ConstantTable::parse(text, path));
  return make_time_constants(table);
}

Result<GpuType> TimeConstants::gpu_named(const std::string& name) const {
  const GpuType* best = nullptr;
  std::size_t longest = 0;
  const std::string sought = lower(name);
  for (const GpuType& gpu : gpus) {
    for (const std::string& part : gpu.names) {
      if (part.size() <= longest || sought.find(lower(part)) == std::string::npos) continue;
      best = &gpu, longest = part.size();
    }
  }
  if (best != nullptr) return *best;
  std::vector<std::string> known;
  for (const GpuType& gpu : gpus) known.push_back(gpu.key);
  return make_error(
      ErrorCode::not_found, format("the time model does not know the GPU type \"{}\"", name),
      "say four numbers of its data sheet: peak bf16 TFLOP/s (dense), memory in GB, memory GB/s, and GB/s "
      "of its links to its neighbours; known are " +
          join(known, ", "));
}

Result<FrameworkProfile> TimeConstants::framework(const std::string& key) const {
  std::vector<std::string> known;
  for (const FrameworkProfile& f : frameworks) {
    if (f.key == key) return f;
    known.push_back(f.key);
  }
  return make_error(ErrorCode::not_found, format("the time model has no framework \"{}\"", key),
                    "there are " + join(known, ", "));
}

GpuType unknown_gpu(const TimeConstants& constants, const std::string& name, double peak_tflops, double memory_gb,
                    double memory_gbyte, double link_gbyte) {
  GpuType gpu;
  gpu.key = name;
  gpu.peak_bf16 = peak_tflops * tera, gpu.peak_f32 = gpu.peak_bf16 / 2;
  gpu.memory = memory_gb * giga, gpu.memory_rate = memory_gbyte * giga;
  gpu.link_rate = link_gbyte * giga;
  double count = 0;
  for (const GpuType& known : constants.gpus) {
    if (!known.measured) continue;
    ++count;
    gpu.gemm_bf16 += known.gemm_bf16, gpu.attention += known.attention;
    gpu.nic_rate += known.nic_rate, gpu.processors += known.processors, gpu.link_domain = 8;
  }
  if (count > 0)
    gpu.gemm_bf16 /= count, gpu.attention /= count, gpu.nic_rate /= count,
        gpu.processors = static_cast<int>(gpu.processors / count);
  return gpu;
}

}  // namespace longhaul
