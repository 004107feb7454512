#include "engine/parallel/pipeline/pipeline_link.h"

#include <algorithm>
#include <utility>

#include "engine/comm/view_bytes.h"
#include "engine/core/device/device.h"

namespace longhaul {

PipelineLink::PipelineLink(Mesh& mesh, int chunk, Device* device)
    : communicator_(mesh.pipeline_communicator()),
      stage_(stage_of_chunk(mesh.dims().pp, mesh.at().pp, chunk)),
      stages_(mesh.dims().pp * mesh.dims().vp),
      pp_(mesh.dims().pp),
      chunk_(chunk),
      deadline_ms_(mesh.deadline_ms()) {
  place_->device = device;
}

void PipelineLink::make_room(Message& message, std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  if (message.memory.bytes() < size) message.memory = Buffer(), message.memory = Buffer(size, place_.get());
  message.bytes = bytes;
}

void PipelineLink::copy(ConstBytes from, Bytes to) {
  if (Device* device = place_->device)
    device->copy(from.data(), to.data(), static_cast<std::int64_t>(from.size()));
  else
    std::copy(from.begin(), from.end(), to.begin());
}

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

void PipelineLink::expect(std::int64_t bytes, bool forward) {
  const auto receive = messages(forward).receive;
  if (!overlap_ || !receive || !status_.ok()) return;
  Message message;
  if (!spare_.empty()) message.memory = std::move(spare_.back()), spare_.pop_back();
  make_room(message, static_cast<std::size_t>(bytes));
  std::deque<Message>& queue = expected_[forward ? 1 : 0];
  queue.push_back(std::move(message));
  queue.back().request = communicator_->recv(bytes_of_message(queue.back()), receive->pp_rank, receive->tag);
}

void PipelineLink::receive(View x, bool forward) {
  if (!status_.ok()) return;
  const Bytes out(static_cast<std::byte*>(x.data()), static_cast<std::size_t>(x.bytes()));
  std::deque<Message>& queue = expected_[forward ? 1 : 0];
  if (queue.empty()) {
    const PipelineMessages::Peer from = *messages(forward).receive;
    std::optional<Request> request = communicator_->recv(out, from.pp_rank, from.tag);
    return wait(request);
  }
  Message message = std::move(queue.front());
  queue.pop_front();
  wait(message.request);
  LH_ASSERT(message.bytes == out.size(), std::to_string(out.size()));
  if (status_.ok()) copy(bytes_of_message(message), out);
  spare_.push_back(std::move(message.memory));
}

void PipelineLink::send_activation(int slot, ConstView x) {
  const auto index = static_cast<std::size_t>(slot);
  if (activations_.size() <= index) activations_.resize(index + 1);
  wait(activations_[index]);
  const PipelineMessages::Peer to = *messages(true).send;
  if (status_.ok()) activations_[index] = communicator_->send(bytes_of(x), to.pp_rank, to.tag);
  if (!overlap_) wait(activations_[index]);
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
  make_room(*free, bytes.size());
  copy(bytes, bytes_of_message(*free));
  const PipelineMessages::Peer to = *messages(false).send;
  free->request = communicator_->send(bytes_of_message(*free), to.pp_rank, to.tag);
  if (!overlap_) wait(free->request), free->request.emplace();
}

void PipelineLink::receive_gradient(View dx) {
  receive(dx, false);
}

void PipelineLink::finish() {
  for (std::optional<Request>& request : activations_) wait(request);
  for (Message& message : gradients_) wait(message.request);
  gradients_.clear();
}

std::int64_t PipelineLink::bytes() const {
  return place_->bytes_now;
}

void PipelineLink::poll() {
  const auto test = [this](std::optional<Request>& request) {
    if (!request || !request->pending() || !status_.ok()) return;
    if (const Result<bool> done = communicator_->test(*request); !done.ok()) status_ = done.error();
  };
  for (std::optional<Request>& request : activations_) test(request);
  for (Message& message : gradients_) test(message.request);
  for (std::deque<Message>& queue : expected_)
    for (Message& message : queue) test(message.request);
}

}  // namespace longhaul
