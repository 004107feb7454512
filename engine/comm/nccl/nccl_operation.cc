#include "engine/comm/nccl/nccl_operation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/text/text.h"

namespace longhaul {
namespace {

bool is_message_kind(CollectiveKind kind) {
  return kind == CollectiveKind::send || kind == CollectiveKind::recv;
}

}  // namespace

NcclOperation::NcclOperation(std::shared_ptr<NcclState> state, std::shared_ptr<NcclGroup> group, NcclRequest request)
    : state_(std::move(state)), group_(std::move(group)), work_(std::make_shared<NcclWork>()) {
  work_->request = std::move(request);
}

Status NcclOperation::begin() {
  LH_CHECK(NcclStepBuilder(*state_, *group_, work_).build());
  state_->progress();  // errors come when it is polled, with the operation's name
  return {};
}

Result<bool> NcclOperation::poll() {
  const auto is_done = [this] { return work_->done && work_->done->reached(); };
  if (!is_done()) {
    state_->progress();
    LH_CHECK(group_->advance());
    LH_CHECK(check_sizes());
    if (!is_done()) return false;
  }
  LH_CHECK(check_sizes());
  deliver();
  return true;
}

Status NcclOperation::check_sizes() {
  const NcclWork& w = *work_;
  if (sizes_checked_ || !w.sizes_came || !w.sizes_came->reached()) return {};
  sizes_checked_ = true;
  const std::vector<std::size_t>& expected = w.request.out_bytes;
  for (std::size_t r = 0; r < expected.size(); ++r) {
    std::uint64_t sent = 0;
    std::memcpy(&sent, w.sizes_on_host.data() + (expected.size() + r) * sizeof sent, sizeof sent);
    if (sent != expected[r])
      return make_error(
          ErrorCode::internal,
          format("rank {} sent {} bytes to rank {}, which expected {}", r, sent, group_->rank(), expected[r]),
          "all ranks of a group must start the same collectives in the same order");
  }
  return {};
}

void NcclOperation::deliver() {
  const NcclWork& w = *work_;
  const NcclRequest& request = w.request;
  if (w.out_on_host.data() != nullptr) std::memcpy(request.out.data(), w.out_on_host.data(), request.out.size());
  if (request.record != nullptr) note_digests();
}

void NcclOperation::note_digests() const {
  const NcclRequest& request = work_->request;
  const auto size = static_cast<std::size_t>(group_->size());
  std::vector<std::uint64_t> digests(2 * size);
  std::memcpy(digests.data(), work_->digests_on_host.data(), digests.size() * sizeof(std::uint64_t));
  const auto middle = digests.begin() + group_->size();
  request.record->received.assign(middle, digests.end());
  digests.resize(size);
  if (contribution_parts(request.kind, request.in.size(), group_->size()) == 1)
    std::ranges::fill(digests, digests.front());
  request.record->sent = std::move(digests);
}

std::vector<int> NcclOperation::waiting_for() {
  const NcclRequest& request = work_->request;
  if (request.from >= 0) return {request.from, request.peer};
  if (is_message_kind(request.kind)) return {request.peer};
  return group_->not_come();
}

// What NCCL does not let go of must never be used again.
void NcclOperation::abandon(const std::string& reason) {
  group_->leave(reason);
  if (!state_->lost.empty()) (void)new std::shared_ptr<NcclWork>(work_);
}

}  // namespace longhaul
