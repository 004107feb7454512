// How sequences are distributed over the ranks of a cp group (context parallelism). A sequence is cut into 2 cp chunks;
// rank i owns chunks i and 2 cp - 1 - i, an early and a late one, so that under the causal mask all ranks have the same
// number of (query, key) pairs: i + 1 + 2 cp - i chunks' worth (Llama 3, Grattafiori et al. 2024, section 3.3.2).
//
// A rank holds the chunks of a micro-batch of n sequences as 2 n pieces: [early | late][sequence][token of the chunk],
// so that one chunk of all sequences lies in one piece of memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace longhaul {

class ContextShard {
 public:
  ContextShard() = default;  // one rank: sequences stay whole
  ContextShard(int ranks, int rank) : ranks_(ranks), rank_(rank) {}

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  bool splits() const { return ranks_ > 1; }
  int chunks() const { return 2 * ranks_; }
  // The chunk of the whole that rank `rank` holds as its early (0) or late (1) half.
  int chunk_of(int rank, int half) const { return half == 0 ? rank : chunks() - 1 - rank; }
  int chunk(int half) const { return chunk_of(rank_, half); }
  // Tokens of one chunk of a sequence; the length must be a multiple of chunks().
  std::int64_t chunk_length(std::int64_t length) const { return length / chunks(); }
  // The next multiple.
  std::int64_t padded(std::int64_t length) const { return (length + chunks() - 1) / chunks() * chunks(); }

  // One value per token, of the whole [sequences, length] -> of this rank's pieces.
  template <class T>
  std::vector<T> own(std::int64_t sequences, std::int64_t length, const std::vector<T>& whole) const {
    const std::int64_t c = chunk_length(length);
    std::vector<T> own;
    own.reserve(static_cast<std::size_t>(2 * sequences * c));
    for (int half = 0; half < 2; ++half)
      for (std::int64_t s = 0; s < sequences; ++s) {
        const auto begin = whole.begin() + (s * length + chunk(half) * c);
        own.insert(own.end(), begin, begin + c);
      }
    return own;
  }
  // Back: what all ranks have of their pieces, one rank behind the other -> the whole [sequences, length].
  template <class T>
  void join(std::int64_t sequences, std::span<const T> of_ranks, std::span<T> whole) const {
    const std::int64_t length = std::ssize(whole) / sequences, c = chunk_length(length);
    auto piece = of_ranks.begin();
    for (int rank = 0; rank < ranks_; ++rank)
      for (int half = 0; half < 2; ++half)
        for (std::int64_t s = 0; s < sequences; ++s, piece += c)
          std::copy(piece, piece + c, whole.begin() + (s * length + chunk_of(rank, half) * c));
  }

 private:
  int ranks_ = 1, rank_ = 0;
};

}  // namespace longhaul
