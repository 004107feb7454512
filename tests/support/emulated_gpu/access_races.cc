#include "tests/support/emulated_gpu/access_races.h"

#include <algorithm>
#include <utility>

namespace longhaul::testing {
namespace {

constexpr std::uint32_t warp_threads = 32;

// A thread of another block never knows how far this one is; within a block barriers order what lies on their two
// sides, and a warp's functions order the threads of that warp.
bool in_order(const KernelMoment& first, const KernelMoment& second) {
  if (first.block != second.block) return false;
  if (first.thread == second.thread || first.block_barriers != second.block_barriers) return true;
  return first.thread / warp_threads == second.thread / warp_threads && first.warp_barriers != second.warp_barriers;
}

bool collide(Access a, Access b) {
  return (a == Access::write || b == Access::write) || a != b;
}

const char* verb(Access kind) {
  switch (kind) {
    case Access::read: return "reads";
    case Access::write: return "writes";
    case Access::atomic: return "changes atomically";
  }
  return "";
}

std::string who(const KernelMoment& by) {
  return "thread " + std::to_string(by.thread) + " of block " + std::to_string(by.block);
}

std::uintptr_t mixed(std::uintptr_t x) {
  x *= 0x9E3779B97F4A7C15ULL;
  return x ^ (x >> 32);
}

}  // namespace

void AccessRaces::begin_launch() {
  ++launch_, used_ = 0;
}

AccessRaces::Cell* AccessRaces::cell_at(std::uintptr_t eighth) {
  const std::size_t mask = cells_.size() - 1;
  for (std::size_t i = mixed(eighth) & mask;; i = (i + 1) & mask) {
    Cell& cell = cells_[i];
    if (cell.launch == launch_ && cell.at == eighth) return &cell;
    if (cell.launch == launch_) continue;
    if (2 * used_ >= cells_.size()) {
      if (cells_.size() >= cells_max) return nullptr;
      grow();
      return cell_at(eighth);
    }
    ++used_;
    cell.at = eighth, cell.launch = launch_, cell.count = 0, cell.oldest = 0;
    return &cell;
  }
}

void AccessRaces::grow() {
  std::vector<Cell> old(2 * cells_.size());
  std::swap(old, cells_);
  const std::size_t mask = cells_.size() - 1;
  for (Cell& cell : old) {
    if (cell.launch != launch_) continue;
    std::size_t i = mixed(cell.at) & mask;
    while (cells_[i].launch == launch_) i = (i + 1) & mask;
    cells_[i] = cell;
  }
}

std::string AccessRaces::note(const void* at, std::size_t bytes, Access kind, const KernelMoment& by, bool of_block) {
  const auto first = reinterpret_cast<std::uintptr_t>(at), end = first + bytes;
  for (std::uintptr_t eighth = first / 8; eighth * 8 < end; ++eighth) {
    const std::uintptr_t from = std::max(first, eighth * 8) - eighth * 8,
                         to = std::min(end, eighth * 8 + 8) - eighth * 8;
    const auto mask = static_cast<std::uint8_t>((1U << to) - (1U << from));
    if (Cell* cell = cell_at(eighth))
      if (std::string found = add(*cell, {by, kind, mask}, of_block); !found.empty()) return found;
  }
  return "";
}

std::string AccessRaces::add(Cell& cell, const Kept& now, bool of_block) {
  std::uint32_t left = 0;
  for (std::uint32_t i = 0; i < cell.count; ++i) {
    const Kept& before = cell.kept[i];
    if (of_block && before.by.block != now.by.block) continue;
    const bool ordered = in_order(before.by, now.by);
    if ((before.bytes & now.bytes) != 0 && !ordered && collide(before.kind, now.kind))
      return who(now.by) + " " + verb(now.kind) + " what " + who(before.by) + " " + verb(before.kind) +
             ", with no barrier between them, and not both by atomics";
    // What comes after this access comes after that one as well.
    const bool covered =
        ordered && (before.bytes & ~now.bytes) == 0 && (now.kind == Access::write || before.kind == now.kind);
    if (!covered) cell.kept[left++] = before;
  }
  cell.count = left;
  if (left < kept_max)
    cell.kept[cell.count++] = now;
  else
    cell.kept[cell.oldest++ % kept_max] = now;
  return "";
}

}  // namespace longhaul::testing
