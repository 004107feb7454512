// What the device does in an operation over NCCL: where the operation's spans lie while it runs, and the steps that it
// is made of, from the copy of what was given to the mark behind the last one.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/comm/nccl/nccl_group.h"

namespace longhaul {

// What is asked for: Communicator::Arguments, which only communicators see.
struct NcclRequest {
  CollectiveKind kind{};
  ConstBytes in;
  Bytes out;
  int peer = 0;                                  // root of a broadcast, destination or source, as a rank of the group
  int from = -1;                                 // of an exchange: `out` comes from there, `in` goes to `peer`
  int nccl_peer = 0;                             // of a message alone: the other one in the lane's own communicator
  std::vector<std::size_t> in_bytes, out_bytes;  // all_to_all_v
  ContributionRecord* record = nullptr;
  std::uint64_t* word = nullptr;  // as the device knows it: takes `count` when the operation is done; may be null
  std::uint64_t count = 0;
};

// What the device works on. Kept until the device has done it.
struct NcclWork {
  NcclRequest request;
  const std::byte* in = nullptr;  // on the device
  std::byte* out = nullptr;
  SharedStaging in_block, out_block, rows, sizes, digests;               // of the device
  StagingBlock in_on_host, out_on_host, sizes_on_host, digests_on_host;  // pinned
  std::size_t rows_bytes = 0;
  std::unique_ptr<QueueMark> sizes_came, done;
};

// Takes the staging memory that an operation needs and gives its group the steps. Asks the device for nothing; the
// steps do, once the group comes to them. Lives for one call of build().
class NcclStepBuilder {
 public:
  // The steps share `work` and belong to `group`, which keeps them.
  NcclStepBuilder(NcclState& state, NcclGroup& group, std::shared_ptr<NcclWork> work)
      : state_(state), group_(group), work_(std::move(work)) {}
  // Errors: no memory; unsupported: sums that do not show contributions, where a record of them is asked for.
  Status build();

 private:
  Status place_spans();
  Status add_steps();
  Status add_all_to_all_v();
  Status add_tree_reduce_scatter();
  Status add_tree_all_reduce();
  Status note_rows(std::size_t rows_bytes);
  void add(const char* call, std::function<Status(NcclWork&, ncclComm_t, DeviceQueue&)> step);
  void add_end();

  NcclState& state_;
  NcclGroup& group_;
  std::shared_ptr<NcclWork> work_;
};

}  // namespace longhaul
