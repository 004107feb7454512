// Sums whose bits do not depend on how the terms are spread over ranks. Terms have a global index; they are added along
// one binary tree over it: aligned blocks of 1, 2, 4, ... terms first, what is left over from the smallest block up.
// When each of p ranks holds 2^j consecutive terms, summing locally with TreeAccumulator and then over the ranks with
// tree_sum gives exactly the sum of all terms on one rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longhaul {

// out[i] = tree sum over t of terms[t][i]; each term has out.size() elements; out may be one of the terms.
void tree_sum(std::span<const float* const> terms, std::span<float> out);
void tree_max(std::span<const float* const> terms, std::span<float> out);

// Takes terms one by one, as micro-batches finish, and keeps one partial sum per set bit of their number:
// at most log2(terms) + 1 arrays of `size` floats.
class TreeAccumulator {
 public:
  explicit TreeAccumulator(std::int64_t size) : size_(static_cast<std::size_t>(size)) {}
  void add(std::span<const float> term);
  std::int64_t terms() const { return terms_; }
  // The sum of everything added, written to out (zeros when nothing was); starts anew.
  void finish(std::span<float> out);

 private:
  std::size_t size_;
  std::int64_t terms_ = 0;
  std::vector<std::vector<float>> levels_;  // levels_[j]: sum of a block of 2^j terms, empty if that bit is not set
  std::vector<std::vector<float>> spare_;   // arrays to use again
};

}  // namespace longhaul
