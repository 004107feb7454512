// The compute weights of a model whose optimizer is shared by the dp_shard ranks: each has new values of its share of
// every unit (ShardUnit), and the whole unit is gathered when it is needed.
//
// ZeRO 1 and 2 keep all weights: after an update every unit's gather is started at once, in the order of the forward
// pass, and waited for at its first use, so that it runs beside the computation of the units before. ZeRO 3 keeps a few
// windows (FSDP, Zhao et al. 2023, section 3.3): a unit is gathered at its use, the next one in the direction of the
// last two uses ahead of its own; what was used longest ago makes room.
//
// One thread. Collective: all ranks of the group use units in the same order. A failure is kept, everything after it
// does nothing: whoever runs the model asks status().
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "contracts/model/parameter_layout.h"
#include "engine/comm/communicator.h"
#include "engine/core/tensor/tensor.h"
#include "engine/parallel/mesh/mesh.h"

namespace longhaul {

// Of a layout, or of its bytes where some are codes (contracts/model/coded_weights.h), and what of them a rank has.
// Borrowed.
struct GatheredUnits {
  const std::vector<ShardUnit>& all;
  const PackedRanges& owned;
  std::size_t count() const { return all.size(); }
  FlatRange flat(std::size_t unit) const { return all[unit].flat; }
};

class UnitGather {
 public:
  // share: this rank's weights, packed as units.owned. whole: all of them in flat order (ZeRO 1, 2); empty: windows.
  // device: whose memory both are of; null: the host's. overlap: gathers run beside computation; else each is waited
  // for where it starts. before_large: called before a large unit is gathered (contracts/plan/units_at_once.h), where
  // units are gathered one at a time. All borrowed.
  UnitGather(GatheredUnits units, Mesh& mesh, ConstView share, View whole, Device* device, bool overlap,
             std::function<void()> before_large = {}, MemoryAccount* account = nullptr);

  // The shares have changed.
  void begin();
  // All of a unit, for reading, until four other units were asked for.
  ConstView require(int unit);
  // Nothing is under way: before shares change.
  void finish();
  // Lets what is under way go on.
  void poll();
  const Status& status() const { return status_; }

 private:
  struct Window {
    Tensor memory;
    int unit = -1;
    std::int64_t last_use = 0;
    std::optional<Request> pending;
  };
  std::optional<Request> start(int unit, View out);
  void wait(int unit, std::optional<Request>& pending);
  // Of the ranks that share the unit; null: this one has all of it.
  Communicator* communicator_of(int unit) const;
  Window& load(int unit);
  Window* find(int unit);

  GatheredUnits units_;
  Communicator *communicator_, *expert_communicator_;
  std::int64_t deadline_ms_;
  ConstView share_;
  View whole_;
  Device* device_;
  bool overlap_;
  std::function<void()> before_large_;
  std::vector<bool> large_;                      // by unit
  std::vector<std::optional<Request>> pending_;  // by unit, where all are kept
  std::vector<Window> windows_;
  std::int64_t uses_ = 0;
  int last_unit_ = -1;
  Status status_;
};

}  // namespace longhaul
