#include "resiliency/beat/beat_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

enum class Operand { none, number, name, optional_name };
struct KeywordOf {
  const char* text;
  BeatLine::Keyword keyword;
  Operand operand;
};
constexpr std::array<KeywordOf, 8> beat_keywords = {{{"step", BeatLine::Keyword::step, Operand::number},
                                                     {"section", BeatLine::Keyword::section, Operand::name},
                                                     {"epoch", BeatLine::Keyword::epoch, Operand::number},
                                                     {"enqueued", BeatLine::Keyword::enqueued, Operand::name},
                                                     {"completed", BeatLine::Keyword::completed, Operand::name},
                                                     {"waits", BeatLine::Keyword::waits, Operand::optional_name},
                                                     {"progress", BeatLine::Keyword::progress, Operand::none},
                                                     {"done", BeatLine::Keyword::done, Operand::number}}};

Error refused(std::string what, std::string hint = {}) {
  return make_error(ErrorCode::invalid_input, std::move(what), std::move(hint));
}

Status check_name(std::string_view name) {
  if (name.size() >= beat_name_bytes) return refused(format("a name has at most {} bytes", beat_name_bytes - 1));
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }) ||
      !is_valid_utf8(name))
    return refused("a name is printable text");
  return {};
}

}  // namespace

Result<BeatLine> parse_beat_line(std::string_view text) {
  if (text.size() > beat_line_max) return refused(format("a line has at most {} bytes", beat_line_max));
  const std::string line = trim(text);
  const std::size_t space = line.find(' ');
  const std::string first = line.substr(0, space), rest = space == std::string::npos ? "" : trim(line.substr(space));
  const auto known = std::find_if(beat_keywords.begin(), beat_keywords.end(),
                                  [&](const KeywordOf& keyword) { return first == keyword.text; });
  if (known == beat_keywords.end()) {
    std::vector<std::string> keywords;
    for (const KeywordOf& keyword : beat_keywords) keywords.emplace_back(keyword.text);
    return refused("no such keyword", "there are " + join(keywords, " "));
  }
  BeatLine parsed;
  parsed.keyword = known->keyword;
  switch (known->operand) {
    case Operand::none:
      if (!rest.empty()) return refused(first + " stands alone");
      break;
    case Operand::number: {
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), parsed.number);
      if (rest.empty() || error != std::errc() || end != rest.data() + rest.size() || parsed.number < 0)
        return refused(first + " wants one whole number, 0 or more");
      break;
    }
    case Operand::name:
      if (rest.empty()) return refused(first + " wants a name");
      [[fallthrough]];
    case Operand::optional_name: LH_CHECK(check_name(rest)); parsed.name = rest;
  }
  return parsed;
}

Status apply_beat_line(const BeatLine& line, HeartbeatPage& page) {
  const auto communicator = [&]() -> Result<int> {
    const int id = page.communicator(line.name);
    if (id < 0) return refused(format("there are {} names of communicators already", beat_communicators_max));
    return id;
  };
  switch (line.keyword) {
    case BeatLine::Keyword::step: page.step(line.number); break;
    case BeatLine::Keyword::epoch: page.epoch(line.number); break;
    case BeatLine::Keyword::section: {
      const int id = page.section(line.name);
      if (id == 0 && line.name != "start")
        return refused(format("there are {} names of sections already", beat_sections_max - 1));
      page.enter(id);
      break;
    }
    case BeatLine::Keyword::enqueued: {
      LH_TRY(const int id, communicator());
      page.enqueued(id);
      break;
    }
    case BeatLine::Keyword::completed: {
      LH_TRY(const int id, communicator());
      page.completed(id);
      break;
    }
    case BeatLine::Keyword::waits:
      if (line.name.empty()) {
        page.waits(beat_waits_nowhere);
      } else {
        LH_TRY(const int id, communicator());
        page.waits(id);
      }
      break;
    case BeatLine::Keyword::progress: page.progress(); break;
    case BeatLine::Keyword::done:
      if (line.number < 1 || line.number > page.orders())
        return refused(format("there is no order {}; so far there were {}", line.number, page.orders()));
      if (line.number > page.orders_obeyed()) page.obeyed(line.number);
      break;
  }
  return {};
}

void BeatLineCutter::take(std::string_view bytes, const Take& each) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const bool whole = end != std::string_view::npos;
    const std::string_view piece = bytes.substr(0, end);
    bytes.remove_prefix(whole ? end + 1 : bytes.size());
    if (skipping_) {
      skipping_ = !whole;
      continue;
    }
    part_ += piece.substr(0, beat_line_max + 1 - std::min(part_.size(), beat_line_max + 1));
    const bool too_long = part_.size() > beat_line_max;
    if (!whole && !too_long) return;
    each(part_, too_long);
    part_.clear();
    skipping_ = too_long && !whole;
  }
}

void BeatLineCutter::end(const Take& each) {
  if (!part_.empty()) each(part_, false);
  part_.clear();
  skipping_ = false;
}

BeatOrders beat_orders(const HeartbeatPage& page) {
  BeatOrders now;
  now.orders = page.orders();  // first: a value that comes later has a later number
  now.checkpoints = page.checkpoint_orders();
  now.stop_after = page.stop_after_step();
  now.checkpoint_interval = page.checkpoint_interval();
  now.learning_rate = page.learning_rate();
  return now;
}

std::vector<std::string> order_lines(const BeatOrders& sent, const BeatOrders& now) {
  if (now.orders <= sent.orders) return {};
  std::vector<std::string> what;
  const auto collect = [&](const BeatOrders& since) {
    if (now.checkpoint_interval != since.checkpoint_interval)
      what.push_back(format("checkpoint_interval {}", now.checkpoint_interval));
    if (now.learning_rate != since.learning_rate) what.push_back(format("lr {}", now.learning_rate));
    if (now.stop_after != since.stop_after) what.push_back(format("stop_after {}", now.stop_after));
    if (now.checkpoints > sent.checkpoints) what.emplace_back("checkpoint");
  };
  collect(sent);
  if (what.empty()) collect(BeatOrders{});
  std::vector<std::string> lines;
  const auto count = static_cast<std::int64_t>(what.size());
  for (std::int64_t i = 0; i < count; ++i)
    lines.push_back(format("order {} {}\n", std::max<std::int64_t>(1, now.orders - count + 1 + i),
                           what[static_cast<std::size_t>(i)]));
  return lines;
}

std::string beat_socket_path(const std::string& beat_folder, int rank) {
  const std::string path = join_path(beat_folder, format("beat-{}.sock", rank));
  if (path.size() <= beat_socket_path_max) return path;
  return format("/dev/shm/longhaul-{}/beat-{}.sock", hex64(xxh3_64(beat_folder)), rank);
}

}  // namespace longhaul
