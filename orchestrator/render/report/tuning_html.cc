#include "orchestrator/render/report/tuning_html.h"

#include <algorithm>

#include "base/text/text.h"
#include "orchestrator/render/draw/html_table.h"
#include "orchestrator/render/report/tuning_svg.h"

namespace longhaul {
namespace {

constexpr std::size_t bars_max = 24, timelines_max = 3;

std::string interval_text(double seconds, double half) {
  if (seconds <= 0) return "-";
  const std::string value = step_seconds_text(seconds);
  return half > 0 ? value + format(" ± {:.1f} %", 100 * half / seconds) : value;
}

std::string memory_text(const CandidateStory& one) {
  if (one.planned_bytes <= 0 && one.held_bytes <= 0) return "-";
  const std::string planned = one.planned_bytes > 0 ? human_bytes(one.planned_bytes) : std::string("?");
  return one.held_bytes > 0 ? planned + " → " + human_bytes(one.held_bytes) : planned;
}

// The state's class of the style sheet.
const char* outcome_class(const CandidateStory& one) {
  if (one.won) return "succeeded";
  if (one.outcome == "running" || one.outcome == "waiting") return "running";
  for (const char* bad : {"out of memory", "hang", "crash", "refused", "failed"})
    if (one.outcome == bad) return "failed";
  return "dim";
}

std::string trials_table(const TuningStory& story) {
  std::string html =
      "<div class=\"scroll\"><table><tr><th>candidate<th>predicted<th>measured<th>memory<th>node-hours<th>what became "
      "of it</tr>";
  for (const CandidateStory& one : story.candidates)
    html += format(
        "<tr><td>{}{}{}<br><code class=\"dim small\">{}</code><td>{}<td>{}<td>{}<td>{}<td class=\"verdict\">"
        "<span class=\"{}\">{}</span>{}{}</tr>",
        one.won ? "<b>" : "", html_text(one.name), one.won ? "</b>" : "", html_text(one.settings),
        interval_text(one.predicted, one.predicted_half), interval_text(one.measured, one.measured_half),
        memory_text(one), one.node_hours > 0 ? format("{:.3g}", one.node_hours) : "-", outcome_class(one),
        one.won ? "won" : html_text(one.outcome), one.why.empty() ? "" : ": ", html_text(one.why));
  return html + "</table></div>";
}

std::string trials_summary(const TuningStory& story) {
  std::vector<std::string> parts;
  const auto run = std::count_if(story.candidates.begin(), story.candidates.end(),
                                 [](const CandidateStory& one) { return one.measured > 0 || one.node_hours > 0; });
  parts.push_back(run == 0 ? "no trial has shown anything"
                           : format("{} of {} candidates tried in {:.3g} node-hours", run, story.candidates.size(),
                                    story.node_hours));
  if (run > 0) parts.push_back(format("measured intervals hold {:.0f} %", 100 * story.confidence));
  if (const double ratio = story.measured_over_predicted(); ratio > 0)
    parts.push_back(format("measured over predicted: {:.2f} on average", ratio));
  return "<p class=\"dim\">" + html_text(join(parts, "; ")) + "</p>";
}

const CandidateStory* story_of(const TuningStory* story, const std::string& name) {
  if (!story) return nullptr;
  const auto found = std::find_if(story->candidates.begin(), story->candidates.end(),
                                  [&](const CandidateStory& one) { return one.name == name; });
  return found == story->candidates.end() ? nullptr : &*found;
}

// The winner and those that were tried first; then as they were predicted.
std::vector<const LayoutForecast*> shown_first(const TuningForecast& forecast, const TuningStory* story) {
  std::vector<const LayoutForecast*> order;
  for (const LayoutForecast& one : forecast.candidates) order.push_back(&one);
  const auto rank = [&](const LayoutForecast* one) {
    const CandidateStory* seen = story_of(story, one->name);
    return !seen ? 2 : seen->won ? 0 : seen->measured > 0 ? 1 : 2;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const LayoutForecast* a, const LayoutForecast* b) { return rank(a) < rank(b); });
  return order;
}

// The first, and further ones that differ in their pipeline.
std::string timelines_html(const std::vector<const LayoutForecast*>& order) {
  std::string html;
  std::vector<const PipelineScheduleSettings*> shown;
  for (const LayoutForecast* one : order) {
    const PipelineScheduleSettings& s = one->pipeline.schedule;
    const bool alike = std::any_of(shown.begin(), shown.end(), [&](const PipelineScheduleSettings* other) {
      return s.pp == other->pp && s.kind == other->kind;
    });
    if (alike || (s.pp == 1 && !shown.empty())) continue;
    html += "<div class=\"scroll\">" + step_timeline_svg(*one) + "</div>";
    shown.push_back(&s);
    if (shown.size() == timelines_max) break;
  }
  return html;
}

std::string front_table(const TuningForecast& forecast) {
  std::vector<std::vector<std::string>> rows = {{"layout", "step", "memory"}};
  for (const FrontPoint& point : forecast.front)
    rows.push_back({point.layout, step_seconds_text(point.seconds), human_bytes(point.memory)});
  return "<details><summary>the front: layouts that no other one beats in both</summary>" + html_table(rows) +
         "</details>";
}

std::string alternatives_table(const TuningForecast& forecast) {
  std::vector<std::vector<std::string>> rows = {{"what one would think of first", "what became of it"}};
  for (const AlternativeVerdict& a : forecast.alternatives) rows.push_back({a.name, a.verdict});
  return html_table(rows);
}

}  // namespace

std::string tuning_forecast_html(const TuningForecast& forecast, const TuningStory* story) {
  const auto order = shown_first(forecast, story);
  std::vector<StepBar> bars;
  std::vector<StepMemory> dots;
  for (const LayoutForecast* one : order) {
    const CandidateStory* seen = story_of(story, one->name);
    const bool won = seen && seen->won;
    dots.push_back({one->name, one->seconds(), one->memory, seen && seen->measured > 0, won});
    if (bars.size() < bars_max)
      bars.push_back({one->name, one->time, seen ? seen->measured : 0, seen ? seen->measured_half : 0, won});
  }
  std::string html;
  if (!forecast.device.empty())
    html += "<p class=\"dim\">predicted for " + html_text(forecast.device) +
            (forecast.source ? std::string(", ") + sentence_of(*forecast.source) : std::string()) + "</p>";
  html += "<div class=\"scroll\">" + step_parts_svg(bars) + "</div>";
  if (order.size() > bars.size())
    html += format("<p class=\"dim\">{} more candidates are left out of the bars</p>", order.size() - bars.size());
  html += "<div class=\"scroll\">" + step_memory_svg(forecast.front, dots, forecast.memory_limit) + "</div>";
  if (!forecast.front.empty()) {
    html += format("<p class=\"dim\">{} layouts enumerated, {} fit, {} simulated</p>", forecast.enumerated,
                   forecast.fitting, forecast.simulated) +
            front_table(forecast);
  }
  html += timelines_html(order);
  if (!forecast.alternatives.empty()) html += alternatives_table(forecast);
  return html;
}

std::string tuning_html(const TuningStory& story) {
  std::string html;
  for (const std::string& missing : story.missing)
    html += "<p class=\"failed\">not readable: " + html_text(missing) + "</p>";
  if (story.empty()) return html;
  if (!story.target.empty()) html += "<p>the layout of stage " + html_text(story.target) + "</p>";
  if (!story.candidates.empty()) html += trials_table(story) + trials_summary(story);
  std::vector<PredictedMeasured> points;
  for (const CandidateStory& one : story.candidates)
    points.push_back({one.name, one.predicted, one.predicted_half, one.measured, one.measured_half, one.won});
  if (const std::string plot = predicted_measured_svg(points); !plot.empty())
    html += "<div class=\"scroll\">" + plot + "</div>";
  if (story.forecast) html += tuning_forecast_html(*story.forecast, &story);
  return html;
}

}  // namespace longhaul
