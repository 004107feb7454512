#include "engine/parallel/tensor_parallel.h"

#include "engine/ops/elementwise.h"

namespace longhaul {

TensorParallel::TensorParallel(Mesh& mesh)
    : communicator_(mesh.tensor_communicator()),
      rank_(mesh.at().tp),
      size_(mesh.dims().tp),
      sequence_(mesh.dims().sp),
      deadline_ms_(mesh.deadline_ms()) {}

void TensorParallel::finish(Request request) {
  if (const Status done = communicator_->wait(std::move(request), deadline_ms_); !done.ok()) status_ = done;
}

void TensorParallel::sum_rows(const ComputeContext& context, View partial, std::int64_t tokens, std::int64_t columns,
                              View out) {
  if (!status_.ok()) return;
  const std::span<float> all = partial.span<float>().first(static_cast<std::size_t>(tokens * columns));
  if (!sequence_) {
    finish(communicator_->all_reduce_sum(all));
    return cast(context, View(all.data(), Shape{tokens, columns}), out);
  }
  const std::int64_t mine = rows(tokens);
  if (out.dtype() == DType::f32)
    return finish(
        communicator_->reduce_scatter_sum(all, out.span<float>().first(static_cast<std::size_t>(mine * columns))));
  landing_.resize(static_cast<std::size_t>(mine * columns));
  finish(communicator_->reduce_scatter_sum(all, landing_));
  cast(context, View(landing_.data(), Shape{mine, columns}), out);
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

}  // namespace longhaul
