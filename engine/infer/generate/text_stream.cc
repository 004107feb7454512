#include "engine/infer/generate/text_stream.h"

#include <algorithm>
#include <utility>

#include "base/text/text.h"

namespace longhaul {
namespace {

// How many bytes at the end of `text` are the valid beginning of one unfinished character (0..3).
std::size_t unfinished_tail(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto lead = static_cast<unsigned char>(text[text.size() - back]);
    if ((lead & 0xC0) == 0x80) continue;  // a continuation byte: look further back for its lead
    std::size_t length = 0;
    if (lead >= 0xC2 && lead <= 0xDF) length = 2;
    if (lead >= 0xE0 && lead <= 0xEF) length = 3;
    if (lead >= 0xF0 && lead <= 0xF4) length = 4;
    if (length <= back) return 0;  // complete, or no lead at all
    if (back >= 2) {               // the second byte decides whether this can still become a character
      const auto second = static_cast<unsigned char>(text[text.size() - back + 1]);
      if (lead == 0xE0 && second < 0xA0) return 0;
      if (lead == 0xED && second > 0x9F) return 0;
      if (lead == 0xF0 && second < 0x90) return 0;
      if (lead == 0xF4 && second > 0x8F) return 0;
    }
    return back;
  }
  return 0;
}

}  // namespace

std::string Utf8Gate::push(std::string_view bytes) {
  held_.append(bytes);
  const std::size_t tail = unfinished_tail(held_);
  std::string ready = held_.substr(0, held_.size() - tail);
  held_.erase(0, ready.size());
  return is_valid_utf8(ready) ? ready : repair_utf8(ready);
}

std::string Utf8Gate::finish() {
  std::string rest = repair_utf8(held_);
  held_.clear();
  return rest;
}

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopFilter::push(std::string_view text) {
  if (stopped_) return {};
  held_.append(text);
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    stopped_ = true;
    return held_.substr(0, first);
  }
  // The longest end of the text that begins a stop text stays here.
  std::size_t hold = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t length = std::min(stop.size() - 1, held_.size()); length > hold; --length) {
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) {
        hold = length;
        break;
      }
    }
  }
  std::string ready = held_.substr(0, held_.size() - hold);
  held_.erase(0, ready.size());
  return ready;
}

std::string StopFilter::finish() {
  if (stopped_) return {};
  return std::exchange(held_, {});
}

}  // namespace longhaul
