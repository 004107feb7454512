#include "engine/model/inference/decode_graphs.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {

void DecodeGraphs::make_room() {
  if (entries_.size() < recordings_max) return;
  entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                  [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
}

void DecodeGraphs::run(Device& device, const DecodeKind& kind, const std::function<void()>& ask) {
  if (kind.sequences > sequences_max) {
    ++counts_.plain;
    return ask();
  }
  if (!entries_.contains(kind)) make_room();
  Entry& entry = entries_[kind];
  entry.used = ++steps_;
  if (entry.releases != device.releases()) {
    entry.recording.reset();
    ask();
    entry.releases = device.releases();
    ++counts_.plain;
    return;
  }
  if (!entry.recording) {
    entry.recording = device.record(format("a step of {} sequences", kind.sequences), ask);
    ++counts_.recorded;
  }
  entry.recording->replay();
  ++counts_.replayed;
}

}  // namespace longhaul
