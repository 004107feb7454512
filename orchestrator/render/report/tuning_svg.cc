#include "orchestrator/render/report/tuning_svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text/text.h"
#include "orchestrator/render/draw/svg_canvas.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/render/report/svg.h"
#include "orchestrator/render/run/status_text.h"

namespace longhaul {
namespace {

SvgCanvas titled(const std::string& title) {
  SvgCanvas svg;
  svg.text("title", 8, 18, title);
  return svg;
}

std::string picture(const SvgCanvas& svg, int width, int height, const char* label) {
  return svg.picture({.classes = "chart tuning",
                      .width = width,
                      .height = height,
                      .label = label,
                      .size = SvgCanvas::Frame::Size::own_width});
}

// What axes are labelled in.
struct Unit {
  double size = 1;
  const char* name = "";
};
Unit time_unit(double largest) {
  return largest < 1 ? Unit{1e-3, "ms"} : Unit{1, "s"};
}
Unit memory_unit(double largest) {
  if (largest < 1024.0 * 1024 * 1024) return {1024.0 * 1024, "MiB"};
  return {1024.0 * 1024 * 1024, "GiB"};
}

struct Scale {
  double low = 0, high = 1;  // values
  double from = 0, to = 1;   // pixels
  double at(double value) const { return from + (std::clamp(value, low, high) - low) / (high - low) * (to - from); }
};

// A range that holds all values, with a margin; never empty.
void widen(Scale& scale, double low, double high, double margin) {
  if (high <= low) low *= 0.9, high = high * 1.1 + (high == 0 ? 1 : 0);
  scale.low = std::max(0.0, low - (high - low) * margin), scale.high = high + (high - low) * margin;
}

void draw_x_axis(SvgCanvas& svg, const Scale& x, double y, double top, const Unit& unit, const std::string& name) {
  for (const double tick : axis_ticks(x.low / unit.size, x.high / unit.size, 6)) {
    svg.line("grid", x.at(tick * unit.size), top, x.at(tick * unit.size), y);
    svg.text("tick middle", x.at(tick * unit.size), y + 16, figure_text(tick));
  }
  svg.text("tick middle", (x.from + x.to) / 2, y + 33, name + ", " + unit.name);
}

void draw_y_axis(SvgCanvas& svg, const Scale& y, double x, double right, const Unit& unit, const std::string& name) {
  for (const double tick : axis_ticks(y.low / unit.size, y.high / unit.size, 6)) {
    svg.line("grid", x, y.at(tick * unit.size), right, y.at(tick * unit.size));
    svg.text("tick end", x - 6, y.at(tick * unit.size) + 4, figure_text(tick));
  }
  svg.text_upwards("tick middle", 14, (y.from + y.to) / 2, name + ", " + unit.name);
}

// Names beside points, each at the first of eight places where it covers nothing; one without a place is left out (the
// point's tooltip has it).
class LabelPlaces {
 public:
  LabelPlaces(double left, double top, double right, double bottom) : frame_{left, top, right, bottom} {}
  void point(double x, double y) { taken_.push_back({x - 5, y - 5, x + 5, y + 5}); }
  void line(double x1, double y1, double x2, double y2) { taken_.push_back({x1 - 1, y1 - 1, x2 + 1, y2 + 1}); }
  void label(SvgCanvas& svg, double x, double y, const std::string& name) {
    constexpr double letter = 6.2, height = 12;
    constexpr std::size_t letters = 30;
    const double width = letter * static_cast<double>(std::min(name.size(), letters)) + 2;
    struct Place {
      double x, y;
    };
    const std::array<Place, 8> places = {{{x + 8, y - 6},
                                          {x + 8, y + 15},
                                          {x - 8 - width, y - 6},
                                          {x - 8 - width, y + 15},
                                          {x - width / 2, y - 10},
                                          {x - width / 2, y + 20},
                                          {x + 8, y - 20},
                                          {x + 8, y + 29}}};
    for (const Place& place : places) {
      const Box box{place.x, place.y - height + 2, place.x + width, place.y + 2};
      if (!box.inside(frame_) || std::any_of(taken_.begin(), taken_.end(), [&](const Box& b) { return b.meets(box); }))
        continue;
      taken_.push_back(box);
      svg.text("tick", place.x, place.y, clipped(name, letters));
      return;
    }
  }

 private:
  struct Box {
    double left, top, right, bottom;
    bool inside(const Box& other) const {
      return left >= other.left && right <= other.right && top >= other.top && bottom <= other.bottom;
    }
    bool meets(const Box& other) const {
      return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
    }
  };
  Box frame_;
  std::vector<Box> taken_;
};

void draw_dot(SvgCanvas& svg, double x, double y, const char* kind, const std::string& tooltip) {
  svg.circle(format("mark {}", kind), x, y, 4, tooltip);
}

bool is_time(double seconds) {
  return std::isfinite(seconds) && seconds > 0;
}

}  // namespace

std::string step_seconds_text(double seconds) {
  return seconds < 1 ? format("{:.1f} ms", seconds * 1e3) : format("{:.2f} s", seconds);
}

std::string predicted_measured_svg(const std::vector<PredictedMeasured>& points) {
  constexpr int width = 520, height = 480, left = 70, right = 16, top = 34, bottom = 44;
  double low = 1e300, high = 0;
  for (const PredictedMeasured& p : points) {
    if (!is_time(p.predicted) || !is_time(p.measured)) continue;
    low = std::min({low, p.predicted - p.predicted_half, p.measured - p.measured_half});
    high = std::max({high, p.predicted + p.predicted_half, p.measured + p.measured_half});
  }
  if (high == 0) return {};
  Scale x{0, 1, left, width - right}, y{0, 1, height - bottom, top};
  widen(x, low, high, 0.05);
  y.low = x.low, y.high = x.high;
  const Unit unit = time_unit(high);
  SvgCanvas svg = titled("step time: measured over predicted"), names;
  draw_x_axis(svg, x, y.from, y.to, unit, "predicted");
  draw_y_axis(svg, y, x.from, x.to, unit, "measured");
  svg.line("diagonal", x.from, y.from, x.to, y.to);
  LabelPlaces labels(x.from, y.to, x.to, y.from);
  for (const PredictedMeasured& p : points) {
    if (!is_time(p.predicted) || !is_time(p.measured)) continue;
    const double px = x.at(p.predicted), py = y.at(p.measured);
    labels.point(px, py);
    labels.line(x.at(p.predicted - p.predicted_half), py, x.at(p.predicted + p.predicted_half), py);
    labels.line(px, y.at(p.measured + p.measured_half), px, y.at(p.measured - p.measured_half));
  }
  for (const PredictedMeasured& p : points) {
    if (!is_time(p.predicted) || !is_time(p.measured)) continue;
    const double px = x.at(p.predicted), py = y.at(p.measured);
    svg.path("whisker", format("M{:.1f} {:.1f}H{:.1f}M{:.1f} {:.1f}V{:.1f}", x.at(p.predicted - p.predicted_half), py,
                               x.at(p.predicted + p.predicted_half), px, y.at(p.measured - p.measured_half),
                               y.at(p.measured + p.measured_half)));
    draw_dot(
        svg, px, py, p.won ? "won" : "tried",
        format("{}: predicted {}, measured {}", p.name, step_seconds_text(p.predicted), step_seconds_text(p.measured)));
    labels.label(names, px, py, p.name);
  }
  svg.append(names);
  return picture(svg, width, height, "predicted against measured step time");
}

std::string step_memory_svg(const std::vector<FrontPoint>& front, const std::vector<StepMemory>& candidates,
                            double memory_limit) {
  constexpr std::size_t named_always = 6;
  constexpr int width = 760, height = 360, left = 70, right = 16, top = 34, bottom = 44;
  double time_low = 1e300, time_high = 0, memory_low = 1e300, memory_high = 0;
  const auto see = [&](double seconds, double memory) {
    if (!is_time(seconds) || !is_time(memory)) return;
    time_low = std::min(time_low, seconds), time_high = std::max(time_high, seconds);
    memory_low = std::min(memory_low, memory), memory_high = std::max(memory_high, memory);
  };
  for (const FrontPoint& p : front) see(p.seconds, p.memory);
  for (const StepMemory& c : candidates) see(c.seconds, c.memory);
  if (time_high == 0) return {};
  // A limit far above everything would press the points into a corner.
  const bool limited = memory_limit > 0 && memory_limit < 4 * memory_high;
  if (limited) memory_high = std::max(memory_high, memory_limit), memory_low = std::min(memory_low, memory_limit);
  Scale x{0, 1, left, width - right}, y{0, 1, height - bottom, top};
  widen(x, memory_low, memory_high, 0.06), widen(y, time_low, time_high, 0.1);
  SvgCanvas svg = titled("predicted step time over memory"), names;
  draw_x_axis(svg, x, y.from, y.to, memory_unit(memory_high), "memory of the rank that holds most");
  draw_y_axis(svg, y, x.from, x.to, time_unit(time_high), "step");
  if (limited) {
    svg.line("limit", x.at(memory_limit), top, x.at(memory_limit), height - bottom);
    svg.text("tick end", x.at(memory_limit) - 5, top + 12, "what there is");
  }
  std::vector<FrontPoint> sorted = front;
  std::sort(sorted.begin(), sorted.end(), [](const FrontPoint& a, const FrontPoint& b) { return a.memory < b.memory; });
  std::string path;
  LabelPlaces labels(x.from, y.to, x.to, y.from);
  if (limited) labels.line(x.at(memory_limit), y.to, x.at(memory_limit), y.from);
  for (const FrontPoint& p : sorted) {  // what so much memory buys holds until more buys more
    if (path.empty())
      path = format("M{:.1f} {:.1f}", x.at(p.memory), y.at(p.seconds));
    else
      path += format("H{:.1f}V{:.1f}", x.at(p.memory), y.at(p.seconds));
    labels.point(x.at(p.memory), y.at(p.seconds));
  }
  if (!path.empty()) svg.path("front", path);
  for (const FrontPoint& p : sorted)
    draw_dot(svg, x.at(p.memory), y.at(p.seconds), "onfront",
             format("{}: {}, {}", p.layout, step_seconds_text(p.seconds), human_bytes(p.memory)));
  for (const StepMemory& c : candidates)
    if (is_time(c.seconds) && is_time(c.memory)) labels.point(x.at(c.memory), y.at(c.seconds));
  for (const StepMemory& c : candidates) {
    if (!is_time(c.seconds) || !is_time(c.memory)) continue;
    draw_dot(svg, x.at(c.memory), y.at(c.seconds),
             c.won        ? "won"
             : c.measured ? "tried"
                          : "untried",
             format("{}: {}, {}", c.name, step_seconds_text(c.seconds), human_bytes(c.memory)));
    if (c.won || c.measured || candidates.size() <= named_always)
      labels.label(names, x.at(c.memory), y.at(c.seconds), c.name);
  }
  svg.append(names);
  return picture(svg, width, height, "front of step time against memory");
}

const char* step_part_label(StepPart part) {
  static constexpr std::array<const char*, step_parts> labels = {
      "matrix products", "attention",      "memory-bound kernels", "recomputation",
      "messages of tp",  "messages of cp", "messages of ep",       "waiting for the host",
      "pipeline bubble", "messages of pp", "gathers of ZeRO 3",    "exposed dp",
      "optimizer",       "overhead"};
  return labels[static_cast<std::size_t>(part)];
}

std::string step_parts_svg(const std::vector<StepBar>& bars) {
  if (bars.empty()) return {};
  constexpr int width = 960, left = 262, right = 150, bar = 20, gap = 9, top = 34, legend_step = 190;
  double longest = 0;
  for (const StepBar& one : bars) longest = std::max({longest, one.time.seconds(), one.measured + one.measured_half});
  if (!is_time(longest)) return {};
  std::array<bool, step_parts> seen{};
  for (const StepBar& one : bars)
    for (std::size_t part = 0; part < step_parts; ++part)
      seen[part] = seen[part] || one.time.parts[part] > 0.002 * longest;
  const auto used = static_cast<int>(std::count(seen.begin(), seen.end(), true));
  const int bottom = top + static_cast<int>(bars.size()) * (bar + gap);
  const int height = bottom + 50 + 18 * ((used + 4) / 5);
  const Scale x{0, longest * 1.02, left, width - right};
  SvgCanvas svg = titled("where a step's time goes, as predicted");
  draw_x_axis(svg, x, bottom, top - 6, time_unit(longest), "step");
  double y = top;
  for (const StepBar& one : bars) {
    svg.text(one.won ? "tick end strong" : "tick end", left - 8, y + 14, clipped(one.name, 36), one.name);
    double at = 0;
    for (std::size_t part = 0; part < step_parts; ++part) {
      const double seconds = std::max(0.0, one.time.parts[part]);
      if (seconds <= 0) continue;
      svg.rect(format("p{}", part), x.at(at), y, x.at(at + seconds) - x.at(at), bar,
               format("{}: {} ({:.1f} %)", step_part_label(static_cast<StepPart>(part)), step_seconds_text(seconds),
                      100 * seconds / one.time.seconds()));
      at += seconds;
    }
    std::string total = step_seconds_text(one.time.seconds());
    double end = at;
    if (is_time(one.measured)) {
      svg.path("measured",
               format("M{0:.1f} {1:.1f}V{2:.1f}M{3:.1f} {4:.1f}H{5:.1f}", x.at(one.measured), y - 3, y + bar + 3,
                      x.at(one.measured - one.measured_half), y + bar / 2, x.at(one.measured + one.measured_half)),
               "measured " + step_seconds_text(one.measured));
      end = std::max(at, one.measured + one.measured_half);
      total += ", measured " + step_seconds_text(one.measured);
    }
    svg.text("tick", x.at(end) + 6, y + 14, total);
    y += bar + gap;
  }
  int place = 0;
  for (std::size_t part = 0; part < step_parts; ++part) {
    if (!seen[part]) continue;
    const int lx = 8 + place % 5 * legend_step, ly = bottom + 46 + place / 5 * 18;
    svg.rect(format("p{}", part), lx, ly, 11, 11);
    svg.text("tick", lx + 16, ly + 10, step_part_label(static_cast<StepPart>(part)));
    ++place;
  }
  return picture(svg, width, height, "where a step's time goes");
}

std::string tuning_style() {
  return R"(
.tuning{display:block;margin:.6rem 0}.tuning .strong{font-weight:700;fill:var(--ink)}.mark{stroke:var(--bg);stroke-width:1}
.mark.won{fill:#c2571a}.mark.tried{fill:#2f7fc9}.mark.untried{fill:var(--dim);opacity:.55}.mark.onfront{fill:var(--bg);stroke:#3f9460;stroke-width:1.6}
.whisker{stroke:var(--dim);stroke-width:1.2;fill:none}.diagonal{stroke:var(--dim);stroke-dasharray:5 4}.front{fill:none;stroke:#3f9460;stroke-width:1.6}
.limit{stroke:var(--bad);stroke-dasharray:3 3}.measured{stroke:var(--ink);stroke-width:1.8;fill:none}
.p0{fill:#2f6db5}.p1{fill:#6aa5de}.p2{fill:#3aa6a0}.p3{fill:#8d6fc0}.p4{fill:#e07b28}.p5{fill:#f0ac4e}.p6{fill:#a9622a}.p7{fill:#9aa3ae}
.p8{fill:#c9ced6}.p9{fill:#d9b430}.p10{fill:#c75c92}.p11{fill:#c9453d}.p12{fill:#4f9a57}.p13{fill:#6d7683}
.idle{fill:var(--line);opacity:.55}.f0{fill:#2f6db5}.f1{fill:#5f9bd8}.b0{fill:#2f8a5b}.b1{fill:#57ae7f}.i0{fill:#1f8a8a}.i1{fill:#4fb0ae}.w0{fill:#9a6a2c}.w1{fill:#bd8d4c}.tail{fill:#8d4a8f}
svg .slot{fill:#fff;font-size:10px;text-anchor:middle}.verdict{white-space:normal;min-width:16rem}.small{font-size:12px}
)";
}

}  // namespace longhaul
