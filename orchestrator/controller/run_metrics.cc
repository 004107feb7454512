#include "orchestrator/controller/run_metrics.h"

#include "base/files/files.h"
#include "base/toml.h"
#include "orchestrator/render/run/metrics_text.h"
#include "orchestrator/state/status_from_ledger.h"

namespace longhaul {
namespace {

// Reading the events of a long run takes a tenth of a second (docs/benchmarks.md); scrapes are a minute apart.
constexpr std::int64_t metrics_every_ms = 30'000;

}  // namespace

RunMetrics::RunMetrics(const std::string& run_dir, Clock& clock, Logger& log)
    : run_dir_(run_dir), clock_(clock), log_(log) {
  // Its absence is reported by whoever needs more of it than this one key.
  if (const auto site = read_toml_file(join_path(run_dir, "site.toml")); site.ok())
    site_folder_ = site->get_string("metrics_folder");
}

void RunMetrics::look(const FrozenRun& frozen, const RunLedger& ledger) {
  const std::int64_t now = clock_.monotonic_ns();
  if (ledger.ended ? wrote_end_ : next_ns_ != 0 && now < next_ns_) return;
  wrote_end_ = ledger.ended;
  next_ns_ = now + metrics_every_ms * 1'000'000;
  write(frozen, ledger);
}

void RunMetrics::write(const FrozenRun& frozen, const RunLedger& ledger) {
  const std::int64_t now_ms = clock_.wall_ms();
  const auto goodput = read_goodput(run_dir_, frozen, now_ms);
  if (!goodput.ok()) {
    if (last_problem_ != goodput.error().message())
      log_.warn("event=no_metrics error='" + (last_problem_ = goodput.error().message()) + "'");
    return;
  }
  const std::string text = metrics_text(status_from_ledger(run_dir_, frozen, ledger), *goodput, now_ms);
  write_to(join_path(run_dir_, run_metrics_file), text);
  if (!site_folder_.empty()) write_to(join_path(site_folder_, metrics_file_name(frozen.name)), text);
}

void RunMetrics::write_to(const std::string& path, const std::string& text) {
  const Status written = write_file_renamed(path, text);
  if (written.ok() || !not_written_.insert(path).second) return;
  log_.warn("event=metrics_not_written path=" + path + " error='" + written.error().message() + "'");
}

}  // namespace longhaul
