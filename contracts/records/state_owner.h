// Who may write what a stage keeps between jobs (stages/<stage>/state): one launch, named by a file beside it.
// A job that the scheduler has queued again, or a later attempt, may run while ranks of the one before still do, on
// nodes that nobody reaches any more. The lead writes its launch there before it starts any rank, never over a later
// one; ranks and leads look there before and after what they do with the state, and refuse where a later launch is.
//
//   stages/<stage>/state-owner.json   {"file", "format", "attempt", "restarts", "epoch", "host", "launch"}
//
// The file is written beside its place and renamed, so two leads may write at the same moment, and the earlier one
// last: whoever finds an earlier launch than its own there writes its own again. So of two the later one stays.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "base/files/file_retry.h"
#include "base/value/value.h"

namespace longhaul {

struct StateOwner {
  int attempt = 0;         // of the stage; 0: nobody, what is done by hand is not fenced
  int restarts = 0;        // how often the scheduler has queued the attempt's job again
  std::int64_t epoch = 0;  // of the lead, and its node: two may have taken over at the same moment
  std::string host;
  int launch = 0;
  // In this order: the greater one is the later one.
  auto operator<=>(const StateOwner&) const = default;
  bool is_nobody() const { return attempt == 0; }
  std::string text() const;  // "launch 3 of attempt 1 (queued again 2 times) by the lead of epoch 4 on n7"
  // For names of files that launches must not share: "1.2.4.3-9f3c", the host's name as a digest.
  std::string tag() const;
};

std::string state_owner_path(const std::string& state_dir);
// Nobody where there is no such file.
Result<StateOwner> read_state_owner(const std::string& state_dir, const FileRetry& retry = {});
// Of a lead, before it starts ranks. ErrorCode::conflict: a later launch owns the state; both are named.
Status take_state(const std::string& state_dir, const StateOwner& owner, const FileRetry& retry = {});

// What a launch asks before and after each act on the state.
class StateFence {
 public:
  StateFence() = default;  // lets everything pass
  StateFence(std::string state_dir, StateOwner owner) : state_dir_(std::move(state_dir)), owner_(std::move(owner)) {}
  // ErrorCode::conflict: a later launch owns the state, both are named; what was done may have been undone by it, and
  // nothing may follow. Errors of the file system are tried again for a minute.
  Status look() const;
  const StateOwner& owner() const { return owner_; }

 private:
  std::string state_dir_;
  StateOwner owner_;
};

}  // namespace longhaul
