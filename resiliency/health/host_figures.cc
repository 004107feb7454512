#include "resiliency/health/host_figures.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/text/text.h"

namespace longhaul {
namespace {

using FigureClock = std::chrono::steady_clock;

double seconds_from(FigureClock::time_point began) {
  return std::chrono::duration<double>(FigureClock::now() - began).count();
}

// c += a b, all n x n, rows of c in the innermost loop: plain enough for a compiler to use a vector unit.
void multiply(const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < n; ++k) {
      const float factor = a[i * n + k];
      const float* from = &b[k * n];
      float* to = &c[i * n];
      for (std::size_t j = 0; j < n; ++j) to[j] += factor * from[j];
    }
}

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  const std::size_t n = numbers.size();
  return n % 2 ? numbers[n / 2] : (numbers[n / 2 - 1] + numbers[n / 2]) / 2;
}

// "" where the host's figure is no worse than the others'.
std::string slow_in(double figure, const std::vector<double>& all, double floor, const char* unit) {
  if (all.size() < 3) return {};
  const double middle = median(all);
  std::vector<double> off;
  for (const double other : all) off.push_back(std::abs(other - middle));
  if (figure >= floor * middle || middle - figure <= 3 * 1.4826 * median(off)) return {};
  return format("{:.1f} {}, {:.0f} % of the median of {} hosts", figure, unit, 100 * figure / middle, all.size());
}

}  // namespace

HostFigures measure_host(int ms) {
  HostFigures figures;
  constexpr std::size_t n = 192;                         // three matrices in a cache of 512 KiB
  constexpr std::size_t copied = std::size_t{32} << 20;  // beyond most caches
  std::vector<float> a(n * n, 1.0F), b(n * n, 0.5F), c(n * n, 0.0F);
  const double half_s = ms * 0.5e-3;
  for (const auto began = FigureClock::now(); figures.gflops == 0 || seconds_from(began) < half_s;) {
    const auto round = FigureClock::now();
    multiply(a, b, c, n);
    a[0] = c[n * n - 1] > 1e30F ? 0.0F : 1.0F;  // the result is used
    figures.gflops = std::max(figures.gflops, 2e-9 * n * n * n / seconds_from(round));
  }
  std::vector<char> from(copied, 1), to(copied, 2);
  for (const auto began = FigureClock::now(); figures.gb_per_s == 0 || seconds_from(began) < half_s;) {
    const auto round = FigureClock::now();
    std::memcpy(to.data(), from.data(), copied);
    from[0] = static_cast<char>(to[copied - 1] + 1);
    figures.gb_per_s = std::max(figures.gb_per_s, 2e-9 * static_cast<double>(copied) / seconds_from(round));
  }
  return figures;
}

Value to_value(const HostFigures& figures) {
  Value value = Value::make_table();
  value.set("gflops", figures.gflops);
  value.set("gb_per_s", figures.gb_per_s);
  if (figures.network_mb_per_s) value.set("network_mb_per_s", *figures.network_mb_per_s);
  return value;
}

HostFigures host_figures_from_value(const Value& value) {
  HostFigures figures{value.get_number("gflops"), value.get_number("gb_per_s")};
  if (value.find("network_mb_per_s")) figures.network_mb_per_s = value.get_number("network_mb_per_s");
  return figures;
}

std::map<std::string, HealthFinding> slow_hosts(const std::map<std::string, HostFigures>& fleet, double floor) {
  std::vector<double> gflops, gb_per_s, network;
  for (const auto& [host, figures] : fleet) {
    if (figures.measured()) gflops.push_back(figures.gflops), gb_per_s.push_back(figures.gb_per_s);
    if (figures.network_mb_per_s) network.push_back(*figures.network_mb_per_s);
  }
  std::map<std::string, HealthFinding> slow;
  for (const auto& [host, figures] : fleet) {
    std::vector<std::string> parts;
    const auto judge = [&](double figure, const std::vector<double>& all, const char* unit) {
      if (std::string part = slow_in(figure, all, floor, unit); !part.empty()) parts.push_back(std::move(part));
    };
    if (figures.measured()) {
      judge(figures.gflops, gflops, "GFLOP/s");
      judge(figures.gb_per_s, gb_per_s, "GB/s of memory");
    }
    if (figures.network_mb_per_s) judge(*figures.network_mb_per_s, network, "MB/s of network");
    if (!parts.empty()) slow[host] = health_finding("preflight", FaultClass::slow_host, "", join(parts, "; "));
  }
  return slow;
}

}  // namespace longhaul
