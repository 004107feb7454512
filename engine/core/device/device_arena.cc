#include "engine/core/device/device_arena.h"

#include <algorithm>
#include <iterator>

#include "base/error/result.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

std::int64_t rounded(std::int64_t bytes, std::int64_t to) {
  return (std::max<std::int64_t>(bytes, 1) + to - 1) / to * to;
}

}  // namespace

std::string DeviceArena::Usage::text() const {
  const auto text = [](std::int64_t bytes) { return human_bytes(static_cast<double>(bytes)); };
  return format("{} held in {} segments: {} in use, {} lost by rounding, {} free in pieces of at most {}",
                text(segments), segment_count, text(asked), text(rounding), text(unused), text(largest_free));
}

DeviceArena::DeviceArena(Source source, const Rule& rule) : source_(std::move(source)), rule_(rule) {
  LH_ASSERT(rule.granularity % alignment == 0 && rule.shared_segment >= rule.own_from, "rule of an arena");
}

std::byte* DeviceArena::allocate(std::int64_t bytes) {
  LH_ASSERT(bytes >= 0, std::to_string(bytes));
  const std::int64_t size = rounded(bytes, alignment);
  const bool own = size >= rule_.own_from;
  Free& unused = free_[own ? 1 : 0];
  auto found = unused.lower_bound({size, nullptr});  // the smallest that is large enough, the first of them
  if (found == unused.end()) {
    if (!add_segment(size, own)) return nullptr;
    found = unused.lower_bound({size, nullptr});
  }
  std::byte* const memory = found->second;
  unused.erase(found);
  const auto piece = pieces_.find(memory);
  if (const std::int64_t rest = piece->second.bytes - size; rest > 0) {
    piece->second.bytes = size;
    make_free(pieces_.emplace(memory + size, Piece{rest, -1, piece->second.segment}).first);
  }
  piece->second.asked = bytes;
  Segment& segment = piece->second.segment->second;
  if (segment.used == 0) idle_ -= segment.bytes;
  segment.used += size;
  used_ += size, asked_ += bytes;
  return memory;
}

// Where there is no room for a segment that others could share, one of this piece's size may still have some.
bool DeviceArena::add_segment(std::int64_t bytes, bool own) {
  const std::int64_t least = rounded(bytes, rule_.granularity);
  std::int64_t size = own ? least : std::max(least, rounded(rule_.shared_segment, rule_.granularity));
  std::byte* memory = source_.take(size);
  if (memory == nullptr && size > least) memory = source_.take(size = least);
  if (memory == nullptr) return false;
  LH_ASSERT(reinterpret_cast<std::uintptr_t>(memory) % alignment == 0, "alignment of a segment");
  const auto segment = segments_.emplace(memory, Segment{size, 0, own}).first;
  bytes_ += size, idle_ += size, bytes_max_ = std::max(bytes_max_, bytes_);
  make_free(pieces_.emplace(memory, Piece{size, -1, segment}).first);
  return true;
}

void DeviceArena::make_free(Pieces::iterator piece) {
  piece->second.asked = -1;
  free_of(piece->second.segment->second).emplace(piece->second.bytes, piece->first);
}

// Both are free.
void DeviceArena::take_neighbour(Pieces::iterator piece, Pieces::iterator behind) {
  Free& unused = free_of(piece->second.segment->second);
  unused.erase({piece->second.bytes, piece->first});
  unused.erase({behind->second.bytes, behind->first});
  piece->second.bytes += behind->second.bytes;
  pieces_.erase(behind);
  make_free(piece);
}

std::int64_t DeviceArena::release(std::byte* memory) {
  auto piece = pieces_.find(memory);
  LH_ASSERT(piece != pieces_.end() && !piece->second.free(), "memory of a device released twice, or never handed out");
  const std::int64_t bytes = piece->second.bytes;
  Segment& segment = piece->second.segment->second;
  segment.used -= bytes, used_ -= bytes, asked_ -= piece->second.asked;
  if (segment.used == 0) idle_ += segment.bytes;
  make_free(piece);
  // Segments may lie beside each other, and are given back apart.
  const auto mergeable = [&](Pieces::iterator other) {
    return other->second.free() && other->second.segment == piece->second.segment;
  };
  if (const auto behind = std::next(piece); behind != pieces_.end() && mergeable(behind)) take_neighbour(piece, behind);
  if (piece != pieces_.begin() && mergeable(std::prev(piece))) take_neighbour(std::prev(piece), piece);
  if (idle_ > rule_.idle_max) trim();
  return bytes;
}

std::int64_t DeviceArena::trim() {
  std::int64_t given = 0;
  for (auto segment = segments_.begin(); segment != segments_.end();) {
    if (segment->second.used > 0) {
      ++segment;
      continue;
    }
    free_of(segment->second).erase({segment->second.bytes, segment->first});
    pieces_.erase(segment->first);
    given += segment->second.bytes;
    source_.give_back(segment->first);
    segment = segments_.erase(segment);
  }
  bytes_ -= given, idle_ -= given;
  return given;
}

DeviceArena::Usage DeviceArena::usage() const {
  Usage usage;
  usage.segments = bytes_, usage.segments_max = bytes_max_, usage.asked = asked_, usage.rounding = used_ - asked_;
  usage.unused = bytes_ - used_;
  for (const Free& unused : free_)
    if (!unused.empty()) usage.largest_free = std::max(usage.largest_free, unused.rbegin()->first);
  usage.idle = idle_, usage.segment_count = static_cast<int>(segments_.size());
  return usage;
}

}  // namespace longhaul
