#include "engine/parallel/expert_exchange.h"

#include <cstring>
#include <numeric>

#include "base/text.h"
#include "engine/comm/tree_sum.h"
#include "engine/ops/elementwise.h"

namespace longhaul {

ExpertExchange::ExpertExchange(Mesh& mesh)
    : communicator_(mesh.expert_communicator()),
      micro_batch_(mesh.micro_batch()),
      ep_(mesh.dims().ep),
      etp_(mesh.dims().etp),
      batches_(expert_dims_of(mesh.dims())->batches),
      deadline_ms_(mesh.deadline_ms()) {}

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

void ExpertExchange::dispatch(const ExpertRoute& route, std::int64_t width, ConstView rows, View received) {
  LH_ASSERT(communicator_ != nullptr, "one rank sends nothing");
  if (!status_.ok()) return;
  const std::int64_t row_bytes = width * dtype_bytes(rows.dtype());
  const std::vector<std::size_t> to = bytes_of(route.sent, row_bytes), from = bytes_of(route.received, row_bytes);
  const auto* in = static_cast<const std::byte*>(rows.data());
  if (etp_ > 1) {  // every part of an expert sees the row
    outgoing_.clear();
    outgoing_.reserve(std::accumulate(to.begin(), to.end(), std::size_t{0}));
    for (std::size_t rank = 0; rank < to.size(); ++rank) {
      outgoing_.insert(outgoing_.end(), in, in + to[rank]);
      if ((rank + 1) % static_cast<std::size_t>(etp_) == 0) in += to[rank];
    }
    in = outgoing_.data();
  }
  const std::size_t in_bytes = std::accumulate(to.begin(), to.end(), std::size_t{0});
  const std::size_t out_bytes = std::accumulate(from.begin(), from.end(), std::size_t{0});
  finish(communicator_->wait(
      communicator_->all_to_all_v({in, in_bytes}, to, {static_cast<std::byte*>(received.data()), out_bytes}, from),
      deadline_ms_));
}

void ExpertExchange::collect(const ComputeContext& context, const ExpertRoute& route, std::int64_t width,
                             ConstView answers, View rows) {
  LH_ASSERT(communicator_ != nullptr, "one rank sends nothing");
  if (!status_.ok()) return;
  const std::int64_t row_bytes = width * dtype_bytes(answers.dtype());
  const std::vector<std::size_t> to = bytes_of(route.received, row_bytes), from = bytes_of(route.sent, row_bytes);
  const std::size_t in_bytes = std::accumulate(to.begin(), to.end(), std::size_t{0});
  const std::size_t out_bytes = std::accumulate(from.begin(), from.end(), std::size_t{0});
  const ConstBytes in(static_cast<const std::byte*>(answers.data()), in_bytes);
  if (etp_ == 1)
    return finish(communicator_->wait(
        communicator_->all_to_all_v(in, to, {static_cast<std::byte*>(rows.data()), out_bytes}, from), deadline_ms_));
  LH_ASSERT(answers.dtype() == DType::f32, "addends are f32");
  landing_.resize(out_bytes / sizeof(float));
  finish(communicator_->wait(communicator_->all_to_all_v(in, to, std::as_writable_bytes(std::span(landing_)), from),
                             deadline_ms_));
  if (!status_.ok()) return;
  float* at = landing_.data();
  std::int64_t row = 0;
  for (std::size_t rank = 0; rank < route.sent.size(); rank += static_cast<std::size_t>(etp_)) {
    const std::int64_t count = route.sent[rank], size = count * width;
    if (count == 0) continue;
    std::vector<const float*> addends;
    for (int part = 0; part < etp_; ++part) addends.push_back(at + part * size);
    const std::span<float> sum(at, static_cast<std::size_t>(size));
    tree_sum(addends, sum);
    cast(context, View(sum.data(), Shape{count, width}), rows.rows(row, row + count));
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
