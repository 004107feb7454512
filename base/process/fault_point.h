// Named places where a test may make the program fail. Always compiled in; off, a point costs one relaxed load. They
// are switched on only by a plan file that the starter hands over (docs/testing.md), never by the environment.
//
//   if (auto fault = fault_here(FaultPoint::controller_after_intent)) return *fault;
//
// A plan file has one line per action: "<point> <kill|exit|error|disk_full|delay_ms=N|flip[=BIT]> [nth=K] [rank=R]
// [always]" (nth: at the K-th passage, default 1; rank: in this rank of a launch only, default every process; always:
// at every passage from the K-th on). Each hit that fires is first appended to "<plan>.hits" as "<point> <pid>", so
// that a test can count them from outside. Points of data take `flip`, and it alone: a bit of what passes is changed,
// number BIT of it, or one that follows from the number of the passage. A plan whose first line is "follow" may get
// further lines while the process runs: each passage looks whether the file has grown.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// Do not renumber: plans name them by text, kill tests draw over all of one prefix.
enum class FaultPoint : int {
  controller_epoch_claimed,    // the new epoch's log exists, nothing read yet
  controller_before_intent,    // decided, nothing written
  controller_after_intent,     // intents written and synced, nothing done
  controller_before_submit,    // one submission of several about to be made
  scheduler_in_flight,         // nobody has claimed a later epoch, about to hand submissions over
  controller_after_submit,     // the scheduler has it, no outcome written
  controller_before_outcome,   // all acted, outcomes not written
  controller_after_outcome,    // outcomes written, nothing else of the round done
  controller_before_messages,  // outcomes written, messages and metrics not sent
  controller_after_request,    // a request answered in the log, its file not yet removed
  controller_end_of_tick,      // a round is complete
  lead_claimed,                // the lead holds its attempt, no rank started
  lead_ranks_started,          // ranks run, nothing of them observed
  lead_before_publish,         // ranks ended well, artifact still in staging
  lead_after_publish,          // artifact in place, record not written
  lead_before_record,          // about to write the job's record
  checkpoint_before_shard,     // nothing of this checkpoint written
  checkpoint_after_shard,      // own shard written and synced
  checkpoint_before_manifest,  // all shards there, manifest not
  checkpoint_after_manifest,   // manifest renamed in, `latest` not updated
  engine_step_begin,           // at the start of an optimizer step
  engine_before_artifact,      // computed, artifact not complete in staging
  checkpoint_staged,           // own share copied, nothing written
  checkpoint_half_shard,       // half of the own shard written, nothing synced
  checkpoint_after_votes,      // every rank's entries are known, all shards synced
  checkpoint_after_latest,     // whole and `latest` updated, older ones not yet removed
  checkpoint_retiring,         // about to remove an older one
  local_copy_staged,           // own share and partner's in memory, nothing written
  local_copy_before_part,      // a share written and synced, its part of the manifest not
  local_copy_after_part,       // a share is whole on this node
  local_copy_retiring,         // whole on all ranks, about to remove an older one
  engine_backward,             // between two operations of a step, weights untouched
  engine_update,               // weights and moments partly updated
  engine_step_done,            // a step is done here, others may be in it
  engine_contribution,         // data: the first gradient of a step that goes into a sum over ranks, its checksum taken
  engine_gradient,             // data: the gradient that one micro-batch has computed
  engine_loss,                 // an error here makes the loss of this rank's part of the step not a number
  checkpoint_list,             // the folder of checkpoints, or of one of them, is about to be listed
  local_copy_removing,         // doubtful copies are about to be removed from this node
  partner_copy,                // data: the share of another rank as it came for a copy on this node
  restart_piece,               // data: a piece of a copy as it came to the rank that goes on from it
  count                        // not a point
};
const char* fault_point_name(FaultPoint point);
std::vector<std::string> fault_point_names(const std::string& prefix);

// Reads a plan and switches the points on for this process, of a launch's ranks that of this number (-1: it is none).
// Called once, below main, before threads start.
Status load_fault_plan(const std::string& path, int rank = -1);

namespace fault_detail {
extern std::atomic<bool> armed;  // the one relaxed load
std::optional<Error> passed(FaultPoint point);
std::optional<std::uint64_t> bit_at(FaultPoint point);
}  // namespace fault_detail

// nullopt: go on. Error: behave as if this place had failed. Kill, exit and delay happen inside.
inline std::optional<Error> fault_here(FaultPoint point) {
  if (!fault_detail::armed.load(std::memory_order_relaxed)) [[likely]]
    return std::nullopt;
  return fault_detail::passed(point);
}

// Of a point of data: the bit that is to be changed there, usually none.
inline std::optional<std::uint64_t> flip_here(FaultPoint point) {
  if (!fault_detail::armed.load(std::memory_order_relaxed)) [[likely]]
    return std::nullopt;
  return fault_detail::bit_at(point);
}
// Changes bit number `bit`, counted round and round.
void flip_bit(std::span<std::byte> data, std::uint64_t bit);

}  // namespace longhaul
