#include "engine/comm/nccl/nccl_group.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "resiliency/beat/heartbeat_page.h"

namespace longhaul {
namespace {

void pause() {
  const struct timespec a_moment{0, 100'000};
  nanosleep(&a_moment, nullptr);
}

// NCCL made a call, or goes on with it.
bool is_accepted(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress;
}

}  // namespace

NcclState::NcclState(std::shared_ptr<const NcclLibrary> library, Device& its_device, const NcclKernels& its_kernels,
                     Rendezvous& meeting, int own, int all, const NcclOptions& given)
    : nccl(std::move(library)),
      device(its_device),
      kernels(its_kernels),
      rendezvous(meeting),
      rank(own),
      size(all),
      options(given),
      on_device(its_device, StagingPlace::device, given.memory),
      on_host(its_device, StagingPlace::host, given.memory) {}

NcclState::~NcclState() {
  if (page_ != nullptr) device.unshare(page_);
}

std::string NcclState::fresh_name(std::uint64_t epoch, int axis, const std::vector<int>& members,
                                  const std::string& lane) {
  const std::string_view bytes(reinterpret_cast<const char*>(members.data()), members.size() * sizeof(int));
  const std::string name = format("epoch{}-axis{}-{:016x}{}", epoch, axis, xxh3_64(bytes), lane);
  return format("{}-{}", name, made_[name]++);
}

std::uint64_t* NcclState::word_on_device(const HeartbeatPage& page, std::atomic<std::uint64_t>* word) {
  auto* const memory = static_cast<std::byte*>(page.memory());
  if (memory != page_) {
    if (page_ != nullptr) device.unshare(page_);
    page_ = nullptr;
    const Result<std::byte*> shared = device.share(memory, static_cast<std::int64_t>(beat_page_bytes));
    counted_by_host = shared.ok() ? "" : shared.error().message();
    if (!shared.ok()) return nullptr;
    page_ = memory, page_on_device_ = *shared;
  }
  return reinterpret_cast<std::uint64_t*>(page_on_device_ + (reinterpret_cast<std::byte*>(word) - memory));
}

void NcclState::progress() {
  for (std::size_t i = 0; i < at_work.size(); ++i)
    if (!at_work[i]->advance().ok() || !at_work[i]->has_steps()) at_work[i] = nullptr;
  std::erase(at_work, nullptr);
}

bool NcclState::tend_closing() {
  std::erase_if(closing, [](const std::shared_ptr<NcclGroup>& group) { return group->closed(); });
  return closing.empty();
}

// A queue with something in it that does not end cannot be destroyed, and what it may still write to is not used again.
NcclGroup::~NcclGroup() {
  std::erase(state_.at_work, this);
  if (communicator_ != nullptr) leave("it was dropped");
  if (state_.lost.empty()) return;
  [[maybe_unused]] auto* queue = new (std::nothrow) std::shared_ptr<DeviceQueue>(queue_);
  [[maybe_unused]] auto* memory = new (std::nothrow) std::array<SharedStaging, staging_roles>(staging_);
}

Result<SharedStaging> NcclGroup::staging(StagingRole role, std::int64_t bytes) {
  if (bytes == 0) return SharedStaging();
  SharedStaging& held = staging_[static_cast<std::size_t>(role)];
  if (held.capacity() < bytes) {
    LH_TRY(StagingBlock block, state_.on_device.take(bytes));
    held = SharedStaging(std::move(block));  // operations that are under way keep the smaller one
  }
  return held;
}

void NcclGroup::add(const char* call, NcclStep step) {
  if (std::ranges::find(state_.at_work, this) == state_.at_work.end()) state_.at_work.push_back(this);
  steps_.push_back({call, std::move(step)});
}

Status NcclGroup::advance() {
  if (left_) return make_error(ErrorCode::aborted, *left_);
  if (error_) return *error_;
  const Status status = go_on();
  if (!status.ok()) error_ = status.error();
  return status;
}

Status NcclGroup::go_on() {
  if (communicator_ == nullptr) {
    LH_TRY(const bool begun, make());
    if (!begun) return {};
  }
  for (;;) {
    LH_TRY(const bool free, settled());
    if (!free) return {};
    made_ = true;
    if (steps_.empty()) return {};
    const Step step = std::move(steps_.front());
    steps_.pop_front();
    if (step.call != nullptr) doing_ = step.call;
    LH_CHECK(step.run(communicator_, *queue_));
  }
}

Result<bool> NcclGroup::settled() {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = state_.nccl->ncclCommGetAsyncError(communicator_, &state);
  if (asked != ncclSuccess) return state_.nccl->failed("ncclCommGetAsyncError", asked, communicator_);
  if (!is_accepted(state)) return state_.nccl->failed(doing_, state, communicator_);
  return state == ncclSuccess;
}

Status NcclGroup::take_queue() {
  std::shared_ptr<DeviceQueue>* const shared = shared_queue_ < 0 ? nullptr : &state_.shared_queues[shared_queue_];
  if (!queue_ && shared != nullptr) queue_ = *shared;
  if (queue_) return {};
  LH_TRY(queue_, state_.device.queue());
  if (shared != nullptr) *shared = queue_;
  return {};
}

namespace {

// Kernels have as many blocks as NCCL likes between the two numbers. Those of a cluster would have to start together on
// neighbouring multiprocessors: each by itself finds a free one sooner.
template <class Config>
void limit_blocks(Config& config, int blocks) {
  config.minCTAs = 1;
  config.maxCTAs = blocks;
  config.cgaClusterSize = 0;
  if constexpr (requires { config.nvlsCTAs; }) config.nvlsCTAs = blocks;
}

}  // namespace

// True once NCCL has begun to make it.
Result<bool> NcclGroup::make() {
  LH_TRY(const std::optional<ncclUniqueId> id, meeting_.find_id());
  if (!id) return false;
  LH_CHECK(take_queue());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  limit_blocks(config, blocks_);
  const ncclResult_t result = state_.nccl->ncclCommInitRankConfig(&communicator_, size(), *id, rank(), &config);
  if (!is_accepted(result)) return state_.nccl->failed("ncclCommInitRankConfig", result, nullptr);
  return true;
}

std::vector<int> NcclGroup::not_come() const {
  return made_ ? std::vector<int>() : meeting_.not_come();
}

void NcclGroup::leave(const std::string& reason) {
  if (left_) return;
  left_ = reason;
  if (communicator_ != nullptr) {
    auto aborted = std::make_shared<std::atomic<bool>>(false);
    // NCCL waits there for its kernels to end: on a thread of its own, which may outlive everything here.
    std::thread([nccl = state_.nccl, communicator = communicator_, aborted] {
      (void)nccl->ncclCommAbort(communicator);
      aborted->store(true, std::memory_order_release);
    }).detach();
    communicator_ = nullptr;
    const Deadline deadline(state_.clock, state_.options.leave_ms);
    while (!aborted->load(std::memory_order_acquire) || !queue_->idle()) {
      if (deadline.passed()) {
        state_.lost = format("NCCL did not let go of {} within {} ms after: {}", meeting_.name(),
                             state_.options.leave_ms, reason);
        return;
      }
      pause();
    }
  }
  steps_.clear();
}

void NcclGroup::begin_close() {
  if (left_ || communicator_ == nullptr) return;
  if (!steps_.empty() || !made_) return leave("it was closed before it was done");
  doing_ = "ncclCommFinalize";
  const ncclResult_t result = state_.nccl->ncclCommFinalize(communicator_);
  if (!is_accepted(result)) leave(state_.nccl->failed(doing_, result, communicator_).what);
}

bool NcclGroup::closed() {
  if (communicator_ == nullptr) return true;
  const Result<bool> done = settled();
  if (done.ok() && !*done) return false;
  if (!done.ok()) {
    leave(done.error().what);
    return true;
  }
  (void)state_.nccl->ncclCommDestroy(communicator_);
  communicator_ = nullptr;
  return true;
}

}  // namespace longhaul
