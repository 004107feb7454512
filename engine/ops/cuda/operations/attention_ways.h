// Which implementation the attention of a GPU takes: own kernels, or cuDNN, which is opened once it could be taken.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "engine/ops/cuda/libraries/device_attention.h"

namespace longhaul::cuda {

class AttentionWays {
 public:
  // Where cuDNN is to be had from; asked for once, when an attention could take it. Without, there are own kernels.
  using OpenAttention = std::function<Result<std::unique_ptr<DeviceAttention>>()>;
  void set_library(OpenAttention open) { open_ = std::move(open); }
  // As Gpu::use_attention() says.
  Status use(const AttentionSettings& settings, AttentionObserver observer);

  // Of a case that was seen before, as before; a new one is reported.
  AttentionWay way_of(const AttentionCase& asked);
  // Where a way was AttentionWay::cudnn.
  DeviceAttention& library() const { return *library_; }

 private:
  void open_library();

  OpenAttention open_;
  AttentionSettings settings_;
  AttentionObserver observer_;
  std::unique_ptr<DeviceAttention> library_;
  CudnnFacts facts_;
  std::map<AttentionCase, AttentionWay> ways_;
};

}  // namespace longhaul::cuda
