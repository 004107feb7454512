#include "engine/curate/html/html_arena.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace longhaul {
namespace {

constexpr std::size_t piece_bytes_min = std::size_t{32} << 10, piece_bytes_max = std::size_t{1} << 20;

// In front of each block: its size in units of 16 bytes with this word, 0 for one with a piece of its own.
using BlockSize = std::uint64_t;

BlockSize* size_of(void* block) {
  return static_cast<BlockSize*>(block) - 1;
}

}  // namespace

struct HtmlArena::Piece {
  Piece* before;
  Piece* after;
  std::uint64_t unused;  // keeps the block behind it aligned
  BlockSize size;
};

HtmlArena::~HtmlArena() {
  for (char* piece : pieces_) std::free(piece);
  while (large_) {
    Piece* piece = large_;
    large_ = piece->after;
    std::free(piece);
  }
}

void* HtmlArena::allocate(std::size_t bytes) {
  const std::size_t size = (bytes + sizeof(BlockSize) + 15) / 16;
  if (bytes > small_bytes_max || size >= free_.size()) return own_piece(bytes);
  if (void* block = free_[size]) {
    free_[size] = *static_cast<void**>(block);
    return block;
  }
  return cut(size);
}

void HtmlArena::release(void* block) {
  if (!block) return;
  if (const BlockSize size = *size_of(block)) {
    *static_cast<void**>(block) = free_[size];
    free_[size] = block;
    return;
  }
  Piece* piece = static_cast<Piece*>(block) - 1;
  (piece->before ? piece->before->after : large_) = piece->after;
  if (piece->after) piece->after->before = piece->before;
  std::free(piece);
}

void* HtmlArena::cut(std::size_t size) {
  if (left_ < 16 * size) {
    const std::size_t bytes = std::min(piece_bytes_max, piece_bytes_min << std::min<std::size_t>(pieces_.size(), 16));
    auto* piece = static_cast<char*>(std::malloc(bytes));
    if (!piece) return nullptr;
    pieces_.push_back(piece);
    next_ = piece + sizeof(BlockSize);  // so that what follows a size is aligned
    left_ = bytes - 16;
  }
  void* block = next_ + sizeof(BlockSize);
  *size_of(block) = size;
  next_ += 16 * size;
  left_ -= 16 * size;
  return block;
}

void* HtmlArena::own_piece(std::size_t bytes) {
  if (bytes > SIZE_MAX - sizeof(Piece)) return nullptr;
  auto* piece = static_cast<Piece*>(std::malloc(sizeof(Piece) + bytes));
  if (!piece) return nullptr;
  *piece = {nullptr, large_, 0, 0};
  if (large_) large_->before = piece;
  large_ = piece;
  return piece + 1;
}

}  // namespace longhaul
