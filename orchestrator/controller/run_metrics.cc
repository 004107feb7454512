#include "orchestrator/controller/run_metrics.h"

#include "base/files/files.h"
#include "base/toml.h"
#include "orchestrator/render/run/metrics_text.h"

namespace longhaul {
namespace {

// Reading the events of a long run takes a tenth of a second (docs/benchmarks.md); scrapes are a minute apart.
constexpr std::int64_t metrics_every_ms = 30'000;

}  // namespace

RunMetrics::RunMetrics(const std::string& run_dir, std::string run, Clock& clock, Logger& log)
    : run_dir_(run_dir), run_(std::move(run)), clock_(clock), log_(log) {
  // Its absence is reported by whoever needs more of it than this one key.
  if (const auto site = read_toml_file(join_path(run_dir, "site.toml")); site.ok())
    site_folder_ = site->get_string("metrics_folder");
}

void RunMetrics::look(bool ended) {
  const std::int64_t now = clock_.monotonic_ns();
  if (ended ? wrote_end_ : next_ns_ != 0 && now < next_ns_) return;
  wrote_end_ = ended;
  next_ns_ = now + metrics_every_ms * 1'000'000;
  write();
}

void RunMetrics::write() {
  const std::int64_t now_ms = clock_.wall_ms();
  const auto goodput = read_goodput(run_dir_, now_ms);
  if (!goodput.ok()) {
    if (last_problem_ != goodput.error().message())
      log_.warn("event=no_metrics error='" + (last_problem_ = goodput.error().message()) + "'");
    return;
  }
  auto status = read_run_status(run_dir_);
  if (!status.ok()) {  // the time of its trainings is printed all the same
    log_.debug("event=no_state_in_metrics error='" + status.error().message() + "'");
    status = RunStatus();
    status->name = run_;
  }
  const std::string text = metrics_text(*status, *goodput, now_ms);
  write_to(join_path(run_dir_, run_metrics_file), text);
  if (!site_folder_.empty()) write_to(join_path(site_folder_, metrics_file_name(run_)), text);
}

void RunMetrics::write_to(const std::string& path, const std::string& text) {
  const Status written = write_file_renamed(path, text);
  if (written.ok() || !not_written_.insert(path).second) return;
  log_.warn("event=metrics_not_written path=" + path + " error='" + written.error().message() + "'");
}

}  // namespace longhaul
