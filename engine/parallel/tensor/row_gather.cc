#include "engine/parallel/tensor/row_gather.h"

#include <utility>

#include "engine/core/tensor/transfer.h"

namespace longhaul {

namespace {
constexpr int turns_under_way = 2;
}

Bytes RowGather::rows_of(int rank) const {
  return {out_ + static_cast<std::size_t>(rank) * local_.size(), local_.size()};
}

void RowGather::start(const ComputeContext& context, ConstView local, std::int64_t rows, std::int64_t columns, View out,
                      bool overlap) {
  LH_ASSERT(!under_way_, "a gather of rows is under way");
  if (!status_.ok()) return;
  const auto bytes = static_cast<std::size_t>(rows * columns * dtype_bytes(local.dtype()));
  local_ = ConstBytes(static_cast<const std::byte*>(local.data()), bytes);
  out_ = static_cast<std::byte*>(out.data());
  turns_.clear();
  arrived_ = communicator_->size() - 1;
  if (!overlap) {
    const Bytes all(out_, bytes * static_cast<std::size_t>(communicator_->size()));
    if (const Status done = communicator_->wait(communicator_->all_gather(local_, all), deadline_ms_); !done.ok())
      status_ = done;
    return;
  }
  copy_within(context, ConstView(local.data(), local.dtype(), Shape{rows * columns}),
              View(rows_of(communicator_->rank()).data(), local.dtype(), Shape{rows * columns}));
  under_way_ = true;
  arrived_ = 0;
  turns_.emplace_back();
  for (int turn = 0; turn < turns_under_way; ++turn) start_turn();
}

void RowGather::start_turn() {
  const int turn = static_cast<int>(turns_.size()), ranks = communicator_->size();
  if (turn >= ranks) return;
  const int from = rank_of(turn), to = (communicator_->rank() + turn) % ranks;
  turns_.emplace_back(communicator_->exchange(local_, to, rows_of(from), from, tag_));
}

void RowGather::wait(std::optional<Request>& request) {
  if (!request) return;
  Request started = std::move(*request);
  request.reset();
  if (!status_.ok()) return;  // the communicator is broken: nothing of it is touched any more
  if (const Status done = communicator_->wait(std::move(started), deadline_ms_); !done.ok()) status_ = done;
}

void RowGather::wait(int turn) {
  while (arrived_ < turn) {
    ++arrived_;
    wait(turns_[static_cast<std::size_t>(arrived_)]);
    start_turn();
  }
}

void RowGather::finish() {
  if (!under_way_) return;
  wait(communicator_->size() - 1);
  under_way_ = false;
}

void RowGather::poll() {
  if (!under_way_) return;
  for (std::optional<Request>& request : turns_) {
    if (!request || !request->pending() || !status_.ok()) continue;
    if (const Result<bool> done = communicator_->test(*request); !done.ok()) status_ = done.error();
  }
}

}  // namespace longhaul
