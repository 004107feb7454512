#include "orchestrator/render/report/svg.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "orchestrator/render/draw/svg_canvas.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/render/run/status_text.h"

namespace longhaul {
namespace {

struct Range {
  double low = 0, high = 1;
  double share(double value) const { return (value - low) / (high - low); }
};

struct Bounds {
  Range x, y;
  bool any = false;
};

Bounds bounds_of(const std::vector<Curve>& curves) {
  Bounds bounds;
  for (const Curve& curve : curves)
    for (const CurvePoint& point : curve.points) {
      if (!std::isfinite(point.step) || !std::isfinite(point.value)) continue;
      if (!bounds.any) bounds.x = {point.step, point.step}, bounds.y = {point.value, point.value};
      bounds.any = true;
      bounds.x = {std::min(bounds.x.low, point.step), std::max(bounds.x.high, point.step)};
      bounds.y = {std::min(bounds.y.low, point.value), std::max(bounds.y.high, point.value)};
    }
  if (bounds.x.high == bounds.x.low) bounds.x.high += 1;
  const double margin = bounds.y.high == bounds.y.low ? std::max(1e-9, std::fabs(bounds.y.high) * 0.1)
                                                      : (bounds.y.high - bounds.y.low) * 0.05;
  bounds.y = {bounds.y.low - margin, bounds.y.high + margin};
  return bounds;
}

// At most two points (smallest and largest) per column of the drawing, in the order of steps.
std::vector<CurvePoint> thinned(const Curve& curve, const Range& x, int columns) {
  std::vector<CurvePoint> finite, kept;
  for (const CurvePoint& point : curve.points)
    if (std::isfinite(point.step) && std::isfinite(point.value)) finite.push_back(point);
  if (finite.size() <= static_cast<std::size_t>(2 * columns)) return finite;
  for (std::size_t i = 0; i < finite.size();) {
    const int column = static_cast<int>(x.share(finite[i].step) * columns);
    std::size_t low = i, high = i;
    for (; i < finite.size() && static_cast<int>(x.share(finite[i].step) * columns) == column; ++i) {
      if (finite[i].value < finite[low].value) low = i;
      if (finite[i].value > finite[high].value) high = i;
    }
    kept.push_back(finite[std::min(low, high)]);
    if (low != high) kept.push_back(finite[std::max(low, high)]);
  }
  return kept;
}

// The graph grows downwards, as a page does: however long a chain of stages is, nothing is cut at the right.
constexpr int box_width = 164, box_height = 42, gap_x = 20, gap_y = 28, graph_margin = 8;
constexpr int boxes_in_a_row = 5;  // fit on the page

// So far an arc over so many rows reaches beyond the boxes.
int arc_width(int rows) {
  return 12 + 10 * std::min(rows, 8);
}

struct GraphPlaces {
  std::vector<int> row, left, top;  // of each node
  int width = 0, height = 0;
};

// Each stage in a row below all that it needs; a level of more than a row of boxes takes several.
GraphPlaces place_graph(const std::vector<GraphNode>& nodes) {
  GraphPlaces places;
  std::vector<int> level(nodes.size(), 0), in_level;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const int need : nodes[i].needs) level[i] = std::max(level[i], level[static_cast<std::size_t>(need)] + 1);
    in_level.resize(std::max(in_level.size(), static_cast<std::size_t>(level[i]) + 1), 0);
    ++in_level[static_cast<std::size_t>(level[i])];
  }
  std::vector<int> first_row, boxes;  // of each level; in each row
  for (const int count : in_level) {
    first_row.push_back(static_cast<int>(boxes.size()));
    for (int left = count; left > 0; left -= boxes_in_a_row) boxes.push_back(std::min(left, boxes_in_a_row));
  }
  const int widest = *std::max_element(boxes.begin(), boxes.end());
  std::vector<int> placed(in_level.size(), 0);
  int longest = 0;  // arc beside the boxes, in rows
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const int at = placed[static_cast<std::size_t>(level[i])]++;
    const int row = first_row[static_cast<std::size_t>(level[i])] + at / boxes_in_a_row;
    const int missing = widest - boxes[static_cast<std::size_t>(row)];  // rows are centred
    places.row.push_back(row);
    places.left.push_back(graph_margin + (2 * (at % boxes_in_a_row) + missing) * (box_width + gap_x) / 2);
    places.top.push_back(graph_margin + row * (box_height + gap_y));
    for (const int need : nodes[i].needs) longest = std::max(longest, row - places.row[static_cast<std::size_t>(need)]);
  }
  places.width = 2 * graph_margin + widest * (box_width + gap_x) - gap_x + (longest > 1 ? arc_width(longest) : 0);
  places.height = 2 * graph_margin + static_cast<int>(boxes.size()) * (box_height + gap_y) - gap_y;
  return places;
}

// To the next row straight down; over rows in between as an arc beside the boxes, which would hide it.
std::string edge_path(const GraphPlaces& places, std::size_t from, std::size_t to) {
  const int rows = places.row[to] - places.row[from];
  if (rows <= 1) {
    const int x1 = places.left[from] + box_width / 2, y1 = places.top[from] + box_height;
    const int x2 = places.left[to] + box_width / 2, y2 = places.top[to];
    return format("M{} {} C{} {} {} {} {} {}", x1, y1, x1, y1 + gap_y / 2, x2, y2 - gap_y / 2, x2, y2);
  }
  const int x1 = places.left[from] + box_width, y1 = places.top[from] + box_height / 2;
  const int x2 = places.left[to] + box_width, y2 = places.top[to] + box_height / 2;
  // A cubic whose control points lie so far out reaches three quarters of the way.
  const int out = std::max(x1, x2) + arc_width(rows) * 4 / 3 - 4;
  return format("M{} {} C{} {} {} {} {} {}", x1, y1, out, y1, out, y2, x2, y2);
}

}  // namespace

std::vector<double> axis_ticks(double low, double high, int count) {
  std::vector<double> ticks;
  if (!(high > low) || count < 1) return ticks;
  const double raw = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = power;
  for (double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = power * factor;
    if (step >= raw) break;
  }
  for (double k = std::ceil(low / step); k * step <= high * (1 + 1e-12) && ticks.size() < 50; k += 1)
    ticks.push_back(k * step);
  return ticks;
}

std::string chart_svg(const std::string& title, const std::vector<Curve>& curves) {
  const Bounds bounds = bounds_of(curves);
  if (!bounds.any) return {};
  constexpr int width = 640, height = 260, left = 64, right = 16, top = 30, bottom = 34;
  const auto at_x = [&](double x) { return left + bounds.x.share(x) * (width - left - right); };
  const auto at_y = [&](double y) { return height - bottom - bounds.y.share(y) * (height - top - bottom); };
  SvgCanvas svg;
  svg.text("title", left, 18, title);
  for (double y : axis_ticks(bounds.y.low, bounds.y.high, 5)) {
    svg.line("grid", left, at_y(y), width - right, at_y(y));
    svg.text("tick end", left - 6, at_y(y) + 4, figure_text(y));
  }
  for (double x : axis_ticks(bounds.x.low, bounds.x.high, 6))
    svg.text("tick middle", at_x(x), height - bottom + 18, figure_text(x));
  double legend_x = width - right;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    std::string points;
    const auto kept = thinned(curves[i], bounds.x, 600);
    for (const CurvePoint& point : kept) points += format("{:.1f},{:.1f} ", at_x(point.step), at_y(point.value));
    if (kept.size() == 1)
      svg.circle(format("dot c{}", i % 6), at_x(kept[0].step), at_y(kept[0].value), 3);
    else
      svg.polyline(format("line c{}", i % 6), trim(points));
    if (curves.size() < 2) continue;
    svg.text(format("legend end c{}", i % 6), legend_x, 18, curves[i].name);
    legend_x -= 12 + 7.0 * static_cast<double>(curves[i].name.size());
  }
  return svg.picture({.classes = "chart", .width = width, .height = height, .label = title});
}

std::string graph_svg(const std::vector<GraphNode>& nodes) {
  if (nodes.empty()) return {};
  const GraphPlaces places = place_graph(nodes);
  SvgCanvas svg;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const int need : nodes[i].needs) svg.path("edge", edge_path(places, static_cast<std::size_t>(need), i));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const GraphNode& node = nodes[i];
    const int left = places.left[i], top = places.top[i];
    svg.open_group("node " + node.state, node.name + ": " + node.state);
    svg.rounded_rect(left, top, box_width, box_height, 5);
    svg.text("", left + 10, top + 18, clipped(node.name, 18));
    svg.text("kind", left + 10, top + 34, clipped(node.kind + " · " + node.state, 24));
    svg.close_group();
  }
  return svg.picture({.classes = "graph",
                      .width = places.width,
                      .height = places.height,
                      .label = "graph of stages",
                      .size = SvgCanvas::Frame::Size::own});
}

std::string waterfall_svg(const Value& steps) {
  if (!steps.is_array() || steps.size() == 0) return {};
  constexpr int width = 640, bar_height = 22, gap = 8, left = 170, right = 150;
  double largest = 0;
  for (const Value& step : steps.as_array())
    largest = std::max({largest, step.get_number("bytes_in"), step.get_number("bytes_out")});
  if (largest <= 0) return {};
  const int height = static_cast<int>(steps.size()) * (bar_height + gap) + gap;
  SvgCanvas svg;
  int y = gap;
  for (const Value& step : steps.as_array()) {
    const double in = step.get_number("bytes_in") / largest * (width - left - right),
                 out = step.get_number("bytes_out") / largest * (width - left - right);
    svg.text("tick end", left - 8, y + 15, clipped(step.get_string("step"), 24));
    svg.rect("removed", left, y, std::max(in, out), bar_height);
    svg.rect("kept", left, y, out, bar_height);
    svg.text("tick", left + std::max(in, out) + 8, y + 15,
             format("{}, {} docs", human_bytes(step.get_number("bytes_out")), step.get_integer("documents_out")));
    y += bar_height + gap;
  }
  return svg.picture({.classes = "chart", .width = width, .height = height, .label = "curation waterfall"});
}

}  // namespace longhaul
