// Ranges of a rank's flat arrays (parameter_layout.h), and arrays that hold only some of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// Elements [begin, end) of a flat array.
struct FlatRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const FlatRange&) const = default;
};
// Of size 0 where they have nothing in common.
inline FlatRange intersection(FlatRange a, FlatRange b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}
template <class T>
std::span<T> part_of(std::span<T> flat, FlatRange range) {
  return flat.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
}

// Ascending ranges of a flat array that do not touch each other's elements, and where each lies in an array that holds
// just them, one after the other: what a rank has of masters, gradients and moments where ranks share them.
class PackedRanges {
 public:
  struct Piece {
    FlatRange flat;
    std::int64_t at = 0;  // of its first element in the packed array
    FlatRange packed() const { return {at, at + flat.size()}; }
  };
  PackedRanges() = default;
  explicit PackedRanges(std::span<const FlatRange> ranges) {
    for (const FlatRange& range : ranges) {
      LH_ASSERT(pieces_.empty() || range.begin >= pieces_.back().flat.end, std::to_string(range.begin));
      pieces_.push_back({range, size_});
      size_ += range.size();
    }
  }
  const std::vector<Piece>& pieces() const { return pieces_; }
  std::int64_t size() const { return size_; }

  // Calls use(range of the flat array, the same range of the packed array) for all of `wanted` that is here.
  template <class Use>
  void for_each_in(FlatRange wanted, Use&& use) const {
    for (const Piece& piece : pieces_) {
      const FlatRange here = intersection(piece.flat, wanted);
      if (here.size() == 0) continue;
      const std::int64_t begin = piece.at + here.begin - piece.flat.begin;
      use(here, FlatRange{begin, begin + here.size()});
    }
  }

 private:
  std::vector<Piece> pieces_;
  std::int64_t size_ = 0;
};

}  // namespace longhaul
