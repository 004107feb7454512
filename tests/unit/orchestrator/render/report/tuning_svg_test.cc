// Drawings of tuning: every one is well-formed whatever it is given, its marks stand where the values are, names of
// strangers stay text.
#include "orchestrator/render/report/tuning_svg.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/text/text.h"

namespace longhaul {
namespace {

namespace tuning_svg_test {

// "" if all elements are closed in order, else what is wrong. Enough of XML for what is drawn here.
std::string wrong_with(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return "an element without an end";
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return "'<' inside of " + tag;
    const std::string name = tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" />", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != name) return "</" + name + "> closes nothing";
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
  }
  if (text.find("nan") != std::string::npos || text.find("inf\"") != std::string::npos)
    return "a coordinate is no number";
  return open.empty() ? "" : "<" + open.back() + "> stays open";
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The number behind `attribute=" of the nth element that starts with `element`.
double attribute(const std::string& svg, const std::string& element, int nth, const std::string& name) {
  std::size_t at = svg.find(element);
  for (int i = 0; i < nth; ++i) at = svg.find(element, at + 1);
  REQUIRE(at != std::string::npos);
  const std::string tag = svg.substr(at, svg.find('>', at) - at);
  const std::size_t value = tag.find(" " + name + "=\"");
  REQUIRE(value != std::string::npos);
  return std::stod(tag.substr(value + name.size() + 3));
}

StepBar bar_of(const std::string& name, double products, double bubble) {
  StepBar bar;
  bar.name = name;
  bar.time[StepPart::products] = products, bar.time[StepPart::bubble] = bubble;
  return bar;
}

LayoutForecast pipeline_of(PipelineKind kind, int pp, int vp, int micro_batches) {
  LayoutForecast f;
  f.name = "a & b";
  f.pipeline.schedule = {kind, pp, vp, micro_batches, 0};
  f.pipeline.costs.stages.assign(static_cast<std::size_t>(pp) * static_cast<std::size_t>(vp), {1, 1, 1, 2});
  f.time[StepPart::products] = 3.0 * micro_batches * vp, f.time[StepPart::bubble] = 3.0 * (pp - 1);
  f.time[StepPart::optimizer] = 4;
  return f;
}

const std::string hostile = "</text><script>alert(\"1\")</script> & 'x' \xff";

TEST_CASE("predicted against measured: one scale for both axes, the diagonal where they agree") {
  const std::string svg =
      predicted_measured_svg({{"exact", 0.2, 0.02, 0.2, 0.01, true}, {"slower", 0.1, 0, 0.3, 0, false}});
  CHECK(wrong_with(svg) == "");
  CHECK(count_of(svg, "<circle") == 2);
  CHECK(count_of(svg, "class=\"mark won\"") == 1);
  // A point that was predicted exactly lies on the diagonal.
  const double x1 = attribute(svg, "<line class=\"diagonal\"", 0, "x1"),
               x2 = attribute(svg, "<line class=\"diagonal\"", 0, "x2");
  const double y1 = attribute(svg, "<line class=\"diagonal\"", 0, "y1"),
               y2 = attribute(svg, "<line class=\"diagonal\"", 0, "y2");
  const double cx = attribute(svg, "<circle", 0, "cx"), cy = attribute(svg, "<circle", 0, "cy");
  CHECK((cx - x1) / (x2 - x1) == doctest::Approx((cy - y1) / (y2 - y1)).epsilon(0.01));
  // Slower than predicted lies above it: y grows downwards.
  const double sx = attribute(svg, "<circle", 1, "cx"), sy = attribute(svg, "<circle", 1, "cy");
  CHECK((sx - x1) / (x2 - x1) < (sy - y1) / (y2 - y1));
  CHECK(svg.find("predicted, ms") != std::string::npos);
  CHECK(predicted_measured_svg({{"s", 2, 0, 3, 0, false}}).find("predicted, s") != std::string::npos);
}

TEST_CASE("what was not predicted or not measured is no point; none at all is no drawing") {
  CHECK(predicted_measured_svg({}).empty());
  CHECK(
      predicted_measured_svg({{"a", 0, 0, 1, 0, false}, {"b", 1, 0, 0, 0, false}, {"c", NAN, 0, 1, 0, false}}).empty());
  const std::string one = predicted_measured_svg({{"a", 1, 0, 1, 0, false}, {"b", 1, 0, 0, 0, false}});
  CHECK(wrong_with(one) == "");
  CHECK(count_of(one, "<circle") == 1);
}

TEST_CASE("names of strangers are text in every drawing") {
  LayoutForecast f = pipeline_of(PipelineKind::one_f_one_b, 2, 1, 4);
  f.name = hostile;
  for (const std::string& svg : {predicted_measured_svg({{hostile, 1, 0.1, 2, 0.1, true}}),
                                 step_memory_svg({{hostile, 1, 1e9}}, {{hostile, 1, 2e9, true, true}}, 3e9),
                                 step_parts_svg({bar_of(hostile, 1, 1)}), step_timeline_svg(f)}) {
    CHECK(wrong_with(svg) == "");
    CHECK(svg.find("<script") == std::string::npos);
    CHECK(is_valid_utf8(svg));
  }
}

TEST_CASE("step over memory: less memory to the left, the limit only where it is near") {
  const std::vector<FrontPoint> front = {{"fast", 1, 40e9}, {"small", 3, 10e9}};
  const std::string svg = step_memory_svg(front, {{"tried", 1.5, 20e9, true, false}}, 60e9);
  CHECK(wrong_with(svg) == "");
  CHECK(count_of(svg, "mark onfront") == 2);
  CHECK(count_of(svg, "class=\"limit\"") == 1);
  CHECK(attribute(svg, "<circle", 0, "cx") < attribute(svg, "<circle", 1, "cx"));  // sorted by memory
  CHECK(attribute(svg, "<circle", 0, "cy") < attribute(svg, "<circle", 1, "cy"));
  CHECK(svg.find("GiB") != std::string::npos);
  CHECK(step_memory_svg(front, {}, 1e12).find("class=\"limit\"") == std::string::npos);
  CHECK(step_memory_svg({}, {}, 60e9).empty());
  const std::string one = step_memory_svg({{"only", 1, 1e6}}, {}, 0);
  CHECK(wrong_with(one) == "");
  CHECK(one.find("MiB") != std::string::npos);
}

TEST_CASE("bars: as long as their time, parts in one scale, a mark where it was measured") {
  StepBar measured = bar_of("b", 1, 1);
  measured.measured = 3, measured.measured_half = 0.1;
  const std::string svg = step_parts_svg({bar_of("a", 4, 0), measured});
  CHECK(wrong_with(svg) == "");
  const double four = attribute(svg, "<rect class=\"p0\"", 0, "width"),
               one = attribute(svg, "<rect class=\"p0\"", 1, "width");
  CHECK(four == doctest::Approx(4 * one).epsilon(0.01));
  CHECK(count_of(svg, "class=\"measured\"") == 1);
  CHECK(svg.find("pipeline bubble") != std::string::npos);
  CHECK(svg.find("messages of cp") == std::string::npos);  // nothing of it: not in the legend
  CHECK(step_parts_svg({}).empty());
  CHECK(step_parts_svg({bar_of("nothing", 0, 0)}).empty());
  CHECK(wrong_with(step_parts_svg({bar_of("below zero", 1, -1e-12)})) == "");
}

TEST_CASE("a pipeline's operations are all drawn, in the time of the step") {
  for (const PipelineKind kind : {PipelineKind::one_f_one_b, PipelineKind::zb_h1}) {
    const std::string svg = step_timeline_svg(pipeline_of(kind, 4, 1, 8));
    CHECK(wrong_with(svg) == "");
    CHECK(svg.find("8 micro-batches on 4 stages") != std::string::npos);
    const std::size_t from = svg.find("<path class=\"f0\"");
    REQUIRE(from != std::string::npos);
    CHECK(count_of(svg.substr(from, svg.find("/>", from) - from), "M") == 4 * 8);
    CHECK((svg.find("class=\"w0\"") != std::string::npos) == (kind == PipelineKind::zb_h1));
  }
  const std::string chunks = step_timeline_svg(pipeline_of(PipelineKind::interleaved, 2, 2, 4));
  CHECK(wrong_with(chunks) == "");
  CHECK(chunks.find("class=\"f1\"") != std::string::npos);
  const std::string single = step_timeline_svg(pipeline_of(PipelineKind::one_f_one_b, 1, 1, 1));
  CHECK(wrong_with(single) == "");
  CHECK(single.find("1 micro-batch on 1 stage,") != std::string::npos);
  CHECK(single.find("class=\"tail\"") != std::string::npos);  // the update
}

TEST_CASE("of a long step a part is drawn and said to be one; what is too long or cannot run is a sentence") {
  const std::string longer = step_timeline_svg(pipeline_of(PipelineKind::interleaved, 8, 4, 128));
  CHECK(wrong_with(longer) == "");
  CHECK(longer.find("16 of 128 micro-batches") != std::string::npos);
  CHECK(longer.size() < 400'000);
  const std::string endless = step_timeline_svg(pipeline_of(PipelineKind::one_f_one_b, 256, 1, 1024));
  CHECK(endless.find("<svg") == std::string::npos);
  CHECK(endless.find("no picture of a step of a &amp; b") != std::string::npos);
  const std::string impossible = step_timeline_svg(pipeline_of(PipelineKind::one_f_one_b, 2, 2, 4));
  CHECK(impossible.find("no picture") != std::string::npos);
}

TEST_CASE("every class that is drawn has a colour") {
  const std::string style = tuning_style();
  for (int part = 0; part < step_parts; ++part) CHECK(style.find(format(".p{}{{", part)) != std::string::npos);
  for (const char* name : {".f0{", ".f1{", ".b0{", ".i0{", ".w0{", ".tail{", ".idle{", ".mark.won{", ".mark.tried{"})
    CHECK(style.find(name) != std::string::npos);
}

}  // namespace tuning_svg_test
}  // namespace
}  // namespace longhaul
