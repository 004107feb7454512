// One training step as its pipeline runs it (tuning_svg.h).
#include <algorithm>
#include <cmath>
#include <map>

#include "base/text/text.h"
#include "orchestrator/render/draw/html_table.h"
#include "orchestrator/render/draw/svg_canvas.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/render/report/svg.h"
#include "orchestrator/render/report/tuning_svg.h"
#include "orchestrator/render/run/status_text.h"

namespace longhaul {
namespace {

constexpr std::int64_t operations_of_a_row = 170, operations_max = 12'000;
constexpr std::int64_t operations_run = 400'000;  // of a whole step; more take longer than a picture is worth

using Kind = ScheduleOp::Kind;

std::int64_t operations_of(const PipelineScheduleSettings& s, int micro_batches) {
  return (s.kind == PipelineKind::zb_h1 ? 3L : 2L) * s.pp * s.vp * micro_batches;
}

// How many micro-batches show the start, one period of the middle, and the end.
Result<PipelineScheduleSettings> drawn_schedule(const PipelineScheduleSettings& whole) {
  PipelineScheduleSettings drawn = whole;
  if (operations_of(whole, whole.micro_batches) / whole.pp <= operations_of_a_row) return drawn;
  LH_TRY(const int group, pipeline_group(whole));
  const int period = whole.vp > 1 ? group : 1, rest = whole.micro_batches % period;
  const int least = std::max(2 * whole.pp, 8);
  drawn.micro_batches = std::min(whole.micro_batches, (least + period - 1) / period * period + rest);
  if (whole.vp > 1) drawn.group = group;
  return drawn;
}

Result<PipelineTimeline> timeline_of(const PipelineScheduleSettings& schedule, const PipelineCosts& costs) {
  LH_TRY(const auto lists, pipeline_schedules(schedule));
  return run_pipeline(lists, schedule.vp, costs);
}

// What of a step lies behind the pipeline: gradients between replicas, the update, what many ranks cost.
double seconds_behind(const LayoutForecast& f, const PipelineScheduleSettings& drawn,
                      const PipelineTimeline& timeline) {
  const PipelineScheduleSettings& whole = f.pipeline.schedule;
  double pipeline = timeline.makespan;
  if (drawn.micro_batches != whole.micro_batches) {
    if (operations_of(whole, whole.micro_batches) > operations_run)
      return f.time[StepPart::data] + f.time[StepPart::optimizer];
    const auto full = timeline_of(whole, f.pipeline.costs);
    if (full.ok()) pipeline = full->makespan;
  }
  return std::max(0.0, f.seconds() - pipeline);
}

const char* slot_class(const ScheduleOp& op) {
  const bool odd = op.chunk % 2 == 1;
  switch (op.kind) {
    case Kind::forward: return odd ? "f1" : "f0";
    case Kind::backward_input: return odd ? "i1" : "i0";
    case Kind::backward_weight: return odd ? "w1" : "w0";
    case Kind::backward: return odd ? "b1" : "b0";
  }
  return "";
}

std::string timeline_note(const LayoutForecast& f, const std::string& why) {
  return "<p class=\"dim\">no picture of a step of " + html_text(f.name + ": " + why) + "</p>";
}

void draw_legend(SvgCanvas& svg, const PipelineScheduleSettings& s, double y, bool tail) {
  std::vector<std::pair<const char*, const char*>> entries = {{"f0", "forward"}};
  if (s.kind == PipelineKind::zb_h1) {
    entries.emplace_back("i0", "backward: gradients of inputs");
    entries.emplace_back("w0", "backward: gradients of weights");
  } else {
    entries.emplace_back("b0", "backward");
  }
  if (s.vp > 1) entries.emplace_back("f1", "lighter: every second chunk of a rank");
  entries.emplace_back("idle", "waiting");
  if (tail) entries.emplace_back("tail", "gradients between replicas, update, overhead");
  const auto whole = [](double pixels) { return static_cast<int>(std::lround(pixels)); };
  double x = 8;
  for (const auto& [name, text] : entries) {
    svg.rect(name, whole(x), whole(y), 11, 11);
    svg.text("tick", whole(x + 16), whole(y + 10), text);
    x += 36 + 6.2 * static_cast<double>(std::string_view(text).size());
  }
}

}  // namespace

std::string step_timeline_svg(const LayoutForecast& f) {
  const PipelineScheduleSettings& whole = f.pipeline.schedule;
  const auto drawn = drawn_schedule(whole);
  if (!drawn.ok()) return timeline_note(f, drawn.error().message());
  if (const std::int64_t count = operations_of(*drawn, drawn->micro_batches); count > operations_max)
    return timeline_note(f, format("its shortest schedule has {} operations", count));
  const auto timeline = timeline_of(*drawn, f.pipeline.costs);
  if (!timeline.ok()) return timeline_note(f, timeline.error().message());
  const double tail = seconds_behind(f, *drawn, *timeline), total = timeline->makespan + tail;
  if (!(total > 0)) return timeline_note(f, "it takes no time");

  constexpr int width = 960, left = 64, right = 14, top = 34;
  const double row = std::clamp(360.0 / whole.pp, 5.0, 24.0), gap = row > 10 ? 3 : 1;
  const double bottom = top + whole.pp * (row + gap), height = bottom + 66;
  const double scale = (width - left - right) / total;
  const auto at = [&](double seconds) { return left + seconds * scale; };
  const std::string share = drawn->micro_batches == whole.micro_batches
                                ? format("{}", whole.micro_batches)
                                : format("{} of {}", drawn->micro_batches, whole.micro_batches);
  const std::string title =
      format("a step of {}: {}{} micro-batch{} on {} stage{}, bubble {:.1f} %{}", clipped(f.name, 60),
             whole.pp > 1 ? std::string(to_string(whole.kind)) + ", " : std::string(), share,
             whole.micro_batches == 1 ? "" : "es", whole.pp, whole.pp == 1 ? "" : "s",
             100 * std::max(0.0, f.time[StepPart::bubble]) / f.seconds(),
             drawn->micro_batches == whole.micro_batches ? "" : " of the whole step");
  SvgCanvas svg, numbers;
  svg.text("title", 8, 18, title);
  std::map<std::string, std::string> paths;  // by class
  for (std::size_t rank = 0; rank < timeline->ranks.size(); ++rank) {
    const double y = top + static_cast<double>(rank) * (row + gap);
    if (row + gap >= 11 || rank % 4 == 0) svg.text("tick end", left - 6, y + row / 2 + 4, format("stage {}", rank));
    svg.rect("idle", at(0), y, timeline->makespan * scale, row);
    for (const PipelineTimeline::Entry& entry : timeline->ranks[rank]) {
      const double x = at(entry.start), w = (entry.end - entry.start) * scale;
      const double seam = w > 4 ? 0.6 : 0;  // so that neighbours stay apart
      paths[slot_class(entry.op)] += format("M{:.2f} {:.1f}h{:.2f}v{:.1f}h-{:.2f}z", x, y, w - seam, row, w - seam);
      if (w >= 15 && row >= 13)
        numbers.text("slot", x + w / 2, y + row / 2 + 3.5, format("{}", entry.op.micro_batch + 1));
    }
    if (tail * scale > 0.3)
      paths["tail"] +=
          format("M{:.2f} {:.1f}h{:.2f}v{:.1f}h-{:.2f}z", at(timeline->makespan), y, tail * scale, row, tail * scale);
  }
  for (const auto& [name, path] : paths) svg.path(name, path);
  svg.append(numbers);
  const bool in_ms = total < 1;
  for (const double tick : axis_ticks(0, in_ms ? total * 1e3 : total, 8))
    svg.text("tick middle", at(in_ms ? tick / 1e3 : tick), bottom + 14, figure_text(tick));
  svg.text("tick middle", (left + width - right) / 2.0, bottom + 31, in_ms ? "ms" : "s");
  draw_legend(svg, *drawn, bottom + 46, tail * scale > 0.3);
  return svg.picture({.classes = "chart tuning",
                      .width = width,
                      .height = static_cast<int>(std::lround(height)),
                      .label = "pipeline of a step",
                      .size = SvgCanvas::Frame::Size::own_width});
}

}  // namespace longhaul
