#include "orchestrator/render/logs/event_lines.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/system/clock.h"
#include "base/text/text.h"
#include "base/text/visible_text.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/render/run/status_text.h"

namespace longhaul {
namespace {

constexpr std::size_t sample_width = 120;

// 3e-4 -> "3.0e-4": printf would write 3.0e-04.
std::string learning_rate_text(double value) {
  if (value == 0 || !std::isfinite(value)) return format("{}", value);
  const int exponent = static_cast<int>(std::floor(std::log10(std::fabs(value))));
  return format("{:.1f}e{}", value / std::pow(10.0, exponent), exponent);
}

std::string metric_text(const Value& fields, double total) {
  std::vector<std::string> parts = {"step " + figure_text(fields.get_number("step"))};
  if (total > 0) parts.front() += "/" + figure_text(total);
  for (const char* name : {"heldout_loss", "loss"})
    if (const Value* value = fields.find(name))
      parts.push_back(std::string(name) + " " +
                      (value->is_number() ? figure_text(value->as_number()) : "not a number"));
  if (fields.find("lr")) parts.push_back("lr " + learning_rate_text(fields.get_number("lr")));
  if (const double rate = fields.get_number("tokens_per_s"); rate > 0) parts.push_back(human_count(rate) + " tokens/s");
  if (const double share = fields.get_number("mfu"); share > 0) parts.push_back(format("mfu {:.1f} %", 100 * share));
  return join(parts, "  ");
}

std::string progress_line(const Value& fields) {
  StageStatus stage;
  stage.progress_done = fields.get_number("done");
  stage.progress_total = fields.get_number("total");
  stage.progress_rate = fields.get_number("rate");
  stage.eta_s = fields.get_number("eta_s");
  stage.progress_unit = fields.get_string("unit");
  return std::string(trim(progress_text(stage)));
}

std::string checkpoint_text(const std::string& what, const Value& fields) {
  std::string text = format("{} of step {}", what, fields.get_integer("step"));
  if (const double bytes = fields.get_number("bytes"); bytes > 0) text += "  " + human_bytes(bytes);
  if (fields.find("stall_s")) text += "  the training stood still for " + human_duration(fields.get_number("stall_s"));
  return text;
}

std::string ready_text(const Value& fields) {
  const std::int64_t step = fields.get_integer("step");
  return format("{}  loaded in {}", step > 0 ? format("goes on after step {}", step) : std::string("ready"),
                human_duration(fields.get_number("load_s")));
}

// Kinds of which one or two fields are all that a person needs: the kind as text, and those fields.
struct PlainKind {
  const char *kind, *text, *first, *second;
};
constexpr std::array<PlainKind, 9> plain_kinds = {{
    {"preparing", "preparing", "what", ""},
    {"hang_suspected", "perhaps it hangs:", "text", ""},
    {"faulted", "a rank survived a fault:", "what", ""},
    {"fault", "fault:", "cause", "next"},
    {"injected", "fault injected:", "fault", "means"},
    {"health", "host", "host", "what"},
    {"endpoint", "serves at", "url", ""},
    {"taken_over", "another lead has taken over, on", "host", ""},
    {"launched", "ranks are started, launch", "launch", ""},
}};

std::string plain_text(const PlainKind& kind, const Value& fields) {
  std::string text = kind.text;
  for (const char* name : {kind.first, kind.second}) {
    const Value* value = fields.find(name);
    if (!value || (!value->is_string() && !value->is_number())) continue;
    const std::string said = value->is_string() ? value->as_string() : figure_text(value->as_number());
    if (!said.empty()) text += (name == kind.second ? ": " : " ") + said;
  }
  return text;
}

}  // namespace

std::string EventLines::often(const Event& event, std::string text) {
  text = utc_text(event.wall_ms).substr(5, 14) + "  " + visible_line(text) + "\n";
  text[5] = ' ';  // between the day and the hour
  if (shown_ms_ >= 0 && event.wall_ms - shown_ms_ < apart_ms_) {
    left_out_ = std::move(text);
    return {};
  }
  shown_ms_ = event.wall_ms;
  left_out_.clear();
  return text;
}

std::string EventLines::line(const Event& event) {
  const Value& fields = event.fields;
  std::string text;
  if (event.kind == "metric") {
    metrics_ = true;
    if (!fields.find("heldout_loss")) return often(event, metric_text(fields, total_));
    text = metric_text(fields, total_);
  } else if (event.kind == "progress") {
    return metrics_ || !(fields.get_number("total") > 0) ? std::string() : often(event, progress_line(fields));
  } else if (event.kind == "checkpoint") {
    text = checkpoint_text("checkpoint", fields);
  } else if (event.kind == "local_copy") {
    text = checkpoint_text("copy on the nodes", fields);
  } else if (event.kind == "milestone") {
    text = checkpoint_text("milestone", fields);
  } else if (event.kind == "message") {
    text = fields.get_string("text");
    if (const std::string level = fields.get_string("level"); level != "info") text.insert(0, level + ": ");
  } else if (event.kind == "figure") {
    text = fields.get_string("name") + " " + figure_text(fields.get_number("value"));
    if (const std::string unit = fields.get_string("unit"); !unit.empty()) text += " " + unit;
  } else if (event.kind == "ready") {
    text = ready_text(fields);
  } else if (event.kind == "sample") {
    text = clipped("sample: " + fields.get_string("prompt") + " -> " + fields.get_string("text"), sample_width);
  } else if (event.kind == "recovered") {
    text = "recovered in " + human_duration(fields.get_number("total_s"));
  } else {
    for (const PlainKind& kind : plain_kinds)
      if (event.kind == kind.kind) text = plain_text(kind, fields);
  }
  if (text.empty()) return {};
  std::string when = utc_text(event.wall_ms).substr(5, 14);
  when[5] = ' ';
  return when + "  " + visible_line(text) + "\n";
}

std::string EventLines::lines(const std::vector<Event>& events) {
  for (const Event& event : events) {
    if (event.kind == "progress" && event.fields.get_string("unit") == "steps")
      total_ = event.fields.get_number("total");
    metrics_ = metrics_ || event.kind == "metric";
  }
  std::string text;
  for (const Event& event : events) text += line(event);
  return text;
}

std::string EventLines::rest() {
  return std::exchange(left_out_, {});
}

}  // namespace longhaul
