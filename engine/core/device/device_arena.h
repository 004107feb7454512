// Which part of a device's memory is whose: a few large segments, taken from the device as they are needed, of which
// pieces are handed out by best fit. Pure bookkeeping: no address is ever looked at, so tests need no device. What is
// released may be handed out again at once; whoever owns the arena sees to it that the one before is done with it
// (engine/core/device/device.h says how). One thread.
//
// Sizes are rounded up to 256. A piece of Rule::own_from bytes or more has a segment to itself, or a free part of such
// a one; smaller pieces share others. So a small piece never keeps gigabytes from being given back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace longhaul {

class DeviceArena {
 public:
  static constexpr std::int64_t alignment = 256;
  struct Rule {
    std::int64_t shared_segment = std::int64_t{64} << 20;  // of pieces that share it
    std::int64_t own_from = std::int64_t{16} << 20;        // pieces from this size on share none
    std::int64_t granularity = std::int64_t{2} << 20;      // of segments: the pages of a GPU
    // In segments of which nothing is in use: kept for the next pieces. Libraries take memory of their own beside.
    std::int64_t idle_max = std::int64_t{256} << 20;
    // Each piece is a segment, given back when it is released: for tools that look at what a device does to memory.
    static Rule each_alone() { return {.shared_segment = 0, .own_from = 0, .granularity = alignment, .idle_max = 0}; }
  };
  // Where segments come from and go to: aligned to 256; null: there is no room for it.
  struct Source {
    std::function<std::byte*(std::int64_t bytes)> take;
    std::function<void(std::byte* segment)> give_back;
  };
  // Bytes. segments = asked + rounding + unused.
  struct Usage {
    std::int64_t segments = 0;      // taken from the source
    std::int64_t asked = 0;         // by those alive
    std::int64_t rounding = 0;      // that their pieces are larger
    std::int64_t unused = 0;        // in pieces that are free
    std::int64_t largest_free = 0;  // of these
    std::int64_t idle = 0;          // in segments of which nothing is in use
    std::int64_t segments_max = 0;  // at any time
    int segment_count = 0;
    std::string text() const;  // of an error: what there is, and in how many pieces
  };

  explicit DeviceArena(Source source) : DeviceArena(std::move(source), Rule()) {}
  DeviceArena(Source source, const Rule& rule);
  // Idle segments go back. Of others somebody holds a piece to the end, because a device may still write there.
  ~DeviceArena() { trim(); }
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;

  // Aligned to 256, not zeroed. null: neither a free piece nor a new segment has room for it; trim() may help.
  std::byte* allocate(std::int64_t bytes);
  // Its bytes, rounded. Idle segments go back where more than idle_max are in them. Ends the process where this was not
  // handed out, or was released already.
  std::int64_t release(std::byte* memory);
  // Gives idle segments back: their bytes.
  std::int64_t trim();
  Usage usage() const;
  // Idle segments go back by trim() alone from now on.
  void keep_idle() { rule_.idle_max = std::numeric_limits<std::int64_t>::max(); }
  std::int64_t idle_bytes() const { return idle_; }  // in segments of which nothing is in use

 private:
  struct Segment {
    std::int64_t bytes = 0, used = 0;
    bool own = false;
  };
  using Segments = std::map<std::byte*, Segment, std::less<>>;
  struct Piece {
    std::int64_t bytes = 0, asked = -1;  // asked < 0: free
    Segments::iterator segment;
    bool free() const { return asked < 0; }
  };
  using Pieces = std::map<std::byte*, Piece, std::less<>>;
  // By size, then by address, of shared segments and of the others.
  using Free = std::set<std::pair<std::int64_t, std::byte*>>;
  Free& free_of(const Segment& segment) { return free_[segment.own ? 1 : 0]; }
  bool add_segment(std::int64_t bytes, bool own);
  void make_free(Pieces::iterator piece);
  void take_neighbour(Pieces::iterator piece, Pieces::iterator behind);

  Source source_;
  Rule rule_;
  Segments segments_;
  Pieces pieces_;
  Free free_[2];
  std::int64_t bytes_ = 0, bytes_max_ = 0, asked_ = 0, used_ = 0, idle_ = 0;
};

}  // namespace longhaul
