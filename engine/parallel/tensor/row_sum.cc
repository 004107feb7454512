#include "engine/parallel/tensor/row_sum.h"

#include <algorithm>
#include <utility>

#include "base/text/text.h"
#include "engine/comm/tree_sum.h"
#include "engine/core/tensor/transfer.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {

std::vector<RowRange> RowSum::pieces(std::int64_t tokens, const RowPieces& sizes) const {
  const int ranks = communicator_->size(), shares = sequence_ ? ranks : 1;
  const std::int64_t share = tokens / shares;
  const std::int64_t count = std::clamp<std::int64_t>(share / sizes.rows_min, 1, sizes.pieces_max);
  std::vector<RowRange> all;
  for (int turn = 1; turn <= shares; ++turn) {  // the own share comes last
    const std::int64_t first = sequence_ ? (communicator_->rank() + turn) % ranks * share : 0;
    for (std::int64_t i = 0; i < count; ++i)
      all.push_back({first + share * i / count, first + share * (i + 1) / count});
  }
  return all;
}

std::span<float> RowSum::floats(RowRange rows) const {
  return partial_.span<float>().subspan(static_cast<std::size_t>(rows.begin * columns_),
                                        static_cast<std::size_t>(rows.count() * columns_));
}

std::span<float> RowSum::addend_of(int rank) const {
  const auto size = static_cast<std::size_t>(own_rows() * columns_);
  const int place = rank < communicator_->rank() ? rank : rank - 1;
  return landing_.span<float>().subspan(static_cast<std::size_t>(place) * size, size);
}

void RowSum::start(View partial, View landing, std::int64_t tokens, std::int64_t columns, View out,
                   std::vector<RowRange> pieces, bool overlap) {
  LH_ASSERT(!under_way_, "a sum of rows is under way");
  partial_ = partial, landing_ = landing, out_ = out, tokens_ = tokens, columns_ = columns;
  pieces_ = std::move(pieces), given_ = 0, overlap_ = overlap;
  requests_.clear();
  under_way_ = true;
}

void RowSum::give() {
  const RowRange piece = pieces_[given_++];
  if (!overlap_ || !status_.ok()) return;
  if (!sequence_) {
    requests_.emplace_back(communicator_->all_reduce_sum(floats(piece)));
  } else if (piece.begin / own_rows() != communicator_->rank()) {
    exchange_addends(piece);
  }
  poll();
}

// A rank is as far as its neighbours: with the piece that goes to the rank `turn` places on, comes the one for this
// rank from as many places back. A receive before the product that this rank owes to others would hold a part of a
// device that the product needs.
void RowSum::exchange_addends(RowRange piece) {
  const int own = communicator_->rank(), ranks = communicator_->size();
  const auto to = static_cast<int>(piece.begin / own_rows());
  const int from = (2 * own - to + 2 * ranks) % ranks;
  const std::size_t begin = static_cast<std::size_t>((piece.begin - to * own_rows()) * columns_);
  const std::span<float> take = addend_of(from).subspan(begin, static_cast<std::size_t>(piece.count() * columns_));
  requests_.emplace_back(
      communicator_->exchange(std::as_bytes(floats(piece)), to, std::as_writable_bytes(take), from, tag_));
}

void RowSum::wait(std::optional<Request>& request) {
  if (!request) return;
  Request started = std::move(*request);
  request.reset();
  if (!status_.ok()) return;  // the communicator is broken: nothing of it is touched any more
  if (const Status done = communicator_->wait(std::move(started), deadline_ms_); !done.ok()) status_ = done;
}

// This rank's rows of all ranks, into its own addend.
void RowSum::add_up(const ComputeContext& context) {
  const int own = communicator_->rank();
  const std::span<float> sum = floats({own * own_rows(), (own + 1) * own_rows()});
  std::vector<std::span<float>> addends;
  for (int rank = 0; rank < communicator_->size(); ++rank) addends.push_back(rank == own ? sum : addend_of(rank));
  if (context.device()) {
    add_along_tree(context, addends);
    if (own != 0) copy_within(context, addends.front(), sum);
    return;
  }
  std::vector<const float*> terms;
  for (const std::span<float> addend : addends) terms.push_back(addend.data());
  tree_sum(terms, sum);
}

void RowSum::collect_at_once(const ComputeContext& context) {
  const std::span<float> all = floats({0, tokens_});
  const auto done = [&](Request request) {
    if (const Status waited = communicator_->wait(std::move(request), deadline_ms_); !waited.ok()) status_ = waited;
  };
  if (!sequence_) return done(communicator_->all_reduce_sum(all));
  const int own = communicator_->rank();
  const std::span<float> mine = landing_.span<float>().first(static_cast<std::size_t>(own_rows() * columns_));
  done(communicator_->reduce_scatter_sum(all, mine));
  if (status_.ok()) copy_within(context, mine, floats({own * own_rows(), (own + 1) * own_rows()}));
}

void RowSum::finish(const ComputeContext& context) {
  if (!under_way_) return;
  LH_ASSERT(given_ == pieces_.size(), format("{} of {} pieces were given", given_, pieces_.size()));
  under_way_ = false;
  if (!overlap_ && status_.ok()) collect_at_once(context);
  for (std::optional<Request>& request : requests_) wait(request);
  if (!status_.ok()) return;
  if (sequence_ && overlap_) add_up(context);
  const std::int64_t rows = sequence_ ? own_rows() : tokens_, first = sequence_ ? communicator_->rank() * rows : 0;
  const std::span<float> sum = floats({first, first + rows});
  cast(context, View(sum.data(), Shape{rows, columns_}), out_);
}

void RowSum::poll() {
  if (!under_way_) return;
  for (std::optional<Request>& request : requests_) {
    if (!request || !request->pending() || !status_.ok()) continue;
    if (const Result<bool> done = communicator_->test(*request); !done.ok()) status_ = done.error();
  }
}

}  // namespace longhaul
