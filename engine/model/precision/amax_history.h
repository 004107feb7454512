// The largest of what was seen in the last n steps: delayed scaling's history of magnitudes. Kept is only what can
// still become the largest: of a step nothing, once a later one was as large.
#pragma once

#include <cstdint>
#include <deque>

namespace longhaul {

struct AmaxHistory {
  struct Entry {
    std::int64_t step = 0;
    float amax = 0;
    bool operator==(const Entry&) const = default;
  };
  std::deque<Entry> entries;  // steps ascending, magnitudes strictly falling

  void add(std::int64_t step, float amax, std::int64_t length) {
    while (!entries.empty() && !(entries.back().amax > amax)) entries.pop_back();
    entries.push_back({step, amax});
    while (entries.front().step <= step - length) entries.pop_front();
  }
  bool empty() const { return entries.empty(); }
  float largest() const { return entries.empty() ? 0 : entries.front().amax; }
  bool operator==(const AmaxHistory&) const = default;
};

}  // namespace longhaul
