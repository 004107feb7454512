// Answers that the ranks of a replica have drawn for each other. They all learn from the same rows, so an answer is
// drawn and judged once and handed on bit for bit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/parallel/mesh/collective_group.h"
#include "engine/tasks/rollouts/rollout.h"

namespace longhaul {

// Which of `ranks` draws answer i: groups take turns.
inline int drawn_by(std::size_t i, std::size_t group, int ranks) {
  return static_cast<int>(i / group % static_cast<std::size_t>(ranks));
}

// As bytes, for programs that are the same. Of a critic's numbers none are kept. Bytes that pack_rollouts did not make
// end the process.
std::string pack_rollouts(const std::vector<Rollout>& rollouts);
std::vector<Rollout> unpack_rollouts(std::string_view bytes);

// Collective: all `count` answers in their order, from each rank's own in theirs. Of a critic's numbers none are sent.
Result<std::vector<Rollout>> share_rollouts(CollectiveGroup& ranks, const std::vector<Rollout>& own, std::size_t count,
                                            std::size_t group);

}  // namespace longhaul
