// How the members of a communicator of NCCL come together before there is one: the first makes an id and puts it into
// the rendezvous under the group's name, each other one puts an entry of its own there and looks for the id.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "engine/comm/nccl/nccl_library.h"
#include "engine/comm/rendezvous.h"

namespace longhaul {

// One member's side of it. One thread.
class NcclMeeting {
 public:
  // `name`: the same for all members and never used before. `rank` is below `size`, both of this group. The rendezvous
  // and the clock are borrowed.
  NcclMeeting(std::shared_ptr<const NcclLibrary> nccl, Rendezvous& rendezvous, const Clock& clock, std::string name,
              int size, int rank)
      : nccl_(std::move(nccl)),
        rendezvous_(rendezvous),
        clock_(clock),
        name_(std::move(name)),
        size_(size),
        rank_(rank) {}

  const std::string& name() const { return name_; }
  int size() const { return size_; }
  int rank() const { return rank_; }

  // The id; nothing as long as the first member has not put it. Does not wait: to be called until it is there. Another
  // look at the rendezvous is taken ever less often, every 50 ms in the end.
  Result<std::optional<ncclUniqueId>> find_id();
  // The members without an entry, of the 64 that follow this one (the first follows the last). Waits for entries as
  // long as they may be on their way.
  std::vector<int> not_come() const;

 private:
  std::shared_ptr<const NcclLibrary> nccl_;
  Rendezvous& rendezvous_;
  const Clock& clock_;
  std::string name_;
  int size_, rank_;
  bool announced_ = false;
  std::int64_t look_again_ns_ = 0, look_pause_ns_ = 0;
};

}  // namespace longhaul
