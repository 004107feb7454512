#include "orchestrator/render/run/thinned_events.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>

#include "base/files/owned_files.h"

namespace longhaul {
namespace {

constexpr std::size_t read_bytes = 1 << 20;
constexpr std::size_t head_bytes = 160;  // time, kind and rank come first (event_line)

void each_line(const std::string& path, const std::function<void(std::string_view)>& see) {
  const auto fd = open_to_read(path);
  std::string text;  // what is left of the last read, and the next
  std::vector<char> buffer(read_bytes);
  while (fd.ok()) {
    const ssize_t n = ::read(fd->get(), buffer.data(), buffer.size());
    if (n <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(n));
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
      see(std::string_view(text).substr(begin, end - begin));
    text.erase(0, begin);
  }
}

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
  each_line(path, [&](std::string_view line) {
    if (is_metric(line)) ++lines[fields_of(line)];
  });
  const auto usual =
      std::max_element(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::size_t count = usual == lines.end() ? 0 : usual->second;
  const std::size_t every = std::max<std::size_t>(1, (count + usual_max - 1) / std::max<std::size_t>(1, usual_max));
  std::vector<Event> events;
  std::size_t seen = 0;
  each_line(path, [&](std::string_view line) {
    if (is_progress(line)) return;
    if (every > 1 && is_metric(line) && fields_of(line) == usual->first && seen++ % every != 0 && seen != count) return;
    if (auto event = parse_event(line); event.ok()) events.push_back(std::move(*event));
  });
  return events;
}

}  // namespace longhaul
