#include "engine/comm/nccl/nccl_communicator.h"

#include <time.h>

#include <map>
#include <numeric>
#include <utility>

#include "base/text/text.h"
#include "engine/comm/nccl/nccl_operation.h"
#include "engine/comm/nccl_lanes.h"

namespace longhaul {
namespace {

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<NcclState> state, std::vector<int> members, int axis, int rank, std::uint64_t epoch,
                   const std::string& name, const CommOptions& options)
      : Communicator(rank, std::move(members), epoch, name, options), state_(std::move(state)), axis_(axis) {
    group_ = make_group({});
    if (std::atomic<std::uint64_t>* word = completed_word()) word_ = state_->word_on_device(*options.beat, word);
    if (word_ != nullptr) count_on_device();
  }
  ~NcclCommunicator() override {
    bool left = broken() || group_->left() || is_superseded();
    for (const auto& [key, lane] : lanes_) left = left || lane->left();
    close(group_, left);
    for (auto& [key, lane] : lanes_) close(lane, left);
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  std::unique_ptr<Communicator> subgroup(int axis, const std::string& name, std::span<const int> ranks) override {
    std::vector<int> chosen;
    int own = -1;
    for (int r : ranks) {
      LH_ASSERT(r >= 0 && r < size(), format("{}: rank {} of {}", name, r, size()));
      if (r == rank()) own = static_cast<int>(chosen.size());
      chosen.push_back(members()[static_cast<std::size_t>(r)]);
    }
    LH_ASSERT(own >= 0 && axis >= 0 && axis < 16, format("{}: axis {}, rank {} must be a member", name, axis, rank()));
    return std::make_unique<NcclCommunicator>(state_, chosen, axis, own, epoch(), name, options());
  }

 protected:
  Result<std::unique_ptr<CommOperation>> start(const Arguments& a) override {
    NcclRequest request;
    request.kind = a.kind, request.in = a.in, request.out = a.out, request.record = a.record;
    request.peer = a.peer, request.from = a.from;
    request.in_bytes.assign(a.in_bytes.begin(), a.in_bytes.end());
    request.out_bytes.assign(a.out_bytes.begin(), a.out_bytes.end());
    const NcclLane lane = nccl_lane(a.kind, rank(), a.peer, a.from, a.tag);
    if (lane.kind == NcclLane::Kind::messages) request.nccl_peer = lane.from == rank() ? 1 : 0;
    if (lane.kind == NcclLane::Kind::collectives) request.word = word_, request.count = ++collectives_;
    auto operation = std::make_unique<NcclOperation>(state_, group_of(lane), std::move(request));
    if (const Status begun = operation->begin(); !begun) {
      operation->abandon(begun.error().what);
      return begun.error();
    }
    return std::unique_ptr<CommOperation>(std::move(operation));
  }
  Result<std::unique_ptr<CommOperation>> start_exchange(const Arguments& a) override { return start(a); }

 private:
  // The ranks were ordered to a later epoch: others abort this communicator, and parting from it would wait for them.
  bool is_superseded() const {
    const std::atomic<std::int64_t>* newest = options().newest_epoch;
    return newest != nullptr && newest->load(std::memory_order_acquire) > static_cast<std::int64_t>(epoch());
  }
  // The lane of messages is of two: the one that sends, the one that receives.
  std::shared_ptr<NcclGroup> make_group(const NcclLane& lane) {
    const bool of_two = lane.kind == NcclLane::Kind::messages;
    const int ranks = of_two ? 2 : size(), own = of_two ? (lane.from == rank() ? 0 : 1) : rank();
    const int blocks = nccl_blocks(axis_, lane, state_->options.multiprocessors);
    return std::make_shared<NcclGroup>(*state_, state_->fresh_name(epoch(), axis_, members(), lane.name()), ranks, own,
                                       blocks, nccl_shared_queue(lane, rank()));
  }
  const std::shared_ptr<NcclGroup>& group_of(const NcclLane& lane) {
    if (lane.kind == NcclLane::Kind::collectives) return group_;
    std::shared_ptr<NcclGroup>& group = lanes_[lane];
    if (!group) group = make_group(lane);
    return group;
  }
  void close(std::shared_ptr<NcclGroup>& group, bool at_once) {
    at_once ? group->leave("its communicator was left") : group->begin_close();
    if (!group->closed()) state_->closing.push_back(std::move(group));
  }

  std::shared_ptr<NcclState> state_;
  int axis_;
  std::shared_ptr<NcclGroup> group_;
  std::map<NcclLane, std::shared_ptr<NcclGroup>> lanes_;  // of messages and exchanges
  std::uint64_t collectives_ = 0;
  std::uint64_t* word_ = nullptr;  // of the heartbeat page, as the device knows it
};

}  // namespace

Result<std::unique_ptr<NcclRuntime>> NcclRuntime::start(Device& device, const NcclKernels& kernels,
                                                        Rendezvous& rendezvous, int rank, int size,
                                                        const NcclOptions& options) {
  LH_ASSERT(kernels.tree_rows != nullptr && kernels.write_word != nullptr && kernels.digest_parts != nullptr &&
                kernels.digest_partials != nullptr,
            "the communicators need all of their kernels");
  LH_ASSERT(rank >= 0 && rank < size, format("rank {} of {}", rank, size));
  LH_CHECK(check_multiprocessors(options.multiprocessors));
  std::vector<std::string> names;
  if (!options.library.empty()) names.push_back(options.library);
  LH_TRY(auto library, NcclLibrary::open(names));
  device.keep_released();
  auto state = std::make_shared<NcclState>(std::move(library), device, kernels, rendezvous, rank, size, options);
  return std::unique_ptr<NcclRuntime>(new NcclRuntime(std::move(state)));
}

NcclRuntime::~NcclRuntime() {
  const Deadline deadline(state_->clock, state_->options.close_ms);
  while (state_->lost.empty() && !state_->tend_closing() && !deadline.passed()) {
    const struct timespec pause{0, 100'000};
    nanosleep(&pause, nullptr);
  }
  for (const std::shared_ptr<NcclGroup>& group : state_->closing)
    if (state_->lost.empty()) group->leave("the other ranks did not part from it in time");
  // What the device may still write to is not given back.
  if (!state_->lost.empty()) (void)new std::shared_ptr<NcclState>(state_);
}

int NcclRuntime::rank() const {
  return state_->rank;
}
int NcclRuntime::size() const {
  return state_->size;
}
std::string NcclRuntime::version() const {
  return nccl_version_text(state_->nccl->version());
}
const std::string& NcclRuntime::counted_by_host() const {
  return state_->counted_by_host;
}

Result<std::unique_ptr<Communicator>> NcclRuntime::world(std::uint64_t epoch, const CommOptions& options) {
  LH_ASSERT(options.clock != nullptr, "a communicator needs a clock");
  (void)state_->tend_closing();
  if (!state_->lost.empty()) return make_error(ErrorCode::unavailable, state_->lost, "start the process anew");
  std::vector<int> members(static_cast<std::size_t>(state_->size));
  std::iota(members.begin(), members.end(), 0);
  return std::unique_ptr<Communicator>(
      std::make_unique<NcclCommunicator>(state_, members, 0, state_->rank, epoch, "world", options));
}

}  // namespace longhaul
