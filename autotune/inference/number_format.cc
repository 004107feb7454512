#include "autotune/inference/number_format.h"

#include <cmath>

#include "base/text/text.h"

namespace longhaul {
namespace {

// By the order of WeightFormat. group 0: the scale is an output channel's; -1: there is none worth counting.
struct WeightFacts {
  const char* name;
  double bits, scale_bytes;
  int group;
  Precision products;
  bool unpacked;
};
constexpr WeightFacts weight_facts[] = {
    {"f32", 32, 0, -1, Precision::f32, false},  {"bf16", 16, 0, -1, Precision::bf16, false},
    {"fp8", 8, 0, -1, Precision::fp8, false},   {"int8", 8, 4, 0, Precision::bf16, true},
    {"int4", 4, 2, 128, Precision::bf16, true}, {"fp4", 4, 1, 16, Precision::fp4, false},
};
const WeightFacts& facts(WeightFormat format) {
  return weight_facts[static_cast<std::size_t>(format)];
}

constexpr const char* cache_names[] = {"f32", "bf16", "fp8", "int8"};

template <class Format>
Result<Format> format_named(const std::string& name, const std::vector<Format>& all, const char* what) {
  std::vector<std::string> names;
  for (const Format format : all) {
    if (name == to_string(format)) return format;
    names.emplace_back(to_string(format));
  }
  return make_error(ErrorCode::invalid_input, format("there are no {} in {}", what, name),
                    "known are " + join(names, ", "));
}

}  // namespace

const char* to_string(WeightFormat format) {
  return facts(format).name;
}

const std::vector<WeightFormat>& all_weight_formats() {
  static const std::vector<WeightFormat> all = {WeightFormat::f32,  WeightFormat::bf16, WeightFormat::fp8,
                                                WeightFormat::int8, WeightFormat::int4, WeightFormat::fp4};
  return all;
}

double matrix_bytes(WeightFormat format, double out, double in) {
  const WeightFacts& f = facts(format);
  double scales = 0;
  if (f.group == 0) scales = out;
  if (f.group > 0) scales = out * std::ceil(in / f.group);
  return out * in * f.bits / 8 + scales * f.scale_bytes;
}

Precision product_precision(WeightFormat format) {
  return facts(format).products;
}
bool is_unpacked(WeightFormat format) {
  return facts(format).unpacked;
}
bool gpu_has(const GpuType& gpu, WeightFormat format) {
  return gpu.gemm_rate(product_precision(format)) > 0;
}

const char* to_string(CacheFormat format) {
  return cache_names[static_cast<std::size_t>(format)];
}

const std::vector<CacheFormat>& all_cache_formats() {
  static const std::vector<CacheFormat> all = {CacheFormat::f32, CacheFormat::bf16, CacheFormat::fp8,
                                               CacheFormat::int8};
  return all;
}

double cache_bytes(CacheFormat format, double heads, double head_dim) {
  switch (format) {
    case CacheFormat::f32: return 2 * heads * head_dim * 4;
    case CacheFormat::bf16: return 2 * heads * head_dim * 2;
    case CacheFormat::fp8: return 2 * heads * head_dim;
    case CacheFormat::int8: return 2 * heads * (head_dim + 4);
  }
  return 0;
}

bool gpu_has(const GpuType& gpu, CacheFormat format) {
  return format != CacheFormat::fp8 || gpu.peak_fp8 > 0;
}

Result<WeightFormat> parse_weight_format(const std::string& name) {
  return format_named(name, all_weight_formats(), "weights");
}
Result<CacheFormat> parse_cache_format(const std::string& name) {
  return format_named(name, all_cache_formats(), "caches");
}

}  // namespace longhaul
