#include "engine/model/store/unit_gather.h"

#include <algorithm>
#include <utility>

#include "contracts/plan/units_at_once.h"
#include "engine/comm/view_bytes.h"
#include "engine/core/device/device.h"

namespace longhaul {
namespace {

// The unit in use, the one whose norm ends it, one on its way, and a tied embedding at the other end.
constexpr std::size_t windows_max = 4;

}  // namespace

UnitGather::UnitGather(GatheredUnits units, Mesh& mesh, ConstView share, View whole, Device* device, bool overlap,
                       std::function<void()> before_large, MemoryAccount* account)
    : units_(units),
      communicator_(mesh.shard_communicator()),
      expert_communicator_(mesh.shard_communicator(true)),
      deadline_ms_(mesh.deadline_ms()),
      share_(share),
      whole_(whole),
      device_(device),
      overlap_(overlap),
      before_large_(std::move(before_large)),
      large_(large_units(units.all)),
      pending_(units.count()) {
  if (!whole_.empty()) return;
  std::int64_t largest = 0;
  for (const ShardUnit& unit : units.all) largest = std::max(largest, unit.flat.size());
  windows_.resize(std::min(windows_max, units.count()));
  for (Window& window : windows_) window.memory = Tensor(share.dtype(), Shape{largest}, account);
}

Communicator* UnitGather::communicator_of(int unit) const {
  return units_.all[static_cast<std::size_t>(unit)].experts ? expert_communicator_ : communicator_;
}

std::optional<Request> UnitGather::start(int unit, View out) {
  if (!status_.ok()) return std::nullopt;
  const PackedRanges::Piece& piece = units_.owned.pieces()[static_cast<std::size_t>(unit)];
  const ConstView mine = share_.rows(piece.packed().begin, piece.packed().end);
  Communicator* communicator = communicator_of(unit);
  if (!communicator) {
    const ConstBytes from = bytes_of(mine);
    if (device_)
      device_->copy(from.data(), out.data(), static_cast<std::int64_t>(from.size()));
    else
      std::copy(from.begin(), from.end(), bytes_of(out).begin());
    return std::nullopt;
  }
  std::optional<Request> request = communicator->all_gather(bytes_of(mine), bytes_of(out));
  if (!overlap_) wait(unit, request);
  return request;
}

void UnitGather::wait(int unit, std::optional<Request>& pending) {
  if (!pending) return;
  Request started = std::move(*pending);
  pending.reset();
  if (!status_.ok()) return;  // the communicator is broken: nothing of it is touched any more
  const Status done = communicator_of(unit)->wait(std::move(started), deadline_ms_);
  if (!done.ok()) status_ = done;
}

void UnitGather::begin() {
  finish();
  for (Window& window : windows_) window.unit = -1;
  last_unit_ = -1;
  if (whole_.empty()) return;
  for (std::size_t unit = 0; unit < pending_.size(); ++unit) {
    const FlatRange flat = units_.flat(unit);
    pending_[unit] = start(static_cast<int>(unit), whole_.rows(flat.begin, flat.end));
  }
}

void UnitGather::finish() {
  for (std::size_t unit = 0; unit < pending_.size(); ++unit) wait(static_cast<int>(unit), pending_[unit]);
  for (Window& window : windows_) wait(window.unit, window.pending);
}

void UnitGather::poll() {
  const auto test = [this](std::optional<Request>& request) {
    if (!request || !request->pending() || !status_.ok()) return;
    if (const Result<bool> done = communicator_->test(*request); !done.ok()) status_ = done.error();
  };
  for (std::optional<Request>& pending : pending_) test(pending);
  for (Window& window : windows_) test(window.pending);
}

UnitGather::Window* UnitGather::find(int unit) {
  const auto found = std::find_if(windows_.begin(), windows_.end(), [&](const Window& w) { return w.unit == unit; });
  return found == windows_.end() ? nullptr : &*found;
}

UnitGather::Window& UnitGather::load(int unit) {
  if (Window* window = find(unit)) return *window;
  Window& oldest = *std::min_element(windows_.begin(), windows_.end(),
                                     [](const Window& a, const Window& b) { return a.last_use < b.last_use; });
  wait(oldest.unit, oldest.pending);
  if (large_[static_cast<std::size_t>(unit)] && before_large_) before_large_();
  oldest.unit = unit;
  oldest.last_use = ++uses_;
  oldest.pending = start(unit, oldest.memory.view().rows(0, units_.flat(static_cast<std::size_t>(unit)).size()));
  return oldest;
}

ConstView UnitGather::require(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  const FlatRange flat = units_.flat(index);
  if (!whole_.empty()) {
    wait(unit, pending_[index]);
    return whole_.rows(flat.begin, flat.end);
  }
  Window& window = load(unit);
  window.last_use = ++uses_;
  wait(unit, window.pending);
  const ConstView weights = window.memory.view().rows(0, flat.size());
  if (unit != last_unit_) {
    const int next = last_unit_ < 0 || unit > last_unit_ ? unit + 1 : unit - 1;
    last_unit_ = unit;
    if (overlap_ && next >= 0 && next < static_cast<int>(units_.count())) load(next);
  }
  return weights;
}

}  // namespace longhaul
