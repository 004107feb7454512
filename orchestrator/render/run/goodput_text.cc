#include "orchestrator/render/run/goodput_text.h"

#include <algorithm>

#include "base/system/clock.h"
#include "base/text/text.h"
#include "orchestrator/render/draw/html_table.h"
#include "orchestrator/render/draw/text_table.h"

namespace longhaul {
namespace {

constexpr std::size_t html_faults_max = 500;

double class_seconds(std::int64_t ms) {
  return static_cast<double>(ms) * 1e-3;
}
double seconds_of(const FaultCost& cost, TimeClass time) {
  return class_seconds(cost.ms[static_cast<std::size_t>(time)]);
}

const std::vector<std::string>& fault_columns() {
  static const std::vector<std::string> columns = {"fault", "tier", "at",        "step",       "detect", "stop",
                                                   "start", "load", "recompute", "lost steps", "total"};
  return columns;
}

std::vector<std::string> fault_row(const FaultCost& cost) {
  std::vector<std::string> row = {cost.fault.empty() ? "unknown" : cost.fault, cost.tier, utc_text(cost.at_ms),
                                  std::to_string(cost.step)};
  for (const TimeClass time :
       {TimeClass::detect, TimeClass::stop, TimeClass::start, TimeClass::load, TimeClass::recompute})
    row.push_back(format("{:.1f} s", seconds_of(cost, time)));
  row.push_back(std::to_string(cost.lost_steps));
  row.push_back(format("{:.1f} s", class_seconds(cost.total_ms())));
  return row;
}

// The newest `most` of them, newest last.
std::vector<std::vector<std::string>> fault_rows(const GoodputLedger& ledger, std::size_t most) {
  std::vector<std::vector<std::string>> rows;
  const auto& costs = ledger.costs();
  for (std::size_t i = costs.size() > most ? costs.size() - most : 0; i < costs.size(); ++i)
    rows.push_back(fault_row(costs[i]));
  return rows;
}

// One that stands, and spikes that are over, look the same on a page of weeks; so it is said.
std::string standing_of(const StageWarning& noticed) {
  if (noticed.over) return "over";
  const std::string& kind = noticed.warning.kind;
  for (const char* lasts : {"straggler", "loss_spike", "agent_lost", "ranks_stay", "gpus_not_watched", "no_agents"})
    if (kind == lasts) return "now";
  return "";
}
std::vector<std::string> warning_row(const StageWarning& noticed) {
  const WarningEvent& warning = noticed.warning;
  std::string whom = warning.rank < 0 ? "" : format("rank {}", warning.rank);
  if (!warning.host.empty()) whom += (whom.empty() ? "" : " on ") + warning.host;
  return {warning.kind, standing_of(noticed), utc_text(noticed.at_ms), whom, warning.text};
}
const std::vector<std::string>& warning_columns() {
  static const std::vector<std::string> columns = {"noticed", "", "at", "whom", "what"};
  return columns;
}
std::vector<std::vector<std::string>> warning_rows(const StageGoodput& stage, std::size_t most) {
  std::vector<std::vector<std::string>> rows;
  const auto& all = stage.warnings;
  for (std::size_t i = all.size() > most ? all.size() - most : 0; i < all.size(); ++i)
    rows.push_back(warning_row(all[i]));
  return rows;
}

const std::vector<std::string>& host_columns() {
  static const std::vector<std::string> columns = {"host", "found", "severity", "times", "last", "what"};
  return columns;
}
std::vector<std::string> host_row(const HostWarning& warning) {
  const std::string what = warning.device.empty() ? warning.what : warning.device + ": " + warning.what;
  return {warning.host, warning.fault_class, warning.severity, std::to_string(warning.times), utc_text(warning.last_ms),
          what};
}
std::vector<std::vector<std::string>> host_rows(const StageGoodput& stage, std::size_t most) {
  std::vector<std::vector<std::string>> rows;
  const auto& all = stage.hosts;
  for (std::size_t i = all.size() > most ? all.size() - most : 0; i < all.size(); ++i) rows.push_back(host_row(all[i]));
  return rows;
}

// Lines below a stage's heading; "" for no rows.
std::string table_below(std::vector<std::vector<std::string>> rows, const std::vector<std::string>& columns,
                        std::size_t all) {
  if (rows.empty()) return {};
  const std::size_t shown = rows.size();
  rows.insert(rows.begin(), columns);
  std::string text;
  for (const std::string& line : split(trim(text_table(rows)), '\n')) text += "  " + line + "\n";
  if (all > shown) text += format("  and {} before; longhaul report has all\n", all - shown);
  return text;
}

std::string table_html(std::vector<std::vector<std::string>> rows, const std::vector<std::string>& columns) {
  if (rows.empty()) return {};
  rows.insert(rows.begin(), columns);
  return html_table(rows);
}

std::string heading_of(const StageGoodput& stage) {
  const GoodputLedger& ledger = stage.ledger;
  std::string text = format("effective training time {:.1f} % of {}", 100 * ledger.effective(),
                            human_duration(class_seconds(ledger.total_ms())));
  if (ledger.faults() > 0)
    text +=
        format(", {} fault{}, {} steps lost", ledger.faults(), ledger.faults() == 1 ? "" : "s", ledger.lost_steps());
  return text;
}

// What jobs held after their last rank; "" where none was measured.
std::string held_text(const StageGoodput& stage) {
  const HeldAllocations& held = stage.held;
  if (held.jobs == 0) return {};
  return format("allocations held after their last rank: {:.1f} s in {} job{}, the longest {:.1f} s; {:.2f} GPU-hours",
                held.held_s, held.jobs, held.jobs == 1 ? "" : "s", held.longest_s, held.gpu_minutes / 60);
}

}  // namespace

std::string time_shares_text(const GoodputLedger& ledger) {
  std::vector<TimeClass> order;
  for (int time = 0; time < time_classes; ++time) order.push_back(static_cast<TimeClass>(time));
  std::stable_sort(order.begin(), order.end(), [&](TimeClass a, TimeClass b) { return ledger.ms(a) > ledger.ms(b); });
  std::vector<std::string> parts;
  for (const TimeClass time : order)
    if (ledger.share(time) >= 5e-4)
      parts.push_back(format("{} {:.1f} %", replace_all(to_string(time), "_", " "), 100 * ledger.share(time)));
  return join(parts, ", ");
}

std::string goodput_text(const std::vector<StageGoodput>& stages, std::size_t faults_max) {
  std::string text;
  for (const StageGoodput& stage : stages) {
    text += "\n" + stage.stage + ": " + heading_of(stage) + "\n  " + time_shares_text(stage.ledger) + "\n";
    if (const std::string held = held_text(stage); !held.empty()) text += "  " + held + "\n";
    text += table_below(fault_rows(stage.ledger, faults_max), fault_columns(), stage.ledger.costs().size());
    text += table_below(warning_rows(stage, faults_max), warning_columns(), stage.warnings.size());
    text += table_below(host_rows(stage, faults_max), host_columns(), stage.hosts.size());
  }
  return text;
}

Value goodput_value(const std::vector<StageGoodput>& stages) {
  Value list = Value::make_array();
  for (const StageGoodput& stage : stages) {
    Value entry = Value::make_table();
    entry.set("stage", stage.stage);
    entry.set("effective", stage.ledger.effective());
    entry.set("total_s", class_seconds(stage.ledger.total_ms()));
    Value& classes = entry.set("classes_s", Value::make_table());
    for (int time = 0; time < time_classes; ++time)
      classes.set(to_string(static_cast<TimeClass>(time)),
                  class_seconds(stage.ledger.ms(static_cast<TimeClass>(time))));
    if (stage.held.jobs > 0) {
      Value& held = entry.set("held", Value::make_table());
      held.set("jobs", stage.held.jobs);
      held.set("held_s", stage.held.held_s);
      held.set("longest_s", stage.held.longest_s);
      held.set("gpu_minutes", stage.held.gpu_minutes);
    }
    entry.set("lost_steps", static_cast<long long>(stage.ledger.lost_steps()));
    Value& faults = entry.set("faults", Value::make_array());
    for (const FaultCost& cost : stage.ledger.costs()) {
      Value fault = Value::make_table();
      fault.set("fault", cost.fault);
      fault.set("tier", cost.tier);
      fault.set("at_ms", static_cast<long long>(cost.at_ms));
      fault.set("step", static_cast<long long>(cost.step));
      fault.set("lost_steps", static_cast<long long>(cost.lost_steps));
      for (const TimeClass time :
           {TimeClass::detect, TimeClass::stop, TimeClass::start, TimeClass::prepare, TimeClass::load,
            TimeClass::recompute, TimeClass::queue, TimeClass::cores, TimeClass::idle})
        fault.set(std::string(to_string(time)) + "_s", seconds_of(cost, time));
      fault.set("total_s", class_seconds(cost.total_ms()));
      faults.push_back(std::move(fault));
    }
    Value& warnings = entry.set("warnings", Value::make_array());
    for (const StageWarning& noticed : stage.warnings) {
      Value warning = to_value(noticed.warning);
      warning.set("kind", noticed.warning.kind);
      warning.set("at_ms", static_cast<long long>(noticed.at_ms));
      warning.set("attempt", noticed.attempt);
      warning.set("over", noticed.over);
      warnings.push_back(std::move(warning));
    }
    Value& hosts = entry.set("hosts", Value::make_array());
    for (const HostWarning& warning : stage.hosts) {
      Value host = Value::make_table();
      host.set("host", warning.host);
      host.set("class", warning.fault_class);
      host.set("device", warning.device);
      host.set("severity", warning.severity);
      host.set("what", warning.what);
      host.set("times", warning.times);
      host.set("first_ms", static_cast<long long>(warning.first_ms));
      host.set("last_ms", static_cast<long long>(warning.last_ms));
      hosts.push_back(std::move(host));
    }
    list.push_back(std::move(entry));
  }
  return list;
}

std::string goodput_html(const std::vector<StageGoodput>& stages) {
  std::string html;
  for (const StageGoodput& stage : stages) {
    html += "<h3>" + html_text(stage.stage) + "</h3><p>" + html_text(heading_of(stage)) + "<br>" +
            html_text(time_shares_text(stage.ledger)) +
            (stage.held.jobs > 0 ? "<br>" + html_text(held_text(stage)) : "") + "</p>";
    html += table_html(fault_rows(stage.ledger, html_faults_max), fault_columns()) +
            table_html(warning_rows(stage, html_faults_max), warning_columns()) +
            table_html(host_rows(stage, html_faults_max), host_columns());
  }
  return html.empty() ? "" : "<h2>Where the time went</h2>" + html;
}

}  // namespace longhaul
