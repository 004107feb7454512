#include "engine/model/decode_graphs.h"

#include <algorithm>
#include <bit>

#include "base/text.h"

namespace longhaul {
namespace {

// Doubles: a text that grows needs few recordings, and blocks for keys that are not there yet end at once.
std::int64_t doubled_room(std::int64_t longest) {
  constexpr std::int64_t least = 256;
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(longest, least))));
}

}  // namespace

void DecodeGraphs::run(Device& device, std::int64_t sequences, std::int64_t longest,
                       const std::function<void(std::int64_t longest)>& ask) {
  if (sequences > sequences_max) {
    ++counts_.plain;
    return ask(longest);
  }
  Entry& entry = entries_[sequences];
  const bool fits = entry.longest >= longest && entry.releases == device.releases();
  if (!fits) {
    entry.recording.reset();
    entry.longest = std::max(entry.longest, doubled_room(longest));
    ask(entry.longest);
    entry.releases = device.releases();
    ++counts_.plain;
    return;
  }
  if (!entry.recording) {
    entry.recording = device.record(format("a step of {} sequences", sequences), [&] { ask(entry.longest); });
    ++counts_.recorded;
  }
  entry.recording->replay();
  ++counts_.replayed;
}

}  // namespace longhaul
