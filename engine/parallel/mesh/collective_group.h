// Ranks that do the same thing on different data, and the few collectives that the trainer and the checkpoints need,
// each with a deadline. Over a Communicator of engine/comm; without one it is a group of one rank and every call is a
// copy.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

class Communicator;

class CollectiveGroup {
 public:
  CollectiveGroup() = default;  // one rank
  explicit CollectiveGroup(Communicator& communicator, std::int64_t deadline_ms = 600'000);

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_first() const { return rank_ == 0; }
  Communicator* communicator() const { return communicator_; }  // null: one rank
  std::int64_t deadline_ms() const { return deadline_ms_; }

  Status barrier();
  // all[i * mine.size() ...] = rank i's `mine`.
  Status all_gather(std::span<const double> mine, std::span<double> all);
  Status all_gather(std::span<const float> mine, std::span<float> all);
  Result<std::vector<std::string>> all_gather_text(const std::string& mine);
  Status broadcast(std::span<float> data, int root);
  // The same of elements of any type, which may lie in the memory of a device that the communicator is made for.
  Status broadcast(std::span<std::byte> data, int root);
  // Between two ranks; both must name the same number of elements. Not with itself.
  Status send(std::span<const float> data, int to);
  Status recv(std::span<float> data, int from);
  // Both at once, so that ranks may exchange in pairs or in a ring. Also with itself: a copy.
  Status exchange(std::span<const float> give, int to, std::span<float> take, int from);

  // x = sum over ranks of x, along the binary tree over the rank number (engine/comm/tree_sum.h): the same bits on
  // every rank, and the same as one rank with all the terms has when every rank holds a power of two of them.
  Status sum_along_tree(std::span<float> x);

  // Every rank has the same outcome: the error of the lowest rank that has one. A rank without an error of its own
  // reports that one, with its rank.
  Status agree(const Status& mine);

 private:
  Communicator* communicator_ = nullptr;
  int rank_ = 0, size_ = 1;
  std::int64_t deadline_ms_ = 0;
};

}  // namespace longhaul
