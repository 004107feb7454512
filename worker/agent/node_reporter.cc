#include "worker/agent/node_reporter.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t report_at_least_every_ms = 500;
constexpr std::int64_t measure_every_ms = 10'000;  // its own memory

double own_cpu_s() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

std::int64_t own_rss_kib() {
  const auto statm = read_file("/proc/self/statm");
  if (!statm.ok()) return 0;
  const std::vector<std::string> fields = split(*statm, ' ');
  return fields.size() < 2 ? 0 : std::atoll(fields[1].c_str()) * (::sysconf(_SC_PAGESIZE) / 1024);
}

}  // namespace

void NodeReporter::not_injected(const std::string& id, const std::string& why) {
  fault_problems_.push_back({id, why});
  hurry();
}

bool NodeReporter::is_new(const NodeState& now, std::int64_t health, bool exchanged) const {
  return now.ranks != reported_ || now.orders_done != done_reported_ || health != reported_health_ ||
         exchanged != reported_exchanged_;
}

void NodeReporter::measure(std::int64_t now_ns) {
  if (rss_kib_ != 0 && now_ns - measured_ns_ <= measure_every_ms * 1'000'000) return;
  rss_kib_ = own_rss_kib(), measured_ns_ = now_ns;
}

std::optional<NodeReport> NodeReporter::report(NodeState now) {
  const std::int64_t now_ns = clock_.monotonic_ns();
  const std::int64_t health = now.health.looks + (now.health.notes.empty() ? 0 : now.health.notes.back().serial);
  const bool exchanged = now.exchange && now.exchange->done();
  if (!is_new(now, health, exchanged) && reported_ns_ > 0 &&
      now_ns - reported_ns_ < report_at_least_every_ms * 1'000'000)
    return std::nullopt;
  measure(now_ns);
  NodeReport report{host_, now.launch, now.ranks, own_cpu_s(), rss_kib_, now.standby_port, now.orders_done, now.health};
  report.fault_problems = fault_problems_;
  if (now.exchange)
    report.exchange_port = now.exchange->port(), report.exchange_done = exchanged,
    report.exchanged = now.exchange->figures();
  reported_exchanged_ = exchanged, reported_health_ = health;
  reported_ = std::move(now.ranks), done_reported_ = std::move(now.orders_done), reported_ns_ = now_ns;
  return report;
}

}  // namespace longhaul
