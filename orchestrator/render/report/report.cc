#include "orchestrator/render/report/report.h"

#include <algorithm>
#include <map>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "base/value/json.h"
#include "contracts/settings/stages/tune.h"
#include "orchestrator/render/draw/html_table.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/render/report/svg.h"
#include "orchestrator/render/report/tuning_html.h"
#include "orchestrator/render/report/tuning_svg.h"
#include "orchestrator/render/run/goodput_text.h"
#include "orchestrator/render/run/status_text.h"

namespace longhaul {
namespace {

constexpr std::size_t graph_stages_max = 150;
constexpr std::size_t sample_bytes_max = 4000;
constexpr std::size_t main_figures_max = 4;  // of a stage, in its row; all of them stand below the table

const char* const style = R"(
:root{color-scheme:light dark;--ink:#1d2530;--dim:#66707e;--line:#d9dee5;--bg:#fff;--card:#f6f8fa;--good:#2f7d4f;--bad:#b3372f;--run:#2460a7}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ee;--dim:#98a2b0;--line:#3a424d;--bg:#14181d;--card:#1c2229;--good:#5fb585;--bad:#e0726a;--run:#6ea8e6}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--bg);max-width:1000px;margin:2rem auto;padding:0 1.2rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--line)}h3{font-size:1rem;margin:1.2rem 0 .3rem}
.dim{color:var(--dim)}.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.3rem .7rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top}th{color:var(--dim);font-weight:600}
.succeeded,.cached{color:var(--good)}.failed,.cancelled{color:var(--bad)}.running,.submitted{color:var(--run)}.skipped,.waiting,.ready{color:var(--dim)}
pre,code{font:13px/1.45 ui-monospace,monospace}pre{background:var(--card);padding:.7rem;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere}
.sample{background:var(--card);padding:.7rem .9rem;margin:.6rem 0;border-left:3px solid var(--line)}.sample b{font-weight:600}.sample p{margin:.2rem 0;white-space:pre-wrap;overflow-wrap:anywhere}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr));gap:.1rem 1.6rem;margin:.2rem 0 .8rem}
.figure{display:flex;justify-content:space-between;gap:.8rem;border-bottom:1px dotted var(--line)}.figure span{color:var(--dim);overflow-wrap:anywhere}.figure b{font-weight:600;white-space:nowrap}
td .figures{grid-template-columns:minmax(12rem,1fr);margin:0}td .figure{border:0}
svg{max-width:100%;height:auto}svg text{fill:var(--ink);font-size:13px}.chart{width:640px}.chart .title{font-weight:600}
.tick,.kind,.legend{font-size:11px!important}svg .tick,svg .kind{fill:var(--dim)}.end{text-anchor:end}.middle{text-anchor:middle}.grid{stroke:var(--line)}
.edge{fill:none;stroke:var(--dim)}.node rect{fill:var(--card);stroke:currentColor;stroke-width:1.5}.line{fill:none;stroke-width:1.6}
.c0{stroke:#2460a7}.c1{stroke:#c2571a}.c2{stroke:#2f7d4f}.c3{stroke:#8a4fb0}.c4{stroke:#b3372f}.c5{stroke:#7a6a2f}
text.c0,.dot.c0{fill:#2460a7;stroke:none}text.c1,.dot.c1{fill:#c2571a;stroke:none}text.c2,.dot.c2{fill:#2f7d4f;stroke:none}text.c3,.dot.c3{fill:#8a4fb0;stroke:none}text.c4,.dot.c4{fill:#b3372f;stroke:none}text.c5,.dot.c5{fill:#7a6a2f;stroke:none}
.removed{fill:var(--line)}.kept{fill:#2460a7}details{margin:.5rem 0}summary{cursor:pointer}
)";

std::string cut(const std::string& text) {
  return text.size() <= sample_bytes_max ? text : text.substr(0, sample_bytes_max) + " …";
}

// One node per stage; the variants of a matrix are counted.
std::vector<GraphNode> graph_nodes(const RunStory& story) {
  std::vector<GraphNode> nodes;
  std::map<std::string, int> index;
  std::map<std::string, int> counts;
  for (const PlannedStage& stage : story.plan.stages) {
    const StageStatus* status = story.status.find(stage.id());
    const std::string state = status ? to_string(status->state) : "waiting";
    const auto [at, fresh] = index.emplace(stage.stage, static_cast<int>(nodes.size()));
    if (fresh) nodes.push_back({stage.stage, stage.kind, state, {}});
    GraphNode& node = nodes[at->second];
    ++counts[stage.stage];
    if (state == "failed" || (state == "running" && node.state != "failed")) node.state = state;
    for (const std::string& need : stage.needs) {
      const auto from = index.find(need.substr(0, need.find('/')));
      if (from != index.end() && from->second != at->second &&
          std::find(node.needs.begin(), node.needs.end(), from->second) == node.needs.end())
        node.needs.push_back(from->second);
    }
  }
  for (GraphNode& node : nodes)
    if (counts[node.name] > 1) node.kind += format(" x{}", counts[node.name]);
  return nodes;
}

std::string heading_html(const RunStory& story, std::int64_t now_ms) {
  const RunStatus& status = story.status;
  const std::int64_t end = status.ended_ms > 0 ? status.ended_ms : now_ms;
  std::string html =
      "<h1>" + html_text(status.name) + "</h1><p>workflow " + html_text(status.workflow) + " · <span class=\"" +
      to_string(status.state) + "\">" + to_string(status.state) + "</span> · " + utc_text(status.created_ms) + " · " +
      human_duration(static_cast<double>(std::max<std::int64_t>(0, end - status.created_ms)) / 1e3) + "</p>";
  for (const std::string& missing : story.missing)
    html += "<p class=\"failed\">not readable: " + html_text(missing) + "</p>";
  return html;
}

std::string figure_list(const std::vector<std::pair<std::string, std::string>>& figures, std::size_t most) {
  std::string html;
  for (std::size_t i = 0; i < figures.size() && i < most; ++i)
    html += "<div class=\"figure\"><span>" + html_text(figures[i].first) + "</span><b>" + html_text(figures[i].second) +
            "</b></div>";
  return html.empty() ? "" : "<div class=\"figures\">" + html + "</div>";
}

// What does not fit into the rows of the table.
std::string all_figures_html(const RunStory& story) {
  std::string html;
  for (const StageStatus& stage : story.status.stages)
    if (const auto figures = figures_of(stage); figures.size() > main_figures_max)
      html += "<h3>" + html_text(stage.id) + "</h3>" + figure_list(figures, figures.size());
  return html.empty() ? "" : "<details><summary>all figures of the stages</summary>" + html + "</details>";
}

std::string stages_html(const RunStory& story, std::int64_t now_ms) {
  std::string html =
      "<h2>Stages</h2><div "
      "class=\"scroll\"><table><tr><th>stage<th>kind<th>state<th>attempts<th>time<th>computes<th>figures</tr>";
  for (const StageStatus& stage : story.status.stages) {
    std::string note = figure_list(figures_of(stage), main_figures_max);
    if (!stage.cause.empty()) note += "<span class=\"failed\">" + html_text(stage.cause) + "</span>";
    html += "<tr><td>" + html_text(stage.id) + "<td>" + html_text(stage.kind) + "<td class=\"" +
            to_string(stage.state) + "\">" + to_string(stage.state) + "<td>" + std::to_string(stage.attempts) + "<td>" +
            stage_time_text(stage, now_ms) + "<td>" + html_text(computing_text(stage.computing)) + "<td>" + note +
            "</tr>";
  }
  return html + "</table></div>" + all_figures_html(story);
}

std::string trials_html(const RunStory& story) {
  std::string html;
  for (const StageStatus& stage : story.status.stages) {
    if (stage.kind == tune_kind_name) continue;  // tunings_html has more of them
    const auto rows = trial_rows(stage);
    if (rows.empty()) continue;
    html += "<h3>" + html_text(stage.id) + "</h3>" + html_table(rows);
    for (const std::string& what : stage.set_aside)
      html += "<p class=\"failed\">set aside: " + html_text(what) + "</p>";
  }
  return html.empty() ? "" : "<h2>Trials</h2>" + html;
}

std::string curves_html(const RunStory& story) {
  std::string html;
  for (const StageStory& stage : story.stages) {
    if (stage.curves.empty()) continue;
    std::vector<Curve> losses;
    std::string others;
    for (const Curve& curve : stage.curves) {
      if (curve.name.find("loss") != std::string::npos)
        losses.push_back(curve);
      else
        others += chart_svg(curve.name, {curve});
    }
    html += "<h3>" + html_text(stage.id) + "</h3>" + chart_svg("loss over steps", losses);
    if (!others.empty()) html += "<details><summary>other curves</summary>" + others + "</details>";
  }
  return html.empty() ? "" : "<h2>Curves</h2>" + html;
}

std::string tunings_html(const RunStory& story) {
  std::string html;
  for (const StageStory& stage : story.stages)
    if (const std::string one = tuning_html(stage.tuning); !one.empty())
      html += "<h3>" + html_text(stage.id) + "</h3>" + one;
  return html.empty() ? "" : "<h2>Tuning</h2>" + html;
}

std::string waterfalls_html(const RunStory& story) {
  std::string html;
  for (const StageStory& stage : story.stages) {
    if (!stage.waterfall.is_array()) continue;
    html += "<h3>" + html_text(stage.id) + "</h3>" + waterfall_svg(stage.waterfall) +
            "<div class=\"scroll\"><table><tr><th>step<th>documents left<th>removed<th>text left<th>reasons</tr>";
    for (const Value& step : stage.waterfall.as_array()) {
      std::string reasons;
      if (const Value* list = step.find("reasons"); list && list->is_array())
        for (const Value& reason : list->as_array())
          reasons += (reasons.empty() ? "" : ", ") + reason.get_string("reason") +
                     format(" ({} docs, {})", reason.get_integer("documents"), human_bytes(reason.get_number("bytes")));
      html += "<tr><td>" + html_text(step.get_string("step")) +
              format("<td>{}<td>{}<td>{}<td>", step.get_integer("documents_out"),
                     step.get_integer("documents_in") - step.get_integer("documents_out"),
                     human_bytes(step.get_number("bytes_out"))) +
              html_text(reasons) + "</tr>";
    }
    html += "</table></div>";
  }
  return html.empty() ? "" : "<h2>Curation</h2>" + html;
}

std::string samples_html(const RunStory& story) {
  std::string html;
  for (const StageStory& stage : story.stages) {
    if (stage.samples.empty()) continue;
    html += "<h3>" + html_text(stage.id) + "</h3>";
    for (const Sample& sample : stage.samples)
      html += "<div class=\"sample\"><p><b>" + html_text(cut(sample.prompt)) + "</b></p><p>" +
              html_text(cut(sample.text)) + "</p></div>";
  }
  return html.empty() ? "" : "<h2>Samples</h2>" + html;
}

std::string warnings_html(const RunStory& story) {
  std::string html;
  for (const StageStory& stage : story.stages)
    for (const std::string& warning : stage.warnings)
      html += "<li>" + html_text(stage.id) + ": " + html_text(cut(warning)) + "</li>";
  return html.empty() ? "" : "<h2>Warnings</h2><ul>" + html + "</ul>";
}

std::string provenance_html(const RunStory& story) {
  std::string html = "<h2>Provenance</h2><p class=\"dim\">" + html_text(story.software) + "<br>workflow " +
                     html_text(story.workflow_path) + "<br>run " + html_text(story.status.run) +
                     (story.fork.empty() ? "" : "<br>" + html_text(cut(story.fork.text()))) + "</p>";
  html += "<div class=\"scroll\"><table><tr><th>artifact<th>made by<th>kind version<th>key<th>digest<th>size</tr>";
  for (const StageStory& stage : story.stages) {
    if (!stage.has_manifest) continue;
    std::uint64_t bytes = 0;
    for (const ManifestFile& file : stage.manifest.files) bytes += file.bytes;
    html += "<tr><td>" + html_text(stage.id) + "<td>" + html_text(stage.manifest.software) +
            format("<td>{}<td><code>", stage.manifest.kind_version) + html_text(stage.manifest.key) +
            "</code><td><code>" + stage.manifest.digest() + "</code><td>" +
            format("{} files, {}", stage.manifest.files.size(), human_bytes(static_cast<double>(bytes))) + "</tr>";
  }
  html += "</table></div>";
  for (const PlannedStage& stage : story.plan.stages) {
    Value facts = Value::make_table();
    facts.set("ranks", stage.common.ranks);
    set_computing(computing_of(stage), facts);
    facts.set("layout", stage.dims.to_string());
    for (const PlannedInput& input : stage.inputs) {
      std::vector<std::string> sources = input.stages;
      if (input.milestone > 0) sources.push_back(format("at step {}", input.milestone));
      for (const std::string& path : input.paths) sources.push_back(path);
      facts.set("input " + input.name, clipped(join(sources, " "), 2000));
    }
    facts.set("settings", stage.settings);
    html += "<details><summary>" + html_text(stage.id()) + ": resolved settings</summary><pre>" +
            html_text(to_toml(facts)) + "</pre></details>";
  }
  return html;
}

Value stage_value(const StageStory& stage) {
  Value table = Value::make_table();
  table.set("id", stage.id);
  Value& curves = table.set("curves", Value::make_table());
  for (const Curve& curve : stage.curves) {
    Value& points = curves.set(curve.name, Value::make_array());
    for (const CurvePoint& point : curve.points) points.push_back(ValueArray{point.step, point.value});
  }
  Value& samples = table.set("samples", Value::make_array());
  for (const Sample& sample : stage.samples) {
    Value entry = Value::make_table();
    entry.set("prompt", sample.prompt);
    entry.set("text", sample.text);
    samples.push_back(std::move(entry));
  }
  if (!stage.endpoint.url.empty()) table.set("endpoint", stage.endpoint.url);
  if (stage.waterfall.is_array()) table.set("waterfall", stage.waterfall);
  if (!stage.tuning.empty()) table.set("tuning", tuning_story_value(stage.tuning));
  Value& warnings = table.set("warnings", Value::make_array());
  for (const std::string& warning : stage.warnings) warnings.push_back(warning);
  if (stage.has_manifest) {
    table.set("key", stage.manifest.key);
    table.set("digest", stage.manifest.digest());
    table.set("software", stage.manifest.software);
  }
  return table;
}

}  // namespace

std::string html_page(const std::string& title, const std::string& body, std::int64_t now_ms) {
  std::string html =
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\">";
  html += "<title>" + html_text(title) + "</title><style>" + style + tuning_style() + "</style></head><body>" + body;
  return html + "<p class=\"dim\">written " + utc_text(now_ms) + "</p></body></html>\n";
}

std::string report_html(const RunStory& story, std::int64_t now_ms) {
  std::string html = heading_html(story, now_ms);
  const auto nodes = graph_nodes(story);
  if (nodes.size() > graph_stages_max)
    html += format("<p class=\"dim\">graph of {} stages left out</p>", nodes.size());
  else if (!nodes.empty())
    html += "<h2>Graph</h2><div class=\"scroll\">" + graph_svg(nodes) + "</div>";
  html += stages_html(story, now_ms) + goodput_html(story.goodput) + trials_html(story) + tunings_html(story) +
          curves_html(story) + waterfalls_html(story) + samples_html(story) + warnings_html(story) +
          provenance_html(story);
  return html_page(story.status.name, html, now_ms);
}

Value report_value(const RunStory& story, std::int64_t now_ms) {
  Value report = Value::make_table();
  report.set("file", "longhaul report");
  report.set("format", 2);  // 1: without `file`, with a status of format 1
  report.set("written", utc_text(now_ms));
  report.set("software", story.software);
  report.set("workflow_path", story.workflow_path);
  report.set("status", run_status_to_value(story.status));
  report.set("plan", run_plan_to_value(story.plan));
  Value& stages = report.set("stages", Value::make_array());
  for (const StageStory& stage : story.stages) stages.push_back(stage_value(stage));
  report.set("goodput", goodput_value(story.goodput));
  Value& missing = report.set("missing", Value::make_array());
  for (const std::string& text : story.missing) missing.push_back(text);
  return report;
}

Result<std::string> write_report(const RunStory& story, const std::string& folder, std::int64_t now_ms) {
  LH_CHECK(make_directories(folder));
  LH_CHECK(write_file_atomic(join_path(folder, "report.json"), to_json_pretty(report_value(story, now_ms))));
  const std::string path = join_path(folder, "index.html");
  LH_CHECK(write_file_atomic(path, report_html(story, now_ms)));
  return path;
}

}  // namespace longhaul
