#include "engine/parallel/pipeline_link.h"

#include <cstring>
#include <utility>

namespace longhaul {
namespace {

constexpr int activation_tag = 0, gradient_tag = 1;

ConstBytes bytes_of(ConstView view) {
  return {static_cast<const std::byte*>(view.data()), static_cast<std::size_t>(view.bytes())};
}

}  // namespace

PipelineLink::PipelineLink(Mesh& mesh)
    : communicator_(mesh.pipeline_communicator()),
      stage_(mesh.at().pp),
      stages_(mesh.dims().pp),
      deadline_ms_(mesh.deadline_ms()) {}

void PipelineLink::wait(std::optional<Request>& request) {
  if (!request) return;
  Request started = std::move(*request);
  request.reset();
  if (!status_.ok()) return;  // the communicator is broken: nothing of it is touched any more
  if (const Status done = communicator_->wait(std::move(started), deadline_ms_); !done.ok()) status_ = done;
}

void PipelineLink::receive(View x, int from, int tag) {
  if (!status_.ok()) return;
  std::optional<Request> request =
      communicator_->recv(Bytes(static_cast<std::byte*>(x.data()), static_cast<std::size_t>(x.bytes())), from, tag);
  wait(request);
}

void PipelineLink::send_activation(int slot, ConstView x) {
  const auto index = static_cast<std::size_t>(slot);
  if (activations_.size() <= index) activations_.resize(index + 1);
  wait(activations_[index]);
  if (status_.ok()) activations_[index] = communicator_->send(bytes_of(x), stage_ + 1, activation_tag);
}

void PipelineLink::receive_activation(View x) {
  receive(x, stage_ - 1, activation_tag);
}

void PipelineLink::send_gradient(ConstView dx) {
  wait(gradient_);
  if (!status_.ok()) return;
  const ConstBytes bytes = bytes_of(dx);
  gradient_memory_.assign(bytes.begin(), bytes.end());
  gradient_ = communicator_->send(gradient_memory_, stage_ - 1, gradient_tag);
}

void PipelineLink::receive_gradient(View dx) {
  receive(dx, stage_ + 1, gradient_tag);
}

void PipelineLink::finish() {
  for (std::optional<Request>& request : activations_) wait(request);
  wait(gradient_);
}

}  // namespace longhaul
