// The copies on all nodes together (local_copies.h): which steps are whole, and how their shares come to the ranks that
// need them. All functions are collective.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/checkpoint/local/time_line.h"
#include "engine/checkpoint/state/training_state.h"
#include "engine/parallel/mesh/collective_group.h"

namespace longhaul {

// Beside a share in `folder`: the part of the manifest that belongs to it, written last.
std::string local_part_path(const std::string& folder, const std::string& shard_file);

// In a part, beside the members of a manifest: the id that its save has on all ranks. Only parts with the same one
// make a state: another launch may have saved the same step, not with the same bits.
inline constexpr const char* local_save_key = "save";

// What is written there: the part, and in a line of its own its HMAC-SHA256 under `key`, the training's id, which its
// owner alone can read. Whoever else writes a part cannot sign it. The digests of a part's entries are no cryptographic
// ones: that nobody changes shards is up to the folder, which nobody else may enter.
std::string sign_part(const std::string& part, const std::string& key);
// The part; corrupt: it is not signed so. `path` is for the message.
Result<std::string> signed_part(const std::string& text, const std::string& key, const std::string& path);

struct LocalStep {
  std::int64_t step = 0;
  int owners = 0;       // shares that make it whole: the ranks that wrote it
  std::string missing;  // a share that no node has; "": none
};
struct LocalSteps {
  std::vector<LocalStep> steps;         // newest first
  std::vector<std::string> unreadable;  // folders that a node could not list, and why
};
// The same lists on every rank. `folder` is this node's, with a folder for every rank that wrote there.
Result<LocalSteps> local_steps(CollectiveGroup& group, const std::string& folder);

struct LocalLoad {
  std::string refused;                     // why this step cannot be gone on from: the state is as it was; "": filled
  int own_copies = 0, partner_copies = 0;  // shares taken from the owner's own copy, and from its partner's
  std::vector<std::string> passed_over;    // copies of shares that are damaged or cannot be read, and on which node
};
// Every rank verifies the shares that its node has (ranks of one node divide them), the owner's own copy first and
// its partner's where that is no good or of an abandoned line; all agree on who gives which, own copies before
// partners', and each entry goes to the ranks that need something of it, who hold what came against its digest. The
// outcome is the same on every rank. An error is none of the copies': ranks that do not answer, a state that takes no
// values, bytes that were changed on the way (ErrorCode::unavailable: another launch may have it), ErrorCode::
// invalid_input for a model of another shape.
Result<LocalLoad> load_local_step(CollectiveGroup& group, const std::string& folder, const std::string& key,
                                  const LocalStep& step, TrainingState& state, int threads, const TimeLine& line = {});

}  // namespace longhaul
