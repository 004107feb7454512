#include "orchestrator/render/plan/plan_html.h"

#include "base/text/text.h"
#include "orchestrator/render/draw/html_table.h"
#include "orchestrator/render/plan/forecast_text.h"
#include "orchestrator/render/plan/plan_text.h"
#include "orchestrator/render/plan/serving_text.h"
#include "orchestrator/render/report/report.h"
#include "orchestrator/render/report/tuning_html.h"

namespace longhaul {
namespace {

std::string lines_html(const std::vector<std::string>& lines) {
  std::string html;
  for (const std::string& line : lines) html += "<li>" + html_text(line) + "</li>";
  return html.empty() ? html : "<ul>" + html + "</ul>";
}

}  // namespace

std::string plan_html(const RunPlan& plan, const std::string& site, const std::vector<TrainingForecast>& trainings,
                      const std::vector<ServingForecast>& servers, std::int64_t now_ms) {
  std::string html = "<h1>" + html_text(plan.workflow) + "</h1><p>the plan at site " + html_text(site) +
                     "; nothing was started</p><h2>Stages</h2><pre>" + html_text(plan_text(plan, false)) + "</pre>";
  if (!trainings.empty()) {
    const auto rows = forecast_rows(trainings);
    html += "<h2>Trainings, as predicted</h2>";
    if (rows.size() > 1) html += html_table(rows);
    html += lines_html(forecast_remarks(trainings));
  }
  for (const TrainingForecast& f : trainings)
    if (f.problem.empty()) html += "<h3>" + html_text(f.stage) + "</h3>" + tuning_forecast_html(f.tuning, nullptr);
  if (!servers.empty()) {
    const auto rows = serving_forecast_rows(servers);
    html += "<h2>Servers, as predicted</h2>";
    if (rows.size() > 1) html += html_table(rows);
    html += lines_html(serving_forecast_remarks(servers));
  }
  return html_page("plan of " + plan.workflow, html, now_ms);
}

}  // namespace longhaul
