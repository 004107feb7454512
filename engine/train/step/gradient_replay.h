// Are gradients computed rightly? Every so many steps each data-parallel rank computes the first micro-batch of its
// neighbour before the step, and the neighbour's own result in the step must have the same bits. Where it has not, the
// update is not made, and all compute again until it is clear who is wrong (replay_verdict.h).
//
// How a micro-batch is computed is the caller's: here its digests are taken, exchanged and judged.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "contracts/events/silent_corruption.h"
#include "engine/parallel/mesh/mesh.h"
#include "engine/train/gradients/gradient_digest.h"

namespace longhaul {

// What one data-parallel rank has computed: of its own first micro-batch and of its neighbour's, each once more, and of
// the micro-batch of the one after that.
struct ReplayDigests {
  enum Field { own, neighbour, own_again, neighbour_again, third, fields };
  std::uint64_t of[fields] = {};
};
// Does a rank's result for its neighbour differ from that neighbour's own?
bool digests_differ(std::span<const ReplayDigests> ranks);
// Every such difference with who is wrong: "<rank of the world, -1: not known> <reason>", a line each. `members`: the
// ranks of the world.
std::string judge_digests(std::int64_t step, std::span<const ReplayDigests> ranks, const std::vector<int>& members);
// Several disagreements have one cause: a rank that is wrong disagrees with both neighbours. `judgements`: of all
// groups of ranks.
SilentCorruption corruption_of(std::int64_t step, std::int64_t sound_step, const std::vector<std::string>& judgements);

class GradientReplay {
 public:
  // The digest of the gradient of the first micro-batch, in the step, of the data-parallel rank so many behind.
  using Compute = std::function<Result<std::uint64_t>(int distance)>;

  // Every so many steps; 0: never. The mesh is borrowed.
  GradientReplay(Mesh& mesh, std::int64_t every) : mesh_(mesh), every_(every) {}

  bool is_due(std::int64_t step) const;
  // Before the first step, `step` being the one done last: with it this process began.
  void begin_at(std::int64_t step);
  Status compute_neighbour(const Compute& compute);
  // Of what is computed now, and in the step itself of its first micro-batch.
  GradientDigest& digest() { return digest_; }
  void keep_own() { own_ = digest_.value(); }
  // After the sums of a step: nullopt where all agree. What was found is the same on all ranks. Collective.
  Result<std::optional<SilentCorruption>> compare(std::int64_t step, const Compute& compute);

 private:
  Mesh& mesh_;
  std::int64_t every_;
  GradientDigest digest_;
  std::uint64_t own_ = 0, neighbour_ = 0;
  std::int64_t sound_step_ = -1;  // newest step whose gradients were found right; -1: none yet
};

}  // namespace longhaul
