#include "engine/ops/cuda/libraries/cudnn_graph.h"

#include <algorithm>
#include <utility>

#include "base/text/text.h"

namespace longhaul::cuda {

CudnnDescriptor::CudnnDescriptor(const Cudnn& cudnn, cudnnBackendDescriptorType_t type, std::string name,
                                 Status& status)
    : cudnn_(&cudnn), name_(std::move(name)) {
  if (status.ok()) status = cudnn.check(cudnn.descriptor_create(type, &handle_), "cudnnBackendCreateDescriptor", name_);
}
CudnnDescriptor::~CudnnDescriptor() {
  if (handle_ != nullptr) (void)cudnn_->descriptor_destroy(handle_);
}
CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : cudnn_(other.cudnn_), handle_(std::exchange(other.handle_, nullptr)), name_(std::move(other.name_)) {}
CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(cudnn_, other.cudnn_), std::swap(handle_, other.handle_), std::swap(name_, other.name_);
  return *this;
}

void CudnnDescriptor::set_array(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type,
                                std::int64_t count, const void* values, Status& status) {
  if (status.ok())
    status = cudnn_->check(cudnn_->set(handle_, attribute, type, count, values), "cudnnBackendSetAttribute",
                           format("{}, attribute {}", name_, static_cast<int>(attribute)));
}
void CudnnDescriptor::finalize(Status& status) {
  if (status.ok()) status = cudnn_->check(cudnn_->finalize(handle_), "cudnnBackendFinalize", name_);
}
std::int64_t CudnnDescriptor::get(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type,
                                  std::int64_t count, void* values, Status& status) const {
  std::int64_t have = 0;
  if (status.ok())
    status = cudnn_->check(cudnn_->get(handle_, attribute, type, count, &have, values), "cudnnBackendGetAttribute",
                           format("{}, attribute {}", name_, static_cast<int>(attribute)));
  return status.ok() ? have : 0;
}

CudnnGraph::CudnnGraph(const Cudnn& cudnn, cudnnHandle_t handle, std::string name)
    : cudnn_(cudnn), handle_(handle), name_(std::move(name)) {}

CudnnDescriptor& CudnnGraph::made(cudnnBackendDescriptorType_t type, const char* name) {
  return descriptors_.emplace_back(cudnn_, type, format("{} of {}", name, name_), status_);
}

CudnnGraph::Tensor CudnnGraph::tensor(cudnnDataType_t type, Dims dims, Dims strides, bool is_virtual, bool by_value) {
  CudnnDescriptor& d = made(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor");
  const auto id = static_cast<Tensor>(tensors_.size()) + 1;
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type, status_);
  d.set_array(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims.data(), status_);
  d.set_array(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides.data(), status_);
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id, status_);
  d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::int64_t{16}, status_);
  d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual, status_);
  d.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value, status_);
  d.finalize(status_);
  tensors_.push_back(&d);
  return id;
}
CudnnGraph::Tensor CudnnGraph::real(cudnnDataType_t type, Dims dims, Dims strides) {
  return tensor(type, dims, strides, false, false);
}
CudnnGraph::Tensor CudnnGraph::number(cudnnDataType_t type) {
  return tensor(type, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
}
CudnnGraph::Tensor CudnnGraph::inner(cudnnDataType_t type, Dims dims, Dims strides) {
  return tensor(type, dims, strides, true, false);
}
CudnnGraph::Tensor CudnnGraph::inner(cudnnDataType_t type, Dims d) {
  return inner(type, d, {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1});
}

void CudnnGraph::finish(CudnnDescriptor& operation) {
  operation.finalize(status_);
  operations_.push_back(&operation);
}

void CudnnGraph::matmul(Tensor a, Tensor b, Tensor c) {
  CudnnDescriptor& how = made(CUDNN_BACKEND_MATMUL_DESCRIPTOR, "a product");
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT, status_);
  how.finalize(status_);
  CudnnDescriptor& d = made(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "a product");
  d.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(a), status_);
  d.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(b), status_);
  d.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, of(c), status_);
  d.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how, status_);
  finish(d);
}

CudnnDescriptor& CudnnGraph::pointwise_operation(cudnnPointwiseMode_t mode, cudnnDataType_t arithmetic, int axis,
                                                 Tensor x, Tensor y) {
  CudnnDescriptor& how = made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "a pointwise operation");
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode, status_);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, arithmetic, status_);
  if (axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, std::int64_t{axis}, status_);
  how.finalize(status_);
  CudnnDescriptor& d = made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "a pointwise operation");
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how, status_);
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x), status_);
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(y), status_);
  return d;
}
void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor y) {
  finish(pointwise_operation(mode, CUDNN_DATA_FLOAT, -1, x, y));
}
void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y, cudnnDataType_t arithmetic) {
  CudnnDescriptor& d = pointwise_operation(mode, arithmetic, -1, x, y);
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(b), status_);
  finish(d);
}
void CudnnGraph::index(int axis, Tensor like, Tensor y) {
  finish(pointwise_operation(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis, like, y));
}
void CudnnGraph::select(Tensor x, Tensor otherwise, Tensor where, Tensor y) {
  CudnnDescriptor& d = pointwise_operation(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, x, y);
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(otherwise), status_);
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, of(where), status_);
  finish(d);
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t how, Tensor x, Tensor y) {
  CudnnDescriptor& reduction = made(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "a reduction");
  reduction.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT, status_);
  reduction.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, how, status_);
  reduction.finalize(status_);
  CudnnDescriptor& d = made(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "a reduction");
  d.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(x), status_);
  d.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, of(y), status_);
  d.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction, status_);
  finish(d);
}
void CudnnGraph::reshape(Tensor x, Tensor y) {
  CudnnDescriptor& d = made(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "a transposition");
  d.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(x), status_);
  d.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, of(y), status_);
  finish(d);
}

Result<CudnnPlan> CudnnGraph::plan(bool deterministic, std::int64_t workspace_max) {
  CudnnDescriptor& graph = made(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "the graph");
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor* operation : operations_) operations.push_back(operation->handle());
  graph.set_array(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  static_cast<std::int64_t>(operations.size()), static_cast<const void*>(operations.data()), status_);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle_, status_);
  graph.finalize(status_);
  CudnnDescriptor& heuristic = made(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "the heuristic");
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph, status_);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A, status_);
  heuristic.finalize(status_);
  const std::int64_t count =
      heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr, status_);
  std::vector<const CudnnDescriptor*> configurations;
  std::vector<cudnnBackendDescriptor_t> results;
  for (std::int64_t i = 0; i < count; ++i) {
    configurations.push_back(&made(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "an engine's configuration"));
    results.push_back(configurations.back()->handle());
  }
  const std::int64_t given = results.empty()
                                 ? 0
                                 : heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                                                 static_cast<void*>(results.data()), status_);
  LH_CHECK(status_);
  std::string last = "the heuristic names no engine";
  for (std::int64_t i = 0; i < given; ++i) {
    Result<CudnnPlan> tried = plan_of(*configurations[static_cast<std::size_t>(i)], deterministic, workspace_max);
    if (tried.ok()) return tried;
    last = tried.error().message();
  }
  return make_error(ErrorCode::unsupported, format("none of {} engines for {}: {}", given, name_, last));
}

Result<CudnnPlan> CudnnGraph::plan_of(const CudnnDescriptor& configuration, bool deterministic,
                                      std::int64_t workspace_max) const {
  Status status;
  if (deterministic) {
    CudnnDescriptor engine(cudnn_, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "an engine of " + name_, status);
    cudnnBackendDescriptor_t handle = engine.handle();
    configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, static_cast<void*>(&handle),
                      status);
    std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
    const std::int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                          static_cast<std::int64_t>(notes.size()), notes.data(), status);
    LH_CHECK(status);
    const auto end = notes.begin() + std::min(count, static_cast<std::int64_t>(notes.size()));
    if (std::find(notes.begin(), end, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) != end)
      return make_error(ErrorCode::unsupported, "the engine is not deterministic");
  }
  CudnnPlan plan{CudnnDescriptor(cudnn_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan of " + name_, status), 0};
  plan.descriptor.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration, status);
  plan.descriptor.finalize(status);
  plan.descriptor.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &plan.workspace_bytes, status);
  LH_CHECK(status);
  if (plan.workspace_bytes > workspace_max)
    return make_error(ErrorCode::unsupported,
                      format("the engine takes {} of workspace, more than {}", plan.workspace_bytes, workspace_max));
  return plan;
}

}  // namespace longhaul::cuda
