#include "engine/parallel/pipeline_link.h"

#include <utility>

namespace longhaul {
namespace {

ConstBytes bytes_of(ConstView view) {
  return {static_cast<const std::byte*>(view.data()), static_cast<std::size_t>(view.bytes())};
}

}  // namespace

PipelineLink::PipelineLink(Mesh& mesh, int chunk)
    : communicator_(mesh.pipeline_communicator()),
      stage_(stage_of_chunk(mesh.dims().pp, mesh.at().pp, chunk)),
      stages_(mesh.dims().pp * mesh.dims().vp),
      pp_(mesh.dims().pp),
      chunk_(chunk),
      deadline_ms_(mesh.deadline_ms()) {}

void PipelineLink::wait(std::optional<Request>& request) {
  if (!request) return;
  Request started = std::move(*request);
  request.reset();
  if (!status_.ok()) return;  // the communicator is broken: nothing of it is touched any more
  if (const Status done = communicator_->wait(std::move(started), deadline_ms_); !done.ok()) status_ = done;
}

PipelineMessages PipelineLink::messages(bool forward) const {
  using Kind = ScheduleOp::Kind;
  return pipeline_messages(pp_, stages_ / pp_, stage_ % pp_,
                           {forward ? Kind::forward : Kind::backward_input, 0, chunk_});
}

void PipelineLink::receive(View x, bool forward) {
  if (!status_.ok()) return;
  const PipelineMessages::Peer from = *messages(forward).receive;
  std::optional<Request> request = communicator_->recv(
      Bytes(static_cast<std::byte*>(x.data()), static_cast<std::size_t>(x.bytes())), from.pp_rank, from.tag);
  wait(request);
}

void PipelineLink::send_activation(int slot, ConstView x) {
  const auto index = static_cast<std::size_t>(slot);
  if (activations_.size() <= index) activations_.resize(index + 1);
  wait(activations_[index]);
  const PipelineMessages::Peer to = *messages(true).send;
  if (status_.ok()) activations_[index] = communicator_->send(bytes_of(x), to.pp_rank, to.tag);
}

void PipelineLink::receive_activation(View x) {
  receive(x, true);
}

void PipelineLink::send_gradient(ConstView dx) {
  if (!status_.ok()) return;
  auto free = gradients_.begin();
  for (; free != gradients_.end(); ++free) {
    const Result<bool> done = communicator_->test(*free->request);
    if (!done.ok()) {
      status_ = done.error();
      return;
    }
    if (*done) break;
  }
  if (free == gradients_.end()) free = gradients_.emplace(gradients_.end());
  const ConstBytes bytes = bytes_of(dx);
  free->memory.assign(bytes.begin(), bytes.end());
  const PipelineMessages::Peer to = *messages(false).send;
  free->request = communicator_->send(free->memory, to.pp_rank, to.tag);
}

void PipelineLink::receive_gradient(View dx) {
  receive(dx, false);
}

void PipelineLink::finish() {
  for (std::optional<Request>& request : activations_) wait(request);
  for (Sending& sending : gradients_) wait(sending.request);
  gradients_.clear();
}

}  // namespace longhaul
