// Checksums around the sums of a step's gradients over ranks (engine/comm/contribution_check.h): taken when a
// contribution is complete, compared before the update. Belongs to the training's thread.
//
// The cost of a step: three passes over what a rank gives and one over what it gets (about the bytes of its gradients
// each), one exchange of 8 bytes for every sum and pair of ranks, and one small exchange of the world.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "contracts/silent_corruption.h"
#include "engine/comm/communicator.h"
#include "engine/parallel/collective_group.h"

namespace longhaul {

class Device;

class ContributionGuard {
 public:
  // `checks`: alike on all ranks. Without, nothing is taken and nothing exchanged. device: whose memory contributions
  // may lie in, which then are copied to the host to be looked at; may be null, borrowed.
  explicit ContributionGuard(bool checks, Device* device = nullptr) : checks_(checks), device_(device) {}

  // Changes that bit of the first contribution of the step to come, as the fault point does.
  void plant(std::uint64_t bit) { flip_ = bit; }
  // Of a step; forgets what is left of one that failed. The communicators of the step's sums live until its end.
  void begin();
  // `contribution` is complete, and its sum over `ranks` begins as soon as that sum is started with the record that
  // comes back (null without checks). Here the fault point engine_contribution changes a bit of it.
  ContributionRecord* take(Communicator& ranks, CollectiveKind kind, std::span<float> contribution);
  // CollectiveGroup::sum_along_tree, checked.
  Status sum_along_tree(CollectiveGroup& group, std::span<float> values);
  // All sums of step `step` are done. nullopt: every contribution arrived as it was given. Collective over `world`;
  // the finding is the same on all ranks.
  Result<std::optional<SilentCorruption>> verify(CollectiveGroup& world, std::int64_t step);

 private:
  struct Taken {
    Communicator* ranks;
    ContributionRecord record;
  };
  // What this rank sees of one pair's contributions: from `from`, or of its own.
  struct Seen {
    int from = 0, to = 0;  // of the world
    bool wrong = false;
  };
  Result<std::vector<Seen>> compare(std::int64_t deadline_ms);
  void look_at(Communicator& ranks, CollectiveKind kind, std::span<std::byte> contribution, ContributionRecord* record);

  bool checks_;
  Device* device_;
  std::vector<std::byte> on_host_;     // the last contribution of a device
  std::deque<Taken> taken_;            // records keep their place
  std::optional<std::uint64_t> flip_;  // a bit to change in this step
};

}  // namespace longhaul
