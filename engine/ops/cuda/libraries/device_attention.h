// Attention of a device by a library, for CudaOps: cuDNN on a GPU (cudnn_attention.cc).
#pragma once

#include "base/error/result.h"
#include "engine/ops/attention/attention_choice.h"
#include "engine/ops/cuda/attention/attention_kernels.h"

namespace longhaul::cuda {

class DeviceAttention {
 public:
  virtual ~DeviceAttention() = default;
  virtual CudnnFacts facts() const = 0;
  // Makes ready what a case needs, once for each. An error: the library cannot do it, and says why; the case is not
  // asked for again.
  virtual Status prepare(const AttentionCase& asked, bool deterministic) = 0;
  // Of a case that was made ready. Into the stream that this was made with. A failure ends the process.
  virtual void forward(const AttentionCase& asked, const AttentionForward<bf16>& arguments) = 0;
  virtual void backward(const AttentionCase& asked, const AttentionBackward<bf16>& arguments) = 0;
};

}  // namespace longhaul::cuda
