#include "engine/parallel/tensor/tensor_parallel.h"

namespace longhaul {

namespace {
constexpr int sum_tag = 1, needed_tag = 2, ahead_tag = 3;
}

TensorParallel::TensorParallel(Mesh& mesh, const TensorOverlap& overlap)
    : communicator_(mesh.tensor_communicator()),
      rank_(mesh.at().tp),
      size_(mesh.dims().tp),
      sequence_(mesh.dims().sp),
      overlap_(overlap),
      deadline_ms_(mesh.deadline_ms()),
      sum_(communicator_, sequence_, sum_tag, deadline_ms_),
      needed_(communicator_, needed_tag, deadline_ms_),
      ahead_(communicator_, ahead_tag, deadline_ms_) {}

void TensorParallel::finish(Request request) {
  if (const Status done = communicator_->wait(std::move(request), deadline_ms_); !done.ok()) status_ = done;
}

const Status& TensorParallel::status() const {
  for (const Status* status : {&sum_.status(), &needed_.status(), &ahead_.status()})
    if (!status->ok()) return *status;
  return status_;
}

void TensorParallel::start_sum(View partial, View landing, std::int64_t tokens, std::int64_t columns, View out) {
  sum_.start(partial, landing, tokens, columns, out, pieces(tokens), overlap_.on);
}

void TensorParallel::sum_rows(const ComputeContext& context, View partial, View landing, std::int64_t tokens,
                              std::int64_t columns, View out) {
  sum_.start(partial, landing, tokens, columns, out, {}, false);
  sum_.finish(context);
}

void TensorParallel::gather_rows(View local, std::int64_t tokens, std::int64_t columns, View out) {
  if (sequence_) gather_parts(local, tokens, columns, out);
}

void TensorParallel::gather_parts(View local, std::int64_t tokens, std::int64_t columns, View out) {
  if (!splits() || !status_.ok()) return;
  const auto bytes_of = [&](View view, std::int64_t count) {
    return Bytes(static_cast<std::byte*>(view.data()),
                 static_cast<std::size_t>(count * columns * dtype_bytes(view.dtype())));
  };
  finish(communicator_->all_gather(bytes_of(local, tokens / size_), bytes_of(out, tokens)));
}

void TensorParallel::sum(std::span<float> values) {
  if (splits() && status_.ok()) finish(communicator_->all_reduce_sum(values));
}

void TensorParallel::max(std::span<float> values) {
  if (splits() && status_.ok()) finish(communicator_->all_reduce_max(values));
}

void TensorParallel::poll() {
  sum_.poll();
  needed_.poll();
  ahead_.poll();
}

}  // namespace longhaul
