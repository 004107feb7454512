// A graph of cuDNN's backend API while it is made: tensors of four dimensions [batch, head, row, column], operations on
// them, and the plan that carries it out. The first error stays; what comes after it does nothing, and plan() gives it.
// Descriptors live as long as the graph.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "engine/ops/cuda/libraries/cudnn_library.h"

namespace longhaul::cuda {

class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  CudnnDescriptor(const Cudnn& cudnn, cudnnBackendDescriptorType_t type, std::string name, Status& status);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;

  template <class T>
  void set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, const T& value, Status& status) {
    set_array(attribute, type, 1, static_cast<const void*>(&value), status);
  }
  void set(cudnnBackendAttributeName_t attribute, const CudnnDescriptor& other, Status& status) {
    set_array(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, static_cast<const void*>(&other.handle_), status);
  }
  void set_array(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, std::int64_t count,
                 const void* values, Status& status);
  void finalize(Status& status);
  // How many there are.
  std::int64_t get(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, std::int64_t count,
                   void* values, Status& status) const;
  cudnnBackendDescriptor_t handle() const { return handle_; }

 private:
  const Cudnn* cudnn_ = nullptr;
  cudnnBackendDescriptor_t handle_ = nullptr;
  std::string name_;  // for errors
};

// A plan that cuDNN accepted.
struct CudnnPlan {
  CudnnDescriptor descriptor;
  std::int64_t workspace_bytes = 0;
};

class CudnnGraph {
 public:
  using Dims = std::array<std::int64_t, 4>;
  using Tensor = std::int64_t;  // its unique id: 1, 2, …

  // Borrowed: cudnn, handle.
  CudnnGraph(const Cudnn& cudnn, cudnnHandle_t handle, std::string name);

  // Memory of the device, 16 bytes aligned; a number that the host gives with each call; and what no memory holds.
  Tensor real(cudnnDataType_t type, Dims dims, Dims strides);
  Tensor number(cudnnDataType_t type);
  Tensor inner(cudnnDataType_t type, Dims dims);  // packed
  Tensor inner(cudnnDataType_t type, Dims dims, Dims strides);

  void matmul(Tensor a, Tensor b, Tensor c);  // sums in f32; heads of b are shared by as many of a
  void pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor y);
  void pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y,
                 cudnnDataType_t arithmetic = CUDNN_DATA_FLOAT);
  void index(int axis, Tensor like, Tensor y);
  void select(Tensor x, Tensor otherwise, Tensor where, Tensor y);
  void reduce(cudnnReduceTensorOp_t how, Tensor x, Tensor y);
  void reshape(Tensor x, Tensor y);

  // The first engine of heuristic A that can do it, in at most so many bytes of workspace, and, if asked for, of those
  // that say of themselves that they are deterministic. Heuristic A asks a model of the GPU; nothing is timed. Errors:
  // those of cuDNN; unsupported where no engine is left, with the last one's reason.
  Result<CudnnPlan> plan(bool deterministic, std::int64_t workspace_max);

 private:
  Tensor tensor(cudnnDataType_t type, Dims dims, Dims strides, bool is_virtual, bool by_value);
  CudnnDescriptor& made(cudnnBackendDescriptorType_t type, const char* name);
  CudnnDescriptor& pointwise_operation(cudnnPointwiseMode_t mode, cudnnDataType_t arithmetic, int axis, Tensor x,
                                       Tensor y);
  void finish(CudnnDescriptor& operation);
  const CudnnDescriptor& of(Tensor tensor) const { return *tensors_[static_cast<std::size_t>(tensor - 1)]; }
  Result<CudnnPlan> plan_of(const CudnnDescriptor& configuration, bool deterministic, std::int64_t workspace_max) const;

  const Cudnn& cudnn_;
  cudnnHandle_t handle_;
  std::string name_;
  Status status_;
  std::deque<CudnnDescriptor> descriptors_;  // those of operations name those of tensors: none moves
  std::vector<const CudnnDescriptor*> tensors_, operations_;
};

}  // namespace longhaul::cuda
