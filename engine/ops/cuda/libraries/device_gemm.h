// Room engine/ops/cuda/libraries
// Products by cuBLASLt and attention by cuDNN, opened while the program runs.
// device_gemm.h and device_attention.h are the interfaces that CudaOps calls and tests implement themselves.
// cublaslt_products.h and cudnn_graph.h call the libraries; cudnn_attention_graph.h is cuDNN's pattern.
// It may not include cuda_ops.h: the choice between a library and an own kernel is made there.
//
// Matrix products of a device, for CudaOps: cuBLASLt on a GPU (gemm_cublaslt.cc), the processor's own where tests
// emulate one.
#pragma once

#include "engine/ops/cuda/common/stream.h"
#include "engine/ops/linear/fp8.h"
#include "engine/ops/linear/gemm.h"

namespace longhaul::cuda {

// What is done with a product before it is written to C.
struct GemmEpilogue {
  enum class What {
    bias,           // C = product + bias
    bias_gelu,      // before = product + bias, C = gelu(before)
    gelu_backward,  // C = product times GELU's slope at `before`
  };
  What what = What::bias;
  ConstView bias = {};  // [n], of C's type
  View before = {};     // [m, n], of C's type
};

class DeviceGemm {
 public:
  virtual ~DeviceGemm() = default;
  // As gemm.h says; types were checked. Sums in f32.
  virtual void run(cudaStream_t stream, const GemmShape& shape, ConstView a, ConstView b, View c) = 0;
  // The same with an epilogue. False: there is none such for these sizes, types and addresses, and nothing was done;
  // the caller takes the steps apart.
  [[nodiscard]] virtual bool run_fused(cudaStream_t, const GemmShape&, ConstView, ConstView, View,
                                       const GemmEpilogue&) {
    return false;
  }

  // fp8.h.
  virtual Fp8Support fp8_support() const { return {.why_not = "this device has no products of eight bits"}; }
  virtual std::string fp8_refusal(const Fp8Product&, const Fp8Operands&, ConstView) { return fp8_support().why_not; }
  // Of what is not refused. True: with the bias; false: without it.
  [[nodiscard]] virtual bool run_fp8(cudaStream_t, const Fp8Product&, const Fp8Operands&, View, ConstView) {
    LH_ASSERT(false, fp8_support().why_not);
    return false;
  }
};

}  // namespace longhaul::cuda
