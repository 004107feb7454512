// Work on a list that all ranks have, shared out between them: item i is done by rank i modulo their number, and every
// rank gets all results, in the order of the list. With one rank nothing is sent.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/parallel/mesh/collective_group.h"

namespace longhaul {

class RankShare {
 public:
  // Borrows the group, whose ranks all name the same count.
  RankShare(CollectiveGroup& group, std::size_t count) : group_(group), count_(count) {}

  // Indices of this rank's items, ascending.
  std::vector<std::size_t> mine() const;

  // What each rank made of its items, one after the other. Called by all ranks; an error of one is that of all.
  Result<std::vector<std::string>> gather(const Result<std::vector<std::string>>& made) const;
  template <class T>
    requires std::is_trivially_copyable_v<T>
  Result<std::vector<T>> gather_values(const Result<std::vector<T>>& made) const {
    if (group_.size() == 1) return made;
    Result<std::vector<std::string>> texts = std::vector<std::string>();
    if (!made.ok()) texts = made.error();
    if (made.ok())
      for (const T& one : *made) texts->emplace_back(reinterpret_cast<const char*>(&one), sizeof one);
    LH_TRY(const std::vector<std::string> all, gather(texts));
    std::vector<T> values(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) std::memcpy(&values[i], all[i].data(), sizeof(T));
    return values;
  }

 private:
  CollectiveGroup& group_;
  std::size_t count_;
};

}  // namespace longhaul
