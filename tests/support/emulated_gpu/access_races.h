// Races in a kernel: two threads of one launch that access the same bytes, at least one of them writing, while nothing
// puts one before the other. Knows accesses and barriers alone, so it finds a race in whatever order threads happen to
// run: the emulation's blocks come one after the other, and would not show it by a wrong result.
//
// Every access to memory that code compiled with -fsanitize=thread makes is a call. access_hooks.cc has the functions
// that it calls, in place of ThreadSanitizer's own. The kernels of the emulated GPU are compiled so
// (tests/CMakeLists.txt). Variables of a thread whose address nobody takes are accessed without a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace longhaul::testing {

enum class Access : std::uint8_t { read, write, atomic };

// Who accesses, and when: barriers are counted from the block's begin, those of its warp apart.
struct KernelMoment {
  std::uint64_t block = 0;
  std::uint32_t thread = 0;
  std::uint32_t block_barriers = 0;
  std::uint32_t warp_barriers = 0;
};

class AccessRaces {
 public:
  // Launches of one stream follow each other: what was accessed before counts no longer.
  void begin_launch();
  // "" or what races with what: the access that came first is named as well. `of_block`: the memory belongs to the
  // block, another block finds other memory at the same address. Of an address at most six accesses are kept, the
  // newest; of a launch those to the first 4 MiB.
  std::string note(const void* at, std::size_t bytes, Access kind, const KernelMoment& by, bool of_block);

 private:
  static constexpr unsigned kept_max = 6;
  static constexpr std::size_t cells_max = std::size_t{1} << 20;
  struct Kept {
    KernelMoment by;
    Access kind = Access::read;
    std::uint8_t bytes = 0;  // one bit for each of the eight
  };
  struct Cell {  // of eight bytes
    std::uintptr_t at = 0;
    std::uint32_t launch = 0;  // an older one: the cell is free
    std::uint32_t count = 0, oldest = 0;
    Kept kept[kept_max];
  };

  Cell* cell_at(std::uintptr_t eighth);
  void grow();
  std::string add(Cell& cell, const Kept& now, bool of_block);

  std::vector<Cell> cells_ = std::vector<Cell>(1024);
  std::uint32_t launch_ = 0;
  std::size_t used_ = 0;  // cells of this launch
};

class AccessWatcher {
 public:
  virtual ~AccessWatcher() = default;
  // Before the access is made. What this function accesses itself is not reported.
  virtual void accessed(const void* at, std::size_t bytes, Access kind) = 0;
};

// From now on of this thread of the operating system; null: nobody.
void watch_accesses(AccessWatcher* watcher);

}  // namespace longhaul::testing
