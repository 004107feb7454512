#include "orchestrator/render/run/thinned_events.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/files/file_lines.h"

namespace longhaul {
namespace {

constexpr std::size_t head_bytes = 160;  // time, kind and rank come first (event_line)

bool is_metric(std::string_view line) {
  return line.substr(0, head_bytes).find("\"kind\":\"metric\"") != std::string_view::npos;
}

bool is_progress(std::string_view line) {
  return line.substr(0, head_bytes).find("\"kind\":\"progress\"") != std::string_view::npos;
}

// Metrics are numbers: a comma parts two fields.
std::size_t fields_of(std::string_view line) {
  return static_cast<std::size_t>(std::count(line.begin(), line.end(), ','));
}

}  // namespace

std::vector<Event> read_thinned_events(const std::string& path, std::size_t usual_max) {
  std::map<std::size_t, std::size_t> lines;  // metrics, by their number of fields
  for_each_line(path, [&](std::string_view line) {
    if (is_metric(line)) ++lines[fields_of(line)];
  });
  const auto usual =
      std::max_element(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::size_t count = usual == lines.end() ? 0 : usual->second;
  const std::size_t every = std::max<std::size_t>(1, (count + usual_max - 1) / std::max<std::size_t>(1, usual_max));
  std::vector<Event> events;
  std::size_t seen = 0;
  for_each_line(path, [&](std::string_view line) {
    if (is_progress(line)) return;
    if (every > 1 && is_metric(line) && fields_of(line) == usual->first && seen++ % every != 0 && seen != count) return;
    if (auto event = parse_event(line); event.ok()) events.push_back(std::move(*event));
  });
  return events;
}

}  // namespace longhaul
