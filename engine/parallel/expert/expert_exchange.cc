#include "engine/parallel/expert/expert_exchange.h"

#include <cstring>
#include <numeric>

#include "base/text/text.h"
#include "engine/core/tensor/transfer.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {

namespace {
constexpr int dispatch_tag = 1, answer_tag = 2;
}

ExpertExchange::ExpertExchange(Mesh& mesh, MemoryAccount* account)
    : communicator_(mesh.expert_communicator()),
      micro_batch_(mesh.micro_batch()),
      ep_(mesh.dims().ep),
      etp_(mesh.dims().etp),
      batches_(expert_dims_of(mesh.dims())->batches),
      deadline_ms_(mesh.deadline_ms()),
      outgoing_(account),
      landing_(account) {}

void ExpertExchange::finish(Status status) {
  if (!status.ok() && status_.ok()) status_ = std::move(status);
}

std::vector<std::size_t> ExpertExchange::bytes_of(std::span<const std::int64_t> rows, std::int64_t row_bytes) const {
  std::vector<std::size_t> bytes;
  for (const std::int64_t count : rows) bytes.push_back(static_cast<std::size_t>(count * row_bytes));
  return bytes;
}

ExpertRoute ExpertExchange::route(std::span<const std::int64_t> offsets) {
  const auto group = static_cast<std::size_t>(ranks());
  const std::size_t experts = offsets.size() - 1, local = experts / static_cast<std::size_t>(ep_);
  ExpertRoute made;
  // Rows for each expert of each rank; what comes back are those of each rank for each expert here.
  std::vector<std::int64_t> sent, arriving(group * local, 0);
  for (std::size_t rank = 0; rank < group; ++rank) {
    const std::size_t first = rank / static_cast<std::size_t>(etp_) * local;
    for (std::size_t e = first; e < first + local; ++e) sent.push_back(offsets[e + 1] - offsets[e]);
    made.sent.push_back(offsets[first + local] - offsets[first]);
  }
  if (!communicator_)
    arriving = sent;
  else if (status_.ok())
    finish(communicator_->wait(communicator_->all_to_all(std::as_bytes(std::span<const std::int64_t>(sent)),
                                                         std::as_writable_bytes(std::span(arriving))),
                               deadline_ms_));
  if (!status_.ok()) std::fill(arriving.begin(), arriving.end(), 0);
  made.received_from.push_back(0);
  for (std::size_t rank = 0; rank < group; ++rank) {
    std::vector<std::int64_t> of_rank = {0};
    for (std::size_t e = 0; e < local; ++e) of_rank.push_back(of_rank.back() + arriving[rank * local + e]);
    made.received.push_back(of_rank.back());
    made.received_from.push_back(made.received_from.back() + of_rank.back());
    made.offsets.push_back(std::move(of_rank));
  }
  return made;
}

void ExpertExchange::wait(std::optional<Request>& request) {
  if (!request) return;
  Request started = std::move(*request);
  request.reset();
  if (status_.ok()) finish(communicator_->wait(std::move(started), deadline_ms_));
}

void ExpertExchange::wait(Way& way) {
  for (std::optional<Request>& request : way) wait(request);
  way.clear();
}

int ExpertExchange::rank_of(int turn) const {
  return communicator_ ? (communicator_->rank() - turn + ranks()) % ranks() : 0;
}

namespace {

ConstBytes rows_of(ConstView rows, std::int64_t begin, std::int64_t end) {
  const ConstView part = rows.rows(begin, end);
  return {static_cast<const std::byte*>(part.data()), static_cast<std::size_t>(part.bytes())};
}
Bytes rows_of(View rows, std::int64_t begin, std::int64_t end) {
  const View part = rows.rows(begin, end);
  return {static_cast<std::byte*>(part.data()), static_cast<std::size_t>(part.bytes())};
}

// Where the rows that go to each rank begin: ranks with parts of the same experts get the same rows.
std::vector<std::int64_t> begins_of(const std::vector<std::int64_t>& sent, int etp) {
  std::vector<std::int64_t> begins;
  std::int64_t begin = 0;
  for (std::size_t rank = 0; rank < sent.size(); ++rank) {
    begins.push_back(begin);
    if ((rank + 1) % static_cast<std::size_t>(etp) == 0) begin += sent[rank];
  }
  return begins;
}

}  // namespace

void ExpertExchange::start_dispatch(const ComputeContext& context, const ExpertRoute& route, std::int64_t width,
                                    ConstView rows, View received) {
  LH_ASSERT(communicator_ != nullptr, "one rank sends nothing");
  if (!status_.ok()) return;
  if (!overlap_) return dispatch_at_once(context, route, width, rows, received);
  const int own = communicator_->rank();
  const std::vector<std::int64_t> begins = begins_of(route.sent, etp_);
  dispatch_.clear();
  for (int turn = 0; turn < ranks(); ++turn) {
    const auto from = static_cast<std::size_t>(rank_of(turn)), to = static_cast<std::size_t>((own + turn) % ranks());
    const Bytes in = rows_of(received, route.received_from[from], route.received_from[from + 1]);
    const ConstBytes out = rows_of(rows, begins[to], begins[to] + route.sent[to]);
    if (turn == 0) {
      copy_within(context, rows.rows(begins[to], begins[to] + route.sent[to]),
                  received.rows(route.received_from[from], route.received_from[from + 1]));
      dispatch_.emplace_back();
      continue;
    }
    dispatch_.emplace_back(
        communicator_->exchange(out, static_cast<int>(to), in, static_cast<int>(from), dispatch_tag));
  }
}

void ExpertExchange::wait_for(int rank) {
  if (!dispatch_.empty()) wait(dispatch_[static_cast<std::size_t>(turn_of(rank))]);
}

Bytes ExpertExchange::landing_of(int rank) {
  const auto r = static_cast<std::size_t>(rank);
  const std::vector<std::int64_t>& sent = collect_.route->sent;
  const std::int64_t before = std::accumulate(sent.begin(), sent.begin() + rank, std::int64_t{0});
  if (etp_ == 1) return rows_of(collect_.rows, before, before + sent[r]);
  return std::as_writable_bytes(landing_.span().subspan(static_cast<std::size_t>(before * collect_.width),
                                                        static_cast<std::size_t>(sent[r] * collect_.width)));
}

void ExpertExchange::start_collect(const ExpertRoute& route, std::int64_t width, ConstView answers, View rows) {
  LH_ASSERT(communicator_ != nullptr, "one rank sends nothing");
  LH_ASSERT(etp_ == 1 || answers.dtype() == DType::f32, "addends are f32");
  collect_ = {&route, width, answers, rows};
  if (etp_ > 1) landing_.take(std::accumulate(route.sent.begin(), route.sent.end(), std::int64_t{0}) * width);
  answer_.clear();
}

void ExpertExchange::give(const ComputeContext& context, int rank) {
  if (!communicator_ || !overlap_ || !status_.ok()) return;
  const auto r = static_cast<std::size_t>(rank);
  const ExpertRoute& route = *collect_.route;
  const ConstBytes out = rows_of(collect_.answers, route.received_from[r], route.received_from[r + 1]);
  if (rank == communicator_->rank()) {
    const Bytes in = landing_of(rank);
    const Shape bytes{static_cast<std::int64_t>(out.size())};
    copy_within(context, ConstView(out.data(), DType::u8, bytes), View(in.data(), DType::u8, bytes));
    answer_.emplace_back();
  } else {
    LH_ASSERT(rank == rank_of(static_cast<int>(answer_.size())), "answers are given in the order of the turns");
    const int from = (communicator_->rank() + turn_of(rank)) % ranks();
    answer_.emplace_back(communicator_->exchange(out, rank, landing_of(from), from, answer_tag));
  }
  poll();
}

void ExpertExchange::finish_collect(const ComputeContext& context) {
  if (!overlap_ && status_.ok()) collect_at_once();
  wait(dispatch_);
  wait(answer_);
  if (etp_ > 1 && status_.ok()) add_up_parts(context);
}

void ExpertExchange::poll() {
  const auto test = [this](std::optional<Request>& request) {
    if (!request || !request->pending() || !status_.ok()) return;
    if (const Result<bool> done = communicator_->test(*request); !done.ok()) finish(done.error());
  };
  for (Way* way : {&dispatch_, &answer_})
    for (std::optional<Request>& request : *way) test(request);
}

void ExpertExchange::dispatch_at_once(const ComputeContext& context, const ExpertRoute& route, std::int64_t width,
                                      ConstView rows, View received) {
  const std::int64_t row_bytes = width * dtype_bytes(rows.dtype());
  const std::vector<std::size_t> to = bytes_of(route.sent, row_bytes), from = bytes_of(route.received, row_bytes);
  const auto* in = static_cast<const std::byte*>(rows.data());
  const std::size_t in_bytes = std::accumulate(to.begin(), to.end(), std::size_t{0});
  if (etp_ > 1) {  // every part of an expert sees the row
    std::byte* const all = outgoing_.take(static_cast<std::int64_t>(in_bytes)).data();
    const std::vector<std::int64_t> begins = begins_of(route.sent, etp_);
    std::byte* next = all;
    for (std::size_t rank = 0; rank < to.size(); ++rank) {
      const Shape bytes{static_cast<std::int64_t>(to[rank])};
      copy_within(context, ConstView(in + begins[rank] * row_bytes, DType::u8, bytes), View(next, DType::u8, bytes));
      next += to[rank];
    }
    in = all;
  }
  const std::size_t out_bytes = std::accumulate(from.begin(), from.end(), std::size_t{0});
  finish(communicator_->wait(
      communicator_->all_to_all_v({in, in_bytes}, to, {static_cast<std::byte*>(received.data()), out_bytes}, from),
      deadline_ms_));
}

void ExpertExchange::collect_at_once() {
  const ExpertRoute& route = *collect_.route;
  const std::int64_t row_bytes = collect_.width * dtype_bytes(collect_.answers.dtype());
  const std::vector<std::size_t> to = bytes_of(route.received, row_bytes), from = bytes_of(route.sent, row_bytes);
  const std::size_t in_bytes = std::accumulate(to.begin(), to.end(), std::size_t{0});
  const std::size_t out_bytes = std::accumulate(from.begin(), from.end(), std::size_t{0});
  const ConstBytes in(static_cast<const std::byte*>(collect_.answers.data()), in_bytes);
  const Bytes out = etp_ == 1 ? Bytes(static_cast<std::byte*>(collect_.rows.data()), out_bytes)
                              : std::as_writable_bytes(landing_.span());
  finish(communicator_->wait(communicator_->all_to_all_v(in, to, out, from), deadline_ms_));
}

// Of each row the addends of the ranks that hold a part of its expert.
void ExpertExchange::add_up_parts(const ComputeContext& context) {
  const ExpertRoute& route = *collect_.route;
  float* at = landing_.span().data();
  std::int64_t row = 0;
  for (std::size_t rank = 0; rank < route.sent.size(); rank += static_cast<std::size_t>(etp_)) {
    const std::int64_t count = route.sent[rank], size = count * collect_.width;
    if (count == 0) continue;
    std::vector<std::span<float>> addends;
    for (int part = 0; part < etp_; ++part) addends.emplace_back(at + part * size, static_cast<std::size_t>(size));
    add_along_tree(context, addends);
    cast(context, View(at, Shape{count, collect_.width}), collect_.rows.rows(row, row + count));
    at += etp_ * size, row += count;
  }
}

void ExpertExchange::sum_over_micro_batch(std::span<float> values) {
  if (status_.ok()) finish(micro_batch_.sum_along_tree(values));
}

void ExpertExchange::gather_over_micro_batch(std::span<const float> mine, std::span<float> all) {
  if (status_.ok()) finish(micro_batch_.all_gather(mine, all));
}

}  // namespace longhaul
