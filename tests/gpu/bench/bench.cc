#include "tests/gpu/bench/bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/files/files.h"
#include "base/value/json.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul::gpu_bench {

Bench::Bench(Gpu& gpu) : gpu_(gpu), context_(gpu.device(), gpu.ops()) {
  account_.device = &gpu.device();
}

Tensor Bench::filled(DType dtype, std::int64_t size) {
  Tensor made = tensor(dtype, size);
  fill(context_, made.view(), 0.015625F);
  return made;
}

double Bench::seconds_of(const std::function<void()>& operation) {
  const auto batch = [&](int calls) {
    gpu_.device().finish();
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) operation();
    gpu_.device().finish();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  };
  batch(2);
  const int calls = static_cast<int>(std::clamp(0.01 / std::max(batch(1), 1e-7), 1.0, 1000.0));
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) times.push_back(batch(calls) / calls);
  std::nth_element(times.begin(), times.begin() + 3, times.end());
  return times[3];
}

void Bench::measure(const std::string& name, double bytes, double flops, double bar, const std::function<void()>& f) {
  entries.push_back({name, seconds_of(f), bytes, flops, bar});
}

void Bench::find_ceilings(std::int64_t bytes, std::int64_t n) {
  Tensor from = filled(DType::f32, bytes / 4), to = tensor(DType::f32, bytes / 4);
  const double copied = seconds_of([&] { gpu_.device().copy(from.view().data(), to.view().data(), bytes); });
  ceilings.bytes_per_s = 2.0 * static_cast<double>(bytes) / copied;
  Tensor a = filled(DType::bf16, n * n), b = filled(DType::bf16, n * n), c = tensor(DType::bf16, n * n);
  const LinearShape shape{n, n, n};
  const double d = static_cast<double>(n);
  ceilings.flops = gemm_flops(d, d, d) / seconds_of([&] { linear_forward(context_, shape, a, b, c); });
}

int print_report(const Bench& bench, const std::string& device, const std::string& json) {
  std::printf("%s: copy %.0f GB/s, product %.0f TFLOP/s (bf16)\n", device.c_str(), 1e-9 * bench.ceilings.bytes_per_s,
              1e-12 * bench.ceilings.flops);
  std::printf("%-52s %10s %10s %8s %6s\n", "", "us", "rate", "share", "bar");
  Value all = Value::make_array();
  int missed = 0;
  for (const BenchEntry& e : bench.entries) {
    const double share = e.share(bench.ceilings);
    const bool flops = e.bound_by_flops(bench.ceilings), low = e.bar > 0 && share < e.bar;
    missed += low;
    std::printf("%-52s %10.1f %7.0f %s %7.1f%% %5.0f%% %s\n", e.name.c_str(), 1e6 * e.seconds,
                (flops ? 1e-12 * e.flops : 1e-9 * e.bytes) / e.seconds, flops ? "TF" : "GB", 100 * share, 100 * e.bar,
                low ? "MISSED" : "");
    Value one = Value::make_table();
    one.set("name", e.name), one.set("seconds", e.seconds), one.set("bytes", e.bytes), one.set("flops", e.flops);
    one.set("share", share), one.set("bar", e.bar), one.set("missed", low);
    all.push_back(std::move(one));
  }
  if (json.empty()) return missed > 0 ? 1 : 0;
  Value table = Value::make_table();
  table.set("device", device), table.set("copy_bytes_per_s", bench.ceilings.bytes_per_s);
  table.set("product_flops", bench.ceilings.flops), table.set("entries", std::move(all));
  if (const Status written = write_file_atomic(json, to_json(table) + "\n"); !written.ok()) {
    std::fprintf(stderr, "%s\n", written.error().message().c_str());
    return 2;
  }
  return missed > 0 ? 1 : 0;
}

}  // namespace longhaul::gpu_bench
