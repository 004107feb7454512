// What a pipeline stage passes to its neighbours: activations to the next, their gradients to the one before. All
// schedules run the micro-batches of one stage in ascending order, so messages between two stages never overtake each
// other (contracts/pipeline_messages.h).
//
// Sends are started and waited for when their memory is needed again; receives wait. A failure is kept, and everything
// after it does nothing: whoever runs the model asks status().
#pragma once

#include <optional>
#include <vector>

#include "contracts/pipeline_messages.h"
#include "contracts/pipeline_stages.h"
#include "engine/comm/communicator.h"
#include "engine/core/tensor.h"
#include "engine/parallel/mesh.h"

namespace longhaul {

class PipelineLink {
 public:
  PipelineLink() = default;  // one stage: nobody to pass anything to
  // chunk: which of this rank's vp stages.
  explicit PipelineLink(Mesh& mesh, int chunk = 0);

  bool first() const { return stage_ == 0; }
  bool last() const { return stage_ + 1 == stages_; }

  // `x` must stay as it is until the same slot sends or finish() is called.
  void send_activation(int slot, ConstView x);
  void receive_activation(View x);
  // `dx` is copied: it may be overwritten at once. Never waits: the rank before may itself wait for something that this
  // rank sends later.
  void send_gradient(ConstView dx);
  void receive_gradient(View dx);
  // Until nothing is under way.
  void finish();

  const Status& status() const { return status_; }

 private:
  void wait(std::optional<Request>& request);
  void receive(View x, bool forward);
  PipelineMessages messages(bool forward) const;
  struct Sending {
    std::vector<std::byte> memory;
    std::optional<Request> request;
  };

  Communicator* communicator_ = nullptr;
  int stage_ = 0, stages_ = 1;  // of the pp * vp
  int pp_ = 1, chunk_ = 0;
  std::int64_t deadline_ms_ = 0;
  std::vector<std::optional<Request>> activations_;  // by slot
  std::vector<Sending> gradients_;                   // as many as were ever under way at once
  Status status_;
};

}  // namespace longhaul
