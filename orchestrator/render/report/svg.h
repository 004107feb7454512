// Drawings of the report as inline SVG. Colours are classes of the page's style sheet.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/render/run/run_story.h"

namespace longhaul {

struct GraphNode {
  std::string name, kind, state;
  std::vector<int> needs;  // indices of earlier nodes
};
// Stages from top to bottom, each below what it needs.
std::string graph_svg(const std::vector<GraphNode>& nodes);

// Lines over steps. Points that are not finite are left out; long curves are thinned to their minimum and maximum per
// column. "" if there is nothing to draw.
std::string chart_svg(const std::string& title, const std::vector<Curve>& curves);

// What is left after each step of a curation, in bytes.
std::string waterfall_svg(const Value& steps);

// Round values between low and high, at most about `count` of them.
std::vector<double> axis_ticks(double low, double high, int count);

}  // namespace longhaul
