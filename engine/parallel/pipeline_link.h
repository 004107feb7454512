// What a pipeline stage passes to its neighbours: activations to the next, their gradients to the one before, in the
// order of the micro-batches (1F1B: messages between two stages never overtake each other).
//
// Sends are started and waited for when their memory is needed again; receives wait. A failure is kept, and everything
// after it does nothing: whoever runs the model asks status().
#pragma once

#include <optional>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/core/tensor.h"
#include "engine/parallel/mesh.h"

namespace longhaul {

class PipelineLink {
 public:
  PipelineLink() = default;  // one stage: nobody to pass anything to
  explicit PipelineLink(Mesh& mesh);

  bool first() const { return stage_ == 0; }
  bool last() const { return stage_ + 1 == stages_; }

  // `x` must stay as it is until the same slot sends or finish() is called.
  void send_activation(int slot, ConstView x);
  void receive_activation(View x);
  // `dx` is copied: it may be overwritten at once.
  void send_gradient(ConstView dx);
  void receive_gradient(View dx);
  // Until nothing is under way.
  void finish();

  const Status& status() const { return status_; }

 private:
  void wait(std::optional<Request>& request);
  void receive(View x, int from, int tag);

  Communicator* communicator_ = nullptr;
  int stage_ = 0, stages_ = 1;
  std::int64_t deadline_ms_ = 0;
  std::vector<std::optional<Request>> activations_;  // by slot
  std::optional<Request> gradient_;
  std::vector<std::byte> gradient_memory_;
  Status status_;
};

}  // namespace longhaul
