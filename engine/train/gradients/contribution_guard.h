// Checksums around the sums of a step's gradients over ranks (engine/comm/contribution_check.h): taken when a
// contribution is complete, compared before the update. Belongs to the training's thread.
//
// The cost of a step: three passes over what a rank gives and one over what it gets (about the bytes of its gradients
// each), one exchange of 8 bytes for every sum and pair of ranks, and one small exchange of the world. On a device the
// passes are kernels beside the other operations; the digests of what was given come to the host by one copy and one
// wait, when they are compared (in the first step some more), those of a sum with the end of that sum.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "contracts/events/silent_corruption.h"
#include "engine/comm/communicator.h"
#include "engine/core/device/device.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/parallel/mesh/collective_group.h"

namespace longhaul {

class ContributionGuard {
 public:
  // `checks`: alike on all ranks. Without, nothing is taken and nothing exchanged. Where the context has a device, all
  // checksums of the launch are ContributionChecksum::words, and that device takes those of what lies in its memory.
  // Borrowed.
  ContributionGuard(bool checks, const ComputeContext& context)
      : checks_(checks),
        context_(context),
        by_(context.device() ? ContributionChecksum::words : ContributionChecksum::xxh3) {}

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
    std::size_t room = 0, begin = 0, parts = 0;  // its digests on the device; no parts: what it gave is on record
  };
  // Digests on the device, until they are asked for.
  struct Room {
    DeviceMemory memory;
    std::size_t size = 0, used = 0;
  };
  // What this rank sees of one pair's contributions: from `from`, or of its own.
  struct Seen {
    int from = 0, to = 0;  // of the world
    bool wrong = false;
  };
  Result<std::vector<Seen>> compare(std::int64_t deadline_ms);
  void digest_on_device(Taken& taken, CollectiveKind kind, std::span<const float> contribution);
  void fetch_digests();
  void flip_in(std::span<std::byte> contribution, bool on_device);

  bool checks_;
  const ComputeContext& context_;
  ContributionChecksum by_;
  std::vector<Room> rooms_;            // one, once it is known how many digests a step has
  std::deque<Taken> taken_;            // records keep their place
  std::optional<std::uint64_t> flip_;  // a bit to change in this step
};

}  // namespace longhaul
