#include "orchestrator/render/report/tuning_svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text/text.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/render/report/svg.h"
#include "orchestrator/render/run/status_text.h"

namespace longhaul {
namespace {

std::string svg_text(const std::string& text) {
  return html_escape(repair_utf8(text));
}

std::string open_svg(double width, double height, const std::string& name, const std::string& title) {
  return format(
      "<svg class=\"chart tuning\" style=\"width:{0}px\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "aria-label=\"{2}\"><text class=\"title\" x=\"8\" y=\"18\">{3}</text>",
      width, height, svg_text(name), svg_text(title));
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

std::string x_axis(const Scale& x, double y, double top, const Unit& unit, const std::string& name) {
  std::string svg;
  for (const double tick : axis_ticks(x.low / unit.size, x.high / unit.size, 6))
    svg += format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/><text class=\"tick "
        "middle\" x=\"{0:.1f}\" y=\"{3:.1f}\">{4}</text>",
        x.at(tick * unit.size), top, y, y + 16, figure_text(tick));
  return svg + format("<text class=\"tick middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}, {}</text>", (x.from + x.to) / 2,
                      y + 33, svg_text(name), unit.name);
}

std::string y_axis(const Scale& y, double x, double right, const Unit& unit, const std::string& name) {
  std::string svg;
  for (const double tick : axis_ticks(y.low / unit.size, y.high / unit.size, 6))
    svg += format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/><text class=\"tick end\" "
        "x=\"{3:.1f}\" y=\"{4:.1f}\">{5}</text>",
        x, right, y.at(tick * unit.size), x - 6, y.at(tick * unit.size) + 4, figure_text(tick));
  return svg + format("<text class=\"tick middle\" transform=\"translate(14 {:.1f}) rotate(-90)\">{}, {}</text>",
                      (y.from + y.to) / 2, svg_text(name), unit.name);
}

// Names beside points, each at the first of eight places where it covers nothing; one without a place is left out (the
// point's tooltip has it).
class LabelPlaces {
 public:
  LabelPlaces(double left, double top, double right, double bottom) : frame_{left, top, right, bottom} {}
  void point(double x, double y) { taken_.push_back({x - 5, y - 5, x + 5, y + 5}); }
  void line(double x1, double y1, double x2, double y2) { taken_.push_back({x1 - 1, y1 - 1, x2 + 1, y2 + 1}); }
  std::string label(double x, double y, const std::string& name) {
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
      return format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", place.x, place.y,
                    svg_text(clipped(name, letters)));
    }
    return {};
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

std::string dot(double x, double y, const char* kind, const std::string& tooltip) {
  return format("<circle class=\"mark {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{}</title></circle>", kind, x, y,
                svg_text(tooltip));
}

bool is_time(double seconds) {
  return std::isfinite(seconds) && seconds > 0;
}

}  // namespace

std::string step_seconds_text(double seconds) {
  return seconds < 1 ? format("{:.1f} ms", seconds * 1e3) : format("{:.2f} s", seconds);
}

std::string predicted_measured_svg(const std::vector<PredictedMeasured>& points) {
  constexpr double width = 520, height = 480, left = 70, right = 16, top = 34, bottom = 44;
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
  std::string svg =
      open_svg(width, height, "predicted against measured step time", "step time: measured over predicted");
  svg += x_axis(x, y.from, y.to, unit, "predicted") + y_axis(y, x.from, x.to, unit, "measured");
  svg += format("<line class=\"diagonal\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>", x.from, y.from,
                x.to, y.to);
  LabelPlaces labels(x.from, y.to, x.to, y.from);
  for (const PredictedMeasured& p : points) {
    if (!is_time(p.predicted) || !is_time(p.measured)) continue;
    const double px = x.at(p.predicted), py = y.at(p.measured);
    labels.point(px, py);
    labels.line(x.at(p.predicted - p.predicted_half), py, x.at(p.predicted + p.predicted_half), py);
    labels.line(px, y.at(p.measured + p.measured_half), px, y.at(p.measured - p.measured_half));
  }
  std::string names;
  for (const PredictedMeasured& p : points) {
    if (!is_time(p.predicted) || !is_time(p.measured)) continue;
    const double px = x.at(p.predicted), py = y.at(p.measured);
    svg += format("<path class=\"whisker\" d=\"M{:.1f} {:.1f}H{:.1f}M{:.1f} {:.1f}V{:.1f}\"/>",
                  x.at(p.predicted - p.predicted_half), py, x.at(p.predicted + p.predicted_half), px,
                  y.at(p.measured - p.measured_half), y.at(p.measured + p.measured_half));
    svg += dot(
        px, py, p.won ? "won" : "tried",
        format("{}: predicted {}, measured {}", p.name, step_seconds_text(p.predicted), step_seconds_text(p.measured)));
    names += labels.label(px, py, p.name);
  }
  return svg + names + "</svg>";
}

std::string step_memory_svg(const std::vector<FrontPoint>& front, const std::vector<StepMemory>& candidates,
                            double memory_limit) {
  constexpr std::size_t named_always = 6;
  constexpr double width = 760, height = 360, left = 70, right = 16, top = 34, bottom = 44;
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
  std::string svg = open_svg(width, height, "front of step time against memory", "predicted step time over memory");
  svg += x_axis(x, y.from, y.to, memory_unit(memory_high), "memory of the rank that holds most") +
         y_axis(y, x.from, x.to, time_unit(time_high), "step");
  if (limited)
    svg += format(
        "<line class=\"limit\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/><text class=\"tick end\" "
        "x=\"{3:.1f}\" y=\"{4}\">what there is</text>",
        x.at(memory_limit), y.to, y.from, x.at(memory_limit) - 5, y.to + 12);
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
  if (!path.empty()) svg += "<path class=\"front\" d=\"" + path + "\"/>";
  for (const FrontPoint& p : sorted)
    svg += dot(x.at(p.memory), y.at(p.seconds), "onfront",
               format("{}: {}, {}", p.layout, step_seconds_text(p.seconds), human_bytes(p.memory)));
  for (const StepMemory& c : candidates)
    if (is_time(c.seconds) && is_time(c.memory)) labels.point(x.at(c.memory), y.at(c.seconds));
  std::string names;
  for (const StepMemory& c : candidates) {
    if (!is_time(c.seconds) || !is_time(c.memory)) continue;
    svg += dot(x.at(c.memory), y.at(c.seconds),
               c.won        ? "won"
               : c.measured ? "tried"
                            : "untried",
               format("{}: {}, {}", c.name, step_seconds_text(c.seconds), human_bytes(c.memory)));
    if (c.won || c.measured || candidates.size() <= named_always)
      names += labels.label(x.at(c.memory), y.at(c.seconds), c.name);
  }
  return svg + names + "</svg>";
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
  constexpr double width = 960, left = 262, right = 150, bar = 20, gap = 9, top = 34, legend_step = 190;
  double longest = 0;
  for (const StepBar& one : bars) longest = std::max({longest, one.time.seconds(), one.measured + one.measured_half});
  if (!is_time(longest)) return {};
  std::array<bool, step_parts> seen{};
  for (const StepBar& one : bars)
    for (std::size_t part = 0; part < step_parts; ++part)
      seen[part] = seen[part] || one.time.parts[part] > 0.002 * longest;
  const auto used = static_cast<int>(std::count(seen.begin(), seen.end(), true));
  const double bottom = top + static_cast<double>(bars.size()) * (bar + gap);
  const double height = bottom + 50 + 18 * std::ceil(used / 5.0);
  const Scale x{0, longest * 1.02, left, width - right};
  std::string svg = open_svg(width, height, "where a step's time goes", "where a step's time goes, as predicted");
  svg += x_axis(x, bottom, top - 6, time_unit(longest), "step");
  double y = top;
  for (const StepBar& one : bars) {
    svg += format("<text class=\"tick end{}\" x=\"{}\" y=\"{:.1f}\">{}<title>{}</title></text>",
                  one.won ? " strong" : "", left - 8, y + 14, svg_text(clipped(one.name, 36)), svg_text(one.name));
    double at = 0;
    for (std::size_t part = 0; part < step_parts; ++part) {
      const double seconds = std::max(0.0, one.time.parts[part]);
      if (seconds <= 0) continue;
      svg += format(
          "<rect class=\"p{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"><title>{}: {} ({:.1f} "
          "%)</title></rect>",
          part, x.at(at), y, x.at(at + seconds) - x.at(at), bar, step_part_label(static_cast<StepPart>(part)),
          step_seconds_text(seconds), 100 * seconds / one.time.seconds());
      at += seconds;
    }
    std::string total = step_seconds_text(one.time.seconds());
    double end = at;
    if (is_time(one.measured)) {
      svg += format(
          "<path class=\"measured\" d=\"M{0:.1f} {1:.1f}V{2:.1f}M{3:.1f} {4:.1f}H{5:.1f}\"><title>measured "
          "{6}</title></path>",
          x.at(one.measured), y - 3, y + bar + 3, x.at(one.measured - one.measured_half), y + bar / 2,
          x.at(one.measured + one.measured_half), step_seconds_text(one.measured));
      end = std::max(at, one.measured + one.measured_half);
      total += ", measured " + step_seconds_text(one.measured);
    }
    svg += format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", x.at(end) + 6, y + 14, total);
    y += bar + gap;
  }
  int place = 0;
  for (std::size_t part = 0; part < step_parts; ++part) {
    if (!seen[part]) continue;
    const int row = place / 5;
    const double lx = 8 + place % 5 * legend_step, ly = bottom + 46 + row * 18;
    svg += format(
        "<rect class=\"p{}\" x=\"{}\" y=\"{}\" width=\"11\" height=\"11\"/><text class=\"tick\" x=\"{}\" "
        "y=\"{}\">{}</text>",
        part, lx, ly, lx + 16, ly + 10, step_part_label(static_cast<StepPart>(part)));
    ++place;
  }
  return svg + "</svg>";
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
