// One communicator of NCCL from its id to its end: made without blocking, given work step by step, left or closed.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "engine/comm/nccl/nccl_communicator.h"
#include "engine/comm/nccl/nccl_library.h"
#include "engine/comm/nccl/nccl_meeting.h"
#include "engine/comm/nccl_lanes.h"
#include "engine/comm/staging_pool.h"

namespace longhaul {

class NcclGroup;

// What the communicators of a rank share.
struct NcclState {
  NcclState(std::shared_ptr<const NcclLibrary> library, Device& its_device, const NcclKernels& its_kernels,
            Rendezvous& meeting, int own, int all, const NcclOptions& given);
  ~NcclState();
  NcclState(const NcclState&) = delete;
  NcclState& operator=(const NcclState&) = delete;

  // A name for the entries of a group's n-th making: all its members make it as often, in the same order.
  std::string fresh_name(std::uint64_t epoch, int axis, const std::vector<int>& members, const std::string& lane);
  // The address by which the device knows a word of the page; null: the page cannot be shared, and counted_by_host says
  // why.
  std::uint64_t* word_on_device(const HeartbeatPage& page, std::atomic<std::uint64_t>* word);
  // Every group that still has something to ask for goes on: what one rank waits for in one of them may be what it
  // sends in another. A group keeps its errors for those who wait for it.
  void progress();
  // Groups that are closing, as far as they have come; true: none is left.
  bool tend_closing();

  const std::shared_ptr<const NcclLibrary> nccl;
  Device& device;
  const NcclKernels kernels;
  Rendezvous& rendezvous;
  const int rank, size;
  const NcclOptions options;
  const SystemClock clock;
  StagingPool on_device, on_host;
  std::string lost;  // why the process has to be started anew; empty: it has not
  std::string counted_by_host;
  std::vector<NcclGroup*> at_work;  // those with steps
  std::shared_ptr<DeviceQueue> shared_queues[nccl_shared_queues];
  std::vector<std::shared_ptr<NcclGroup>> closing;

 private:
  std::map<std::string, int> made_;
  std::byte *page_ = nullptr, *page_on_device_ = nullptr;
};

// Asks NCCL for one thing (a call, or a group of calls) on the queue, with copies and kernels before it.
using NcclStep = std::function<Status(ncclComm_t, DeviceQueue&)>;

// What an operation needs memory of the device for.
enum class StagingRole { in, out, rows, sizes, digests };
inline constexpr std::size_t staging_roles = 5;

// One thread.
class NcclGroup {
 public:
  // blocks: that its kernels may have. shared_queue: which one it goes through (nccl_lanes.h), -1 for one of its own.
  NcclGroup(NcclState& state, std::string name, int size, int rank, int blocks, int shared_queue)
      : state_(state),
        meeting_(state.nccl, state.rendezvous, state.clock, std::move(name), size, rank),
        blocks_(blocks),
        shared_queue_(shared_queue) {}
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  int size() const { return meeting_.size(); }
  int rank() const { return meeting_.rank(); }
  bool left() const { return left_.has_value(); }

  // Memory of the device for the next operation, at least so many bytes, not zeroed; of 0 bytes: empty. Operations go
  // through one queue in the order in which they are added, so the next one may have what the one before has: a group
  // holds as much as its largest operation needs, however many are under way.
  Result<SharedStaging> staging(StagingRole role, std::int64_t bytes);

  // Behind those added before. `call` names it in errors; null: of NCCL it asks nothing.
  void add(const char* call, NcclStep step);
  // Makes the communicator, and asks for what can be asked for now. Does not wait. Errors are the communicator's, and
  // last.
  Status advance();
  bool has_steps() const { return !steps_.empty(); }
  // While it is being made: NcclMeeting::not_come; then nobody.
  std::vector<int> not_come() const;
  // Aborts it. What it was given is not touched any more when this comes back, or the process is lost.
  void leave(const std::string& reason);
  // Nothing is under way and nothing will be asked for.
  void begin_close();
  bool closed();

 private:
  struct Step {
    const char* call;
    NcclStep run;
  };
  Status go_on();
  Result<bool> make();
  Result<bool> settled();
  Status take_queue();

  NcclState& state_;
  NcclMeeting meeting_;
  int blocks_, shared_queue_;
  std::shared_ptr<DeviceQueue> queue_;
  std::array<SharedStaging, staging_roles> staging_;
  ncclComm_t communicator_ = nullptr;
  const char* doing_ = "ncclCommInitRankConfig";
  bool made_ = false;
  std::deque<Step> steps_;
  std::optional<std::string> left_;
  std::optional<Error> error_;
};

}  // namespace longhaul
