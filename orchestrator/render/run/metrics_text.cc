#include "orchestrator/render/run/metrics_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/error/diagnostics.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

// In the order of metric_families().
enum Family {
  written,
  run_state,
  stage_state,
  steps_done,
  steps_planned,
  loss,
  heldout_loss,
  token_rate,
  mfu,
  queued,
  elapsed,
  effective,
  time_of_class,
  faults,
  lost_steps,
  fault_time,
  last_fault,
  findings,
  unwatched,
  families
};

using LabelValues = std::vector<std::string>;

std::string escaped_label(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

class MetricsWriter {
 public:
  explicit MetricsWriter(const std::string& run) : run_(run), lines_(families) {}

  void add(Family family, const LabelValues& labels, double value) {
    const MetricFamily& described = metric_families()[family];
    LH_ASSERT(labels.size() == described.labels.size(), described.name);
    std::string line = described.name + "{run=\"" + escaped_label(run_) + '"';
    for (std::size_t i = 0; i < labels.size(); ++i)
      line += "," + described.labels[i] + "=\"" + escaped_label(labels[i]) + '"';
    // As Prometheus spells what is no number.
    const std::string number = std::isnan(value)   ? "NaN"
                               : std::isinf(value) ? (value > 0 ? "+Inf" : "-Inf")
                                                   : format("{}", value);
    lines_[family] += line + "} " + number + "\n";
  }
  // Lines of one family stand together, below what it means. A family without a line is left out.
  std::string text() const {
    std::string out;
    for (std::size_t i = 0; i < families; ++i) {
      if (lines_[i].empty()) continue;
      const MetricFamily& family = metric_families()[i];
      out += format("# HELP {0} {1}\n# TYPE {0} {2}\n", family.name, family.help, family.type) + lines_[i];
    }
    return out;
  }

 private:
  std::string run_;
  std::vector<std::string> lines_;  // by family
};

double metric_seconds(std::int64_t ms) {
  return static_cast<double>(ms) * 1e-3;
}

// nullopt: it never was so. A warning names its hosts with commas between.
std::optional<std::size_t> hosts_not_watched(const StageGoodput& stage) {
  std::optional<std::size_t> hosts;
  for (const StageWarning& noticed : stage.warnings) {
    if (noticed.warning.kind != "gpus_not_watched") continue;
    hosts = hosts.value_or(0) + (noticed.over ? 0 : split(noticed.warning.host, ',').size());
  }
  return hosts;
}

void add_faults(MetricsWriter& out, const StageGoodput& stage) {
  std::map<std::pair<std::string, std::string>, int> counts;
  std::map<std::string, std::array<std::int64_t, time_classes>> costs;
  std::int64_t newest_ms = 0;
  for (const FaultCost& cost : stage.ledger.costs()) {
    const std::string fault = cost.fault.empty() ? "unknown" : cost.fault;
    ++counts[{fault, cost.tier}];
    for (std::size_t i = 0; i < cost.ms.size(); ++i) costs[fault][i] += cost.ms[i];
    newest_ms = std::max(newest_ms, cost.at_ms);
  }
  for (const auto& [kind, count] : counts) out.add(faults, {stage.stage, kind.first, kind.second}, count);
  for (const auto& [fault, ms] : costs)
    for (const TimeClass time :
         {TimeClass::detect, TimeClass::stop, TimeClass::start, TimeClass::prepare, TimeClass::load,
          TimeClass::recompute, TimeClass::queue, TimeClass::cores, TimeClass::idle})
      out.add(fault_time, {stage.stage, fault, to_string(time)}, metric_seconds(ms[static_cast<std::size_t>(time)]));
  if (newest_ms > 0) out.add(last_fault, {stage.stage}, metric_seconds(newest_ms));
}

void add_stage(MetricsWriter& out, const StageStatus& stage, std::int64_t now_ms) {
  out.add(stage_state, {stage.id, stage.kind, to_string(stage.state)}, 1);
  if (stage.state == StageState::submitted && stage.submitted_ms > 0)
    out.add(queued, {stage.id}, metric_seconds(std::max<std::int64_t>(0, now_ms - stage.submitted_ms)));
  if (stage.progress_total > 0) {
    out.add(steps_done, {stage.id}, stage.progress_done);
    out.add(steps_planned, {stage.id}, stage.progress_total);
  }
  // Of a stage that has ended its figures: the last point of each curve.
  const auto add = [&](Family family, const std::optional<double>& newest, const char* figure) {
    const Value* ended = stage.figures.is_table() ? stage.figures.find(figure) : nullptr;
    if (newest)
      out.add(family, {stage.id}, *newest);
    else if (is_final(stage.state) && ended && ended->is_number())
      out.add(family, {stage.id}, ended->as_number());
  };
  add(loss, stage.newest_loss, "loss");
  add(heldout_loss, stage.newest_heldout_loss, "heldout_loss");
  add(token_rate, stage.tokens_per_s, "tokens_per_s");
  add(mfu, stage.mfu, "mfu");
}

}  // namespace

const std::vector<MetricFamily>& metric_families() {
  static const std::vector<MetricFamily> all = {
      {"longhaul_metrics_written_timestamp_seconds", "gauge", "when these lines were written, Unix time", {}},
      {"longhaul_run_state", "gauge", "1 for the state that the run is in; the others are not there", {"state"}},
      {"longhaul_stage_state",
       "gauge",
       "1 for the state that the stage is in; the others are not there",
       {"stage", "kind", "state"}},
      {"longhaul_stage_step", "gauge", "newest completed step, or other work done, of a stage that runs", {"stage"}},
      {"longhaul_stage_steps_planned", "gauge", "of all, of a stage that runs", {"stage"}},
      {"longhaul_stage_loss", "gauge", "of the newest step", {"stage"}},
      {"longhaul_stage_heldout_loss", "gauge", "of held-out data, the newest", {"stage"}},
      {"longhaul_stage_tokens_per_second", "gauge", "of all ranks in the newest step", {"stage"}},
      {"longhaul_stage_mfu_ratio",
       "gauge",
       "of the newest step: share of the peak that the site says, 0 to 1",
       {"stage"}},
      {"longhaul_stage_queued_seconds", "gauge", "since a job was submitted that has not started", {"stage"}},
      {"longhaul_training_elapsed_seconds",
       "gauge",
       "from a stage's first submission to its end, or until now",
       {"stage"}},
      {"longhaul_training_effective_ratio",
       "gauge",
       "effective training time: the share of training in all, 0 to 1",
       {"stage"}},
      {"longhaul_training_time_seconds",
       "gauge",
       "where that time went; the classes training, checkpoint_stall, detect, stop, start, prepare, load, recompute, "
       "queue, cores and idle add up to the whole",
       {"stage", "class"}},
      {"longhaul_training_faults_total",
       "counter",
       "faults, by class and by the restart that answered them",
       {"stage", "fault", "tier"}},
      {"longhaul_training_lost_steps_total", "counter", "steps that were done again after faults", {"stage"}},
      {"longhaul_training_fault_time_seconds",
       "gauge",
       "what the faults of a class have cost, by class of time",
       {"stage", "fault", "class"}},
      {"longhaul_training_last_fault_timestamp_seconds",
       "gauge",
       "when the newest fault happened, Unix time",
       {"stage"}},
      {"longhaul_host_findings_total",
       "counter",
       "what was found wrong with a host (event `health`), by class and device; one that stays is counted once",
       {"stage", "host", "class", "severity", "device"}},
      {"longhaul_hosts_gpus_not_watched",
       "gauge",
       "hosts of a stage on which the checks see fewer GPUs than its job has (event `gpus_not_watched`)",
       {"stage"}},
  };
  return all;
}

std::string metrics_text(const RunStatus& status, const std::vector<StageGoodput>& stages, std::int64_t now_ms) {
  MetricsWriter out(status.name);
  out.add(written, {}, metric_seconds(now_ms));
  if (status.created_ms > 0) out.add(run_state, {to_string(status.state)}, 1);
  for (const StageStatus& stage : status.stages) add_stage(out, stage, now_ms);
  for (const StageGoodput& stage : stages) {
    for (const HostWarning& host : stage.hosts)
      out.add(findings, {stage.stage, host.host, host.fault_class, host.severity, host.device}, host.times);
    if (const auto hosts = hosts_not_watched(stage)) out.add(unwatched, {stage.stage}, static_cast<double>(*hosts));
    const GoodputLedger& ledger = stage.ledger;
    out.add(elapsed, {stage.stage}, metric_seconds(ledger.total_ms()));
    out.add(effective, {stage.stage}, ledger.effective());
    for (int time = 0; time < time_classes; ++time)
      out.add(time_of_class, {stage.stage, to_string(static_cast<TimeClass>(time))},
              metric_seconds(ledger.ms(static_cast<TimeClass>(time))));
    out.add(lost_steps, {stage.stage}, static_cast<double>(ledger.lost_steps()));
    add_faults(out, stage);
  }
  return out.text();
}

std::string metrics_file_name(const std::string& run) {
  std::string name = run;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' && c != '.') c = '_';
  return "longhaul-" + name + ".prom";
}

}  // namespace longhaul
