#include "orchestrator/render/plan/simulation_text.h"

#include "base/text/text.h"
#include "orchestrator/render/draw/html_table.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/render/report/report.h"
#include "orchestrator/render/report/svg.h"

namespace longhaul {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string percent(double share) {
  return format("{:.2f} %", 100 * share);
}
std::string with_bounds(const Estimate& estimate, double factor, const char* unit) {
  return format("{:.2f} +- {:.2f}{}", factor * estimate.mean, factor * estimate.half_width, unit);
}

Rows class_rows(const Study& study) {
  Rows rows = {{"class", "share", "95 % bounds"}};
  for (int time = 0; time < time_classes; ++time) {
    const Estimate& share = study.shares[static_cast<std::size_t>(time)];
    if (share.mean < 5e-6) continue;
    rows.push_back(
        {replace_all(to_string(static_cast<TimeClass>(time)), "_", " "), percent(share.mean),
         format("{:.3f} to {:.3f}", 100 * (share.mean - share.half_width), 100 * (share.mean + share.half_width))});
  }
  return rows;
}

Rows variant_rows(const std::string& what, const std::vector<Variant>& variants) {
  Rows rows = {{what, "effective", "difference to the scenario"}};
  for (const Variant& variant : variants)
    rows.push_back(
        {format("{:g}", variant.value), with_bounds(variant.effective, 100, " %"),
         format("{:+.3f} +- {:.3f} points", 100 * variant.difference.mean, 100 * variant.difference.half_width)});
  return rows;
}

Rows expectation_rows(const Study& study) {
  Rows rows = {{"expected", "figure", "value", "simulated", "", "source"}};
  for (const ExpectationResult& result : study.expectations) {
    const SimExpectation& e = result.expected;
    rows.push_back({e.name, e.figure,
                    e.at_least ? format("at least {:g} %", e.percent) : format("{:g} +- {:g} %", e.percent, e.within),
                    with_bounds(result.simulated, 1, " %"), result.met ? "met" : "NOT MET", e.source});
  }
  return rows;
}

std::string tiers_text(const Study& study) {
  std::vector<std::string> parts;
  for (int tier = 0; tier < restart_tiers; ++tier)
    if (const double times = study.tiers[static_cast<std::size_t>(tier)]; times > 0)
      parts.push_back(format("{} {:.1f}", to_string(static_cast<RestartTier>(tier)), times));
  return parts.empty() ? "none" : join(parts, ", ");
}

Rows summary_rows(const Study& study) {
  return {{"effective training time", with_bounds(study.effective, 100, " %") +
                                          format(" (95 % of the mean; nine trials of ten: {:.2f} to {:.2f} %)",
                                                 100 * study.effective.low, 100 * study.effective.high)},
          {"simulated", format("{} on {} hosts, {} trials, seed {}", human_duration(study.length_s), study.hosts,
                               study.trials, study.seed)},
          {"faults",
           format("{:.1f} a trial, one in {}", study.faults.mean, human_duration(study.mtbf_s)) +
               (study.standstills.mean > 0 ? format("; {:.1f} of them passed by themselves", study.standstills.mean)
                                           : std::string())},
          {"restarts a trial", tiers_text(study)},
          {"hosts left a trial", format("{:.1f}", study.hosts_left.mean)},
          {"steps lost a trial", format("{:.0f}", study.lost_steps.mean)},
          {"interval of saves", format("{:.1f} s chosen; Young {:.1f} s, Daly {:.1f} s", study.interval_s.mean,
                                       study.young_interval_s, study.daly_interval_s)}};
}

std::string assumed_text(const Study& study) {
  if (study.assumed.empty()) return "every latency is measured\n";
  return format("assumed, not measured ({}): {}\n", study.assumed.size(), join(study.assumed, ", "));
}

Value estimate_value(const Estimate& estimate) {
  Value value = Value::make_table();
  value.set("mean", estimate.mean);
  value.set("half_width_95", estimate.half_width);
  value.set("low_5", estimate.low);
  value.set("high_95", estimate.high);
  return value;
}

Value variants_value(const std::vector<Variant>& variants) {
  Value list = Value::make_array();
  for (const Variant& variant : variants) {
    Value entry = Value::make_table();
    entry.set("value", variant.value);
    entry.set("effective", estimate_value(variant.effective));
    entry.set("difference", estimate_value(variant.difference));
    list.push_back(std::move(entry));
  }
  return list;
}

// Mean and both bounds as three lines.
std::string variants_chart(const std::string& title, const std::vector<Variant>& variants) {
  Curve mean{"mean", {}}, low{"5 % of trials", {}}, high{"95 % of trials", {}};
  for (const Variant& variant : variants) {
    mean.points.push_back({variant.value, 100 * variant.effective.mean});
    low.points.push_back({variant.value, 100 * variant.effective.low});
    high.points.push_back({variant.value, 100 * variant.effective.high});
  }
  return chart_svg(title, {mean, low, high});
}

}  // namespace

std::string simulation_text(const Study& study) {
  std::string text = study.name + (study.description.empty() ? "" : ": " + study.description) + "\n\n";
  text += text_table(summary_rows(study)) + "\n" + text_table(class_rows(study));
  if (!study.costs.empty()) text += "\n" + text_table(variant_rows("all latencies x", study.costs));
  if (!study.intervals.empty()) text += "\n" + text_table(variant_rows("fixed interval, Daly's x", study.intervals));
  if (!study.spares.empty()) text += "\n" + text_table(variant_rows("spare hosts", study.spares));
  if (!study.expectations.empty()) text += "\n" + text_table(expectation_rows(study));
  text += "\n" + assumed_text(study);
  for (const auto& [path, by] : study.measured) text += format("measured: {} by {}\n", path, by);
  return text;
}

Value simulation_value(const Study& study) {
  Value value = Value::make_table();
  value.set("name", study.name);
  value.set("description", study.description);
  value.set("seed", static_cast<long long>(study.seed));
  value.set("trials", study.trials);
  value.set("hosts", study.hosts);
  value.set("length_s", study.length_s);
  value.set("mtbf_s", study.mtbf_s);
  value.set("effective", estimate_value(study.effective));
  Value& shares = value.set("shares", Value::make_table());
  for (int time = 0; time < time_classes; ++time)
    shares.set(to_string(static_cast<TimeClass>(time)), estimate_value(study.shares[static_cast<std::size_t>(time)]));
  Value& tiers = value.set("tiers", Value::make_table());
  for (int tier = 0; tier < restart_tiers; ++tier)
    tiers.set(to_string(static_cast<RestartTier>(tier)), study.tiers[static_cast<std::size_t>(tier)]);
  value.set("faults", estimate_value(study.faults));
  value.set("standstills", estimate_value(study.standstills));
  value.set("lost_steps", estimate_value(study.lost_steps));
  value.set("hosts_left", estimate_value(study.hosts_left));
  value.set("operators", estimate_value(study.operators));
  value.set("interval_s", estimate_value(study.interval_s));
  value.set("young_interval_s", study.young_interval_s);
  value.set("daly_interval_s", study.daly_interval_s);
  value.set("costs", variants_value(study.costs));
  value.set("intervals", variants_value(study.intervals));
  value.set("spares", variants_value(study.spares));
  Value& expectations = value.set("expectations", Value::make_array());
  for (const ExpectationResult& result : study.expectations) {
    Value entry = Value::make_table();
    entry.set("name", result.expected.name);
    entry.set("figure", result.expected.figure);
    entry.set("published_pct", result.expected.percent);
    entry.set("at_least", result.expected.at_least);
    entry.set("within_points", result.expected.within);
    entry.set("simulated_pct", estimate_value(result.simulated));
    entry.set("met", result.met);
    entry.set("source", result.expected.source);
    expectations.push_back(std::move(entry));
  }
  value.set("assumed", ValueArray(study.assumed.begin(), study.assumed.end()));
  Value& measured = value.set("measured", Value::make_table());
  for (const auto& [path, by] : study.measured) measured.set(path, by);
  value.set("sources", ValueArray(study.sources.begin(), study.sources.end()));
  return value;
}

std::string simulation_html(const Study& study, std::int64_t now_ms) {
  std::string html = "<h1>" + html_text(study.name) + "</h1><p>" + html_text(study.description) + "</p>";
  Rows summary = summary_rows(study);
  summary.insert(summary.begin(), {"", ""});
  html += html_table(summary) + "<h2>Where the time goes</h2>" + html_table(class_rows(study));
  Curve days{"effective", {}};
  for (const TrialPoint& point : study.days) days.points.push_back({point.day, 100 * point.effective});
  html += chart_svg("effective training time until that day, in %, first trial", {days});
  html += "<h2>Dearer and cheaper recoveries</h2>" + html_table(variant_rows("all latencies x", study.costs)) +
          variants_chart("effective training time in % over a factor on all latencies", study.costs);
  html += "<h2>Intervals between saves</h2>" + html_table(variant_rows("fixed interval, Daly's x", study.intervals)) +
          variants_chart("effective training time in % over the interval, in units of Daly's", study.intervals);
  html += "<h2>Spares</h2>" + html_table(variant_rows("spare hosts", study.spares)) +
          variants_chart("effective training time in % over spare hosts", study.spares);
  if (!study.expectations.empty())
    html += "<h2>Figures that have to come out</h2>" + html_table(expectation_rows(study));
  html += "<h2>Where the numbers come from</h2><p>" + html_text(assumed_text(study)) + "</p><ul>";
  for (const auto& [path, by] : study.measured) html += "<li>" + html_text(path + ": measured by " + by) + "</li>";
  for (const std::string& source : study.sources) html += "<li>" + html_text(source) + "</li>";
  return html_page(study.name, html + "</ul>", now_ms);
}

}  // namespace longhaul
