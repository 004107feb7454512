// Room engine/parallel/pipeline
// What a pipeline stage sends to its neighbours, and the collection of whole weights for export.
// pipeline_link.h passes activations forward and gradients back; gather_masters.h gathers whole weights.
// It does not know the schedule's executor: the caller says when to send (contracts/pipeline).
//
// What a pipeline stage passes to its neighbours: activations to the next, their gradients to the one before. All
// schedules run the micro-batches of one stage in ascending order, so messages between two stages never overtake each
// other (contracts/pipeline/pipeline_messages.h).
//
// Sends are started and waited for when their memory is needed again; receives wait. A failure is kept, and everything
// after it does nothing: whoever runs the model asks status().
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "contracts/pipeline/pipeline_messages.h"
#include "contracts/pipeline/pipeline_stages.h"
#include "engine/comm/communicator.h"
#include "engine/core/tensor/tensor.h"
#include "engine/parallel/mesh/mesh.h"

namespace longhaul {

class PipelineLink {
 public:
  PipelineLink() = default;  // one stage: nobody to pass anything to
  // chunk: which of this rank's vp stages. device: in whose memory activations lie, and messages that wait; null: in
  // the host's. Borrowed.
  explicit PipelineLink(Mesh& mesh, int chunk = 0, Device* device = nullptr);

  bool first() const { return stage_ == 0; }
  bool last() const { return stage_ + 1 == stages_; }

  // The next message of this kind not expected yet, of so many bytes, is received beside what is computed meanwhile,
  // into memory of its own; receive_activation or receive_gradient, as often and in the same order, takes it. Never
  // waits.
  void expect(std::int64_t bytes, bool forward);
  // `x` must stay as it is until the same slot sends or finish() is called.
  void send_activation(int slot, ConstView x);
  void receive_activation(View x);
  // `dx` is copied: it may be overwritten at once. Never waits: the rank before may itself wait for something that this
  // rank sends later.
  void send_gradient(ConstView dx);
  void receive_gradient(View dx);
  // Until nothing is under way.
  void finish();
  // Lets what is under way go on.
  void poll();
  // Without overlap every send is waited for where it starts.
  void set_overlap(bool overlap) { overlap_ = overlap; }

  const Status& status() const { return status_; }
  // Of messages that are on their way or were.
  std::int64_t bytes() const;

 private:
  void wait(std::optional<Request>& request);
  void receive(View x, bool forward);
  PipelineMessages messages(bool forward) const;
  struct Message {
    Buffer memory;
    std::size_t bytes = 0;  // of it
    std::optional<Request> request;
  };
  static Bytes bytes_of_message(Message& message) { return {message.memory.data(), message.bytes}; }
  // Memory for so many, its own if that is enough.
  void make_room(Message& message, std::size_t bytes);
  void copy(ConstBytes from, Bytes to);

  Communicator* communicator_ = nullptr;
  std::unique_ptr<MemoryAccount> place_ = std::make_unique<MemoryAccount>();  // where messages wait
  bool overlap_ = true;
  int stage_ = 0, stages_ = 1;  // of the pp * vp
  int pp_ = 1, chunk_ = 0;
  std::int64_t deadline_ms_ = 0;
  std::vector<std::optional<Request>> activations_;  // by slot
  std::vector<Message> gradients_;                   // as many as were ever under way at once
  std::deque<Message> expected_[2];                  // gradients, activations
  std::vector<Buffer> spare_;
  Status status_;
};

}  // namespace longhaul
