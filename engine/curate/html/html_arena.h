// Memory for one page's parse: blocks of a few sizes are cut from large pieces and used again, and all of it goes at
// once, so nobody has to walk a tree to give it back. Under AddressSanitizer the parser keeps malloc(), whose blocks
// are watched.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace longhaul {

// Not thread-safe; one for each parse. Out of memory is a null pointer, as of malloc().
class HtmlArena {
 public:
  HtmlArena() = default;
  ~HtmlArena();
  HtmlArena(const HtmlArena&) = delete;
  HtmlArena& operator=(const HtmlArena&) = delete;

  // At least `bytes` bytes, aligned to 16.
  void* allocate(std::size_t bytes);
  // `block`: of allocate(), or null. What is not released goes with the arena.
  void release(void* block);

 private:
  static constexpr std::size_t small_bytes_max = 1024;  // beyond: a piece of its own

  struct Piece;
  void* cut(std::size_t size);
  void* own_piece(std::size_t bytes);

  std::array<void*, small_bytes_max / 16 + 1> free_{};  // by size: the first free block, each begins with the next
  std::vector<char*> pieces_;
  Piece* large_ = nullptr;  // a list in both directions
  char* next_ = nullptr;    // what is not yet cut of the newest piece
  std::size_t left_ = 0;
};

}  // namespace longhaul
