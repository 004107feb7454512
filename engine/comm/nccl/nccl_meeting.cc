#include "engine/comm/nccl/nccl_meeting.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr int looked_for_at_most = 64;

}  // namespace

Result<std::optional<ncclUniqueId>> NcclMeeting::find_id() {
  ncclUniqueId id;
  if (rank_ == 0) {
    const ncclResult_t result = nccl_->ncclGetUniqueId(&id);
    if (result != ncclSuccess) return nccl_->failed("ncclGetUniqueId", result, nullptr);
    LH_CHECK(rendezvous_.put(name_, std::string(id.internal, sizeof id.internal)));
    return std::optional(id);
  }
  if (!announced_) LH_CHECK(rendezvous_.put(format("{}.rank{}", name_, rank_), "here"));
  announced_ = true;
  const std::int64_t now = clock_.monotonic_ns();
  if (now < look_again_ns_) return std::optional<ncclUniqueId>();
  LH_TRY(const std::optional<std::string> value, rendezvous_.look(name_));
  if (!value) {  // ever less often, as many look at once
    look_pause_ns_ = std::clamp<std::int64_t>(2 * look_pause_ns_, 100'000, 50'000'000);
    look_again_ns_ = now + look_pause_ns_;
    return std::optional<ncclUniqueId>();
  }
  if (value->size() != sizeof id.internal)
    return make_error(ErrorCode::corrupt,
                      format("the entry {} has {} bytes, {} were expected", name_, value->size(), sizeof id.internal));
  std::memcpy(id.internal, value->data(), sizeof id.internal);
  return std::optional(id);
}

// All members of a large group fail at once: each looks for some, and together they look for all.
std::vector<int> NcclMeeting::not_come() const {
  std::vector<int> ranks;
  for (const Deadline travel(clock_, rendezvous_.travel_ms());;
       std::this_thread::sleep_for(std::chrono::microseconds(100))) {
    ranks.clear();
    for (int i = 1; i < size_ && i <= looked_for_at_most; ++i) {
      const int r = (rank_ + i) % size_;
      const auto value = rendezvous_.look(r == 0 ? name_ : format("{}.rank{}", name_, r));
      if (value.ok() && !value->has_value()) ranks.push_back(r);
    }
    if (ranks.empty() || travel.passed()) break;
  }
  std::ranges::sort(ranks);
  return ranks;
}

}  // namespace longhaul
