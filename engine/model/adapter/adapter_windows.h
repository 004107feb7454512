// Memory for the weights that an adapter makes, a unit of the model's layout at a time. Blocks and experts share a few
// windows, of which the one that was used longest ago is taken; a unit without a layer (a table, what follows the
// blocks) has one of its own size. One thread.
#pragma once

#include <functional>
#include <vector>

#include "contracts/model/adapter_list.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

class AdapterWindows {
 public:
  struct Window {
    Tensor memory;
    int unit = -1;              // whose weights it holds
    std::int64_t version = -1;  // of the weights; -1: none were made yet
    bool is_kept = false;       // for this unit
    std::int64_t last_use = 0;
  };

  AdapterWindows() = default;
  // As `space` says; is_made: does a unit of the layout need one?
  AdapterWindows(const ParameterLayout& model, const AdapterSpace& space, DType compute,
                 const std::function<bool(int unit)>& is_made, MemoryAccount* account);

  // For a unit, used now: what it holds has to be made where it is another unit's or of another version.
  Window& take(int unit);

 private:
  std::vector<Window> windows_;
  std::int64_t uses_ = 0;
};

}  // namespace longhaul
