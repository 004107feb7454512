// Times products, memory and messages, on all ranks at the same time: alone on its node a rank would have caches and
// memory to itself that it shares in a training.
#include <algorithm>
#include <cmath>
#include <functional>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/records/benchmark_result.h"
#include "contracts/settings/stages/benchmark.h"
#include "engine/comm/communicator.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/tasks/stages/stages.h"

namespace longhaul {
namespace {

constexpr int repeats_min = 5, repeats_max = 2000;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Numbers between -0.5 and 0.5 that no processor takes a short cut with.
Tensor filled_tensor(const ComputeContext& compute, DType dtype, std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  std::uint32_t state = 12345;
  for (float& value : values) {
    state = state * 1664525 + 1013904223;
    value = static_cast<float>(state >> 8) * 0x1p-24F - 0.5F;
  }
  Tensor tensor(dtype, {n});
  cast(compute, std::span<const float>(values), tensor);
  return tensor;
}

class StageBenchmark {
 public:
  StageBenchmark(TaskRun& run, const BenchmarkSettings& settings)
      : run_(run), settings_(settings), ranks_(run.group.communicator()) {
    found_.ranks = run.group.size();
  }

  Status measure() {
    for (const std::string& precision : settings_.precisions)
      for (const std::string& product : settings_.products) LH_CHECK(time_product(precision, product));
    for (const std::int64_t bytes : settings_.streams) LH_CHECK(time_stream(bytes));
    if (ranks_ != nullptr)
      for (const std::int64_t bytes : settings_.messages) LH_CHECK(time_messages(bytes));
    return {};
  }

  const BenchmarkResults& found() const { return found_; }

 private:
  using Once = std::function<Status()>;

  std::size_t cases() const {
    return settings_.precisions.size() * settings_.products.size() + settings_.streams.size() +
           (ranks_ != nullptr ? 3 * settings_.messages.size() : 0);
  }

  Result<double> once_seconds(const Once& once) const {
    const std::int64_t begin = run_.clock.monotonic_ns();
    LH_CHECK(once());
    return static_cast<double>(run_.clock.monotonic_ns() - begin) * 1e-9;
  }

  Result<double> largest(double value) const {
    auto most = static_cast<float>(value);
    if (ranks_ != nullptr) LH_CHECK(ranks_->wait(ranks_->all_reduce_max(std::span<float>(&most, 1))));
    return most;
  }

  // All ranks repeat it as often: as long as the slowest needs for `seconds`.
  Status time(BenchmarkResult result, const Once& once) {
    if (run_.stop.load(std::memory_order_relaxed))
      return make_error(ErrorCode::aborted, "the benchmark was asked to stop");
    LH_CHECK(run_.group.barrier());
    double shortest = 0;
    for (int i = 0; i < 3; ++i) {
      LH_TRY(const double seconds, once_seconds(once));
      shortest = i == 0 ? seconds : std::min(shortest, seconds);
    }
    LH_TRY(shortest, largest(shortest));
    const double wanted = settings_.seconds / std::max(shortest, 1e-9);
    result.repeats = static_cast<int>(std::clamp<double>(wanted, repeats_min, repeats_max));
    std::vector<double> times;
    LH_CHECK(run_.group.barrier());
    for (int i = 0; i < result.repeats; ++i) {
      LH_TRY(const double seconds, once_seconds(once));
      times.push_back(seconds);
    }
    LH_TRY(result.seconds, largest(median(times)));
    if (!(result.seconds > 0) || !std::isfinite(result.seconds))
      return make_error(ErrorCode::internal, result.name() + " took no time");
    found_.results.push_back(std::move(result));
    run_.events.progress(static_cast<double>(found_.results.size()), static_cast<double>(cases()), "timings");
    return {};
  }

  Status time_product(const std::string& precision, const std::string& product) {
    LH_TRY(const ProductSize size, product_size_of(product));
    const DType dtype = precision == "bf16" ? DType::bf16 : DType::f32;
    const Tensor a = filled_tensor(run_.compute, dtype, size.m * size.k),
                 b = filled_tensor(run_.compute, dtype, size.k * size.n);
    Tensor c(dtype, {size.m * size.n});
    BenchmarkResult result;
    result.what = "product", result.precision = precision;
    result.m = size.m, result.n = size.n, result.k = size.k;
    return time(result, [&]() -> Status {  // the weight lies as [out, in], as in every layer
      gemm(run_.compute, {.m = size.m, .n = size.n, .k = size.k, .transpose_b = true}, a, b, c);
      return {};
    });
  }

  // y += x over two arrays of a third of the bytes each: two are read, one is written.
  Status time_stream(std::int64_t bytes) {
    const std::int64_t n = std::max<std::int64_t>(1, bytes / 12);
    const Tensor x = filled_tensor(run_.compute, DType::f32, n);
    Tensor y = filled_tensor(run_.compute, DType::f32, n);
    BenchmarkResult result;
    result.what = "stream", result.bytes = 12 * n;
    return time(result, [&]() -> Status {
      axpy(run_.compute, 1e-9F, x.span<float>(), y.span<float>());
      return {};
    });
  }

  Status time_messages(std::int64_t bytes) {
    const auto ranks = static_cast<std::int64_t>(run_.group.size());
    const std::int64_t n = (bytes / 4 + ranks - 1) / ranks * ranks;  // numbers, a share for each rank
    std::vector<float> mine(static_cast<std::size_t>(n), 0.0F), all(static_cast<std::size_t>(n), 0.0F);
    BenchmarkResult result;
    result.bytes = 4 * n;
    result.what = "all_reduce";
    LH_CHECK(time(result, [&] { return ranks_->wait(ranks_->all_reduce_sum(mine)); }));
    result.what = "all_gather";
    const std::span<const float> share(mine.data(), static_cast<std::size_t>(n / ranks));
    LH_CHECK(time(result, [&] {
      return ranks_->wait(ranks_->all_gather(as_const_bytes(share), std::as_writable_bytes(std::span<float>(all))));
    }));
    result.what = "send";  // there and back between the first and the last rank; half of it is a message
    LH_CHECK(time(result, [&] { return there_and_back(mine, all); }));
    found_.results.back().seconds /= 2;
    return {};
  }

  Status there_and_back(std::vector<float>& give, std::vector<float>& take) {
    const int last = run_.group.size() - 1, me = run_.group.rank();
    const auto in = std::as_writable_bytes(std::span<float>(take));
    const auto out = as_const_bytes(std::span<const float>(give));
    if (me == 0) {
      LH_CHECK(ranks_->wait(ranks_->send(out, last)));
      return ranks_->wait(ranks_->recv(in, last));
    }
    if (me != last) return {};
    LH_CHECK(ranks_->wait(ranks_->recv(in, 0)));
    return ranks_->wait(ranks_->send(out, 0));
  }

  TaskRun& run_;
  const BenchmarkSettings& settings_;
  Communicator* ranks_;
  BenchmarkResults found_;
};

// The best rates, for people.
std::vector<Figure> figures_of(const BenchmarkResults& found) {
  double product = 0, stream = 0, reduce = 0;
  for (const BenchmarkResult& one : found.results) {
    const double work = one.what == "product" ? 2e-9 * static_cast<double>(one.m * one.n) * static_cast<double>(one.k)
                                              : 1e-9 * static_cast<double>(one.bytes);
    double& best = one.what == "product" ? product : one.what == "stream" ? stream : reduce;
    if (one.what != "all_gather" && one.what != "send") best = std::max(best, work / one.seconds);
  }
  std::vector<Figure> figures;
  if (product > 0) figures.push_back({"product_gflops", product, "GFLOP/s"});
  if (stream > 0) figures.push_back({"stream_gbyte", stream, "GB/s"});
  if (reduce > 0) figures.push_back({"all_reduce_gbyte", reduce, "GB/s"});
  return figures;
}

}  // namespace

Status run_benchmark(TaskRun& run) {
  LH_TRY(const BenchmarkSettings settings, run.settings(benchmark_fields()));
  LH_CHECK(check_benchmark(settings));
  run.section("benchmark");
  StageBenchmark benchmark(run, settings);
  LH_CHECK(benchmark.measure());
  if (run.is_first())
    LH_CHECK(write_file_atomic(join_path(run.launch.output_dir, benchmark_file_name),
                               to_json_pretty(benchmark_to_value(benchmark.found()))));
  return write_figures(run, figures_of(benchmark.found()));
}

}  // namespace longhaul
