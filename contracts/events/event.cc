#include "contracts/events/event.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/files/files.h"
#include "base/files/owned_files.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {

std::string event_line(const Event& event) {
  Value line = Value::make_table();
  line.set("t", utc_text(event.wall_ms));
  line.set("ms", static_cast<long long>(event.wall_ms));
  line.set("kind", event.kind);
  line.set("rank", event.rank);
  if (event.fields.is_table())
    for (const ValueMember& member : event.fields.as_table()) line.set(member.key, member.value);
  return to_json(line) + "\n";
}

namespace {

// Python's json module writes NaN, Infinity and -Infinity, which are no JSON. A training reports them when it is most
// worth hearing.
std::string without_python_numbers(std::string_view line) {
  std::string text;
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    std::size_t skipped = 0;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"})
      if (!quoted && line.substr(i, word.size()) == word) skipped = std::max(skipped, word.size());
    text += skipped > 0 ? "null" : std::string(1, line[i]);
    if (skipped > 0) i += skipped - 1;
    if (quoted && line[i] == '\\' && i + 1 < line.size()) text += line[++i];
  }
  return text;
}

}  // namespace

Result<Event> parse_event(std::string_view line) {
  auto parsed = parse_json(line, "event");
  if (!parsed.ok()) parsed = parse_json(without_python_numbers(line), "event");
  LH_TRY(Value value, std::move(parsed));
  if (!value.is_table() || value.get_string("kind").empty()) return make_error(ErrorCode::corrupt, "not an event");
  Event event;
  event.wall_ms = value.get_integer("ms");
  event.kind = value.get_string("kind");
  event.rank = static_cast<int>(value.get_integer("rank"));
  for (const char* key : {"t", "ms", "kind", "rank"}) value.erase(key);
  event.fields = std::move(value);
  return event;
}

EventWriter::EventWriter(const Clock& clock, const std::string& path, int rank) : clock_(clock), rank_(rank) {
  if (!path.empty()) fd_ = append_descriptor(path.c_str(), 0644);
  started_ns_ = clock.monotonic_ns();
}
EventWriter::~EventWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void EventWriter::write(const std::string& kind, Value fields) {
  if (fd_ < 0) return;
  const std::string line = (torn_ ? "\n" : "") + event_line(Event{clock_.wall_ms(), kind, rank_, std::move(fields)});
  // One write call: O_APPEND keeps lines of lead and engine apart. A full disk loses events, never the work.
  const ssize_t n = ::write(fd_, line.data(), line.size());
  if (n > 0) torn_ = static_cast<std::size_t>(n) < line.size();
}

void EventWriter::progress(double done, double total, const std::string& unit, double rate_per_s) {
  const std::int64_t now = clock_.monotonic_ns();
  if (done < total && last_progress_ns_ != 0 && now - last_progress_ns_ < 200'000'000) return;
  last_progress_ns_ = now;
  const double elapsed_s = static_cast<double>(now - started_ns_) * 1e-9;
  if (rate_per_s <= 0 && elapsed_s > 0) rate_per_s = done / elapsed_s;
  Value fields = Value::make_table();
  fields.set("done", done);
  fields.set("total", total);
  fields.set("unit", unit);
  fields.set("rate", rate_per_s);
  if (rate_per_s > 0 && total > 0) fields.set("eta_s", (total - done) / rate_per_s);
  write("progress", std::move(fields));
}

void EventWriter::figure(const std::string& name, double value, const std::string& unit) {
  Value fields = Value::make_table();
  fields.set("name", name);
  fields.set("value", value);
  fields.set("unit", unit);
  write("figure", std::move(fields));
}

void EventWriter::message(const std::string& level, const std::string& text) {
  Value fields = Value::make_table();
  fields.set("level", level);
  fields.set("text", text);
  write("message", std::move(fields));
}

Result<EventPiece> read_event_piece(const std::string& path, std::uint64_t& offset, std::size_t bytes_max) {
  EventPiece piece;
  const auto fd = open_to_read(path);
  if (!fd.ok()) return piece;  // nothing was said yet
  std::string text;
  std::size_t end = std::string::npos;
  bool at_end = false;
  while (!at_end && (text.size() < bytes_max || end == std::string::npos)) {
    const std::size_t before = text.size();
    text.resize(before + std::clamp<std::size_t>(bytes_max, 4096, std::size_t{1} << 16));
    const ssize_t n =
        ::pread(fd->get(), text.data() + before, text.size() - before, static_cast<off_t>(offset + before));
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(0, n)));
    at_end = n <= 0;
    if (const std::size_t last = text.rfind('\n'); last != std::string::npos) end = last;
  }
  piece.bytes_read = text.size();
  piece.more = !at_end;
  if (end == std::string::npos) return piece;
  offset += end + 1;
  for (const std::string& line : split(std::string_view(text).substr(0, end), '\n'))
    if (auto event = parse_event(line); event.ok()) piece.events.push_back(std::move(event).value());
  return piece;
}

Result<std::vector<Event>> read_events(const std::string& path, std::uint64_t& offset) {
  LH_TRY(EventPiece all, read_event_piece(path, offset, std::numeric_limits<std::size_t>::max()));
  return std::move(all.events);
}

}  // namespace longhaul
