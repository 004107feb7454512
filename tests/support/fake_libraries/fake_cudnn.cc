// A simulated cuDNN (its graph API), built as a shared library and loaded in the place of the real one. It reads the
// graph that it is given from its descriptors and computes it, operation by operation, on the memory that the variant
// pack names. As strict as the real one may be:
//   - an attribute that a descriptor does not have, of another type, or of another number of elements is an error; so
//     is one set after finalizing, one that is missing then, and a descriptor that is used before it is finalized;
//   - tensors of one graph have different unique ids; all that are not virtual have an address in the variant pack, and
//     it names no others, none twice, and none that lies at another multiple than its tensor said;
//   - numbers by value lie in the host's memory, all else in the device's, as does the workspace, to its last byte;
//   - graphs other than those of attention are not supported.
// fake_cudnn_misbehave() makes the next calls go wrong; fake_cudnn_memory() says which memory is the device's.
#include <array>
#include <set>

#include "tests/support/fake_libraries/fake_cudnn_graph.h"

using namespace longhaul::fake_cudnn;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

struct Memory {
  void (*open)(void*) = nullptr;
  void (*close)(void*) = nullptr;
  bool (*owns)(void*, const void*) = nullptr;
  void* device = nullptr;
};

struct Process {
  std::map<void*, std::shared_ptr<Descriptor>> descriptors;
  std::set<cudnnHandle_t> handles;
  std::string said, misbehaving, graph;
  Memory memory;
  std::map<std::string, long> counts;
};
Process& process() {
  static Process one;
  return one;
}

cudnnStatus_t fail(cudnnStatus_t status, const std::string& what) {
  process().said = what;
  return status;
}
cudnnStatus_t status_of(const Failure& failure) {
  return failure.failed() ? fail(failure.status, failure.what) : CUDNN_STATUS_SUCCESS;
}

struct Rule {
  int name;
  cudnnBackendAttributeType_t type;
  std::int64_t most;
  bool needed;
};

const std::vector<Rule>* rules_of(cudnnBackendDescriptorType_t type) {
  constexpr auto descriptor = CUDNN_TYPE_BACKEND_DESCRIPTOR, dtype = CUDNN_TYPE_DATA_TYPE, whole = CUDNN_TYPE_INT64;
  static const std::map<int, std::vector<Rule>> all = {
      {CUDNN_BACKEND_TENSOR_DESCRIPTOR,
       {{CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, whole, 1, true},
        {CUDNN_ATTR_TENSOR_DATA_TYPE, dtype, 1, true},
        {CUDNN_ATTR_TENSOR_DIMENSIONS, whole, CUDNN_DIM_MAX, true},
        {CUDNN_ATTR_TENSOR_STRIDES, whole, CUDNN_DIM_MAX, true},
        {CUDNN_ATTR_TENSOR_UNIQUE_ID, whole, 1, true},
        {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, false},
        {CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, false},
        {CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE, 1, false}}},
      {CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
       {{CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, true},
        {CUDNN_ATTR_POINTWISE_MATH_PREC, dtype, 1, true},
        {CUDNN_ATTR_POINTWISE_AXIS, whole, 1, false}}},
      {CUDNN_BACKEND_MATMUL_DESCRIPTOR, {{CUDNN_ATTR_MATMUL_COMP_TYPE, dtype, 1, true}}},
      {CUDNN_BACKEND_REDUCTION_DESCRIPTOR,
       {{CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, true},
        {CUDNN_ATTR_REDUCTION_COMP_TYPE, dtype, 1, true},
        {CUDNN_ATTR_REDUCTION_IS_DETERMINISTIC, CUDNN_TYPE_BOOLEAN, 1, false}}},
      {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, descriptor, 1, true},
        {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, descriptor, 1, true},
        {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, descriptor, 1, false},
        {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, descriptor, 1, false},
        {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, descriptor, 1, true},
        {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1, false},
        {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, false}}},
      {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_MATMUL_ADESC, descriptor, 1, true},
        {CUDNN_ATTR_OPERATION_MATMUL_BDESC, descriptor, 1, true},
        {CUDNN_ATTR_OPERATION_MATMUL_CDESC, descriptor, 1, true},
        {CUDNN_ATTR_OPERATION_MATMUL_DESC, descriptor, 1, true}}},
      {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_REDUCTION_XDESC, descriptor, 1, true},
        {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, descriptor, 1, true},
        {CUDNN_ATTR_OPERATION_REDUCTION_DESC, descriptor, 1, true}}},
      {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_RESHAPE_XDESC, descriptor, 1, true},
        {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, descriptor, 1, true}}},
      {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, true},
        {CUDNN_ATTR_OPERATIONGRAPH_OPS, descriptor, 64, true}}},
      {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
       {{CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, descriptor, 1, true},
        {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, true}}},
      {CUDNN_BACKEND_ENGINE_DESCRIPTOR,
       {{CUDNN_ATTR_ENGINE_OPERATION_GRAPH, descriptor, 1, true}, {CUDNN_ATTR_ENGINE_GLOBAL_INDEX, whole, 1, true}}},
      {CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
       {{CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, true},
        {CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, whole, 1, true}}},
      {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, {{CUDNN_ATTR_ENGINECFG_ENGINE, descriptor, 1, true}}},
      {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
       {{CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, false},  // the graph has it
        {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, descriptor, 1, true}}},
      {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
       {{CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, whole, 64, true},
        {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 64, true},
        {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, true}}}};
  const auto found = all.find(type);
  return found == all.end() ? nullptr : &found->second;
}

std::size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE: return 8;
    default: return 4;
  }
}

std::shared_ptr<Descriptor> found(cudnnBackendDescriptor_t descriptor) {
  const auto it = process().descriptors.find(descriptor);
  return it == process().descriptors.end() ? nullptr : it->second;
}

cudnnStatus_t check_tensor(const Descriptor& d) {
  const auto dims = d.values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = d.values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  if (dims.size() != strides.size()) return fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "dimensions and strides");
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (dims[i] < 1 || strides[i] < 1)
      return fail(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, "a dimension or stride below 1");
  const auto alignment = d.value<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  if (alignment < 1 || (alignment & (alignment - 1)) != 0) return fail(CUDNN_STATUS_BAD_PARAM, "alignment");
  if (d.value<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) && d.value<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE))
    return fail(CUDNN_STATUS_BAD_PARAM, "a tensor both virtual and by value");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_graph(const Descriptor& graph) {
  std::set<std::int64_t> ids;
  for (const Descriptor* tensor : tensors_of(graph))
    if (!ids.insert(tensor->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)).second)
      return fail(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "two tensors of one unique id");
  process().graph = text_of(graph);
  ++process().counts["graphs"];
  return CUDNN_STATUS_SUCCESS;
}

const Descriptor& graph_of_plan(const Descriptor& plan) {
  return plan.one(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
      .one(CUDNN_ATTR_ENGINECFG_ENGINE)
      .one(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
}
std::int64_t workspace_of_plan(const Descriptor& plan) {
  return process().misbehaving == "large_workspace" ? std::int64_t{1} << 40 : workspace_of(graph_of_plan(plan));
}

cudnnStatus_t check_plan(const Descriptor& plan) {
  const auto engine = plan.one(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                          .one(CUDNN_ATTR_ENGINECFG_ENGINE)
                          .value<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  if (process().misbehaving == "unsupported" || (process().misbehaving == "first_unsupported" && engine == 0))
    return fail(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "this shape has no kernel");
  ++process().counts["plans"];
  return CUDNN_STATUS_SUCCESS;
}

void fill_engine(Descriptor& configuration, const std::shared_ptr<Descriptor>& graph, std::int64_t index) {
  auto engine = std::make_shared<Descriptor>();
  engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
  engine->finalized = true;
  engine->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {graph}};
  Attribute number{CUDNN_TYPE_INT64, 1, std::vector<std::byte>(8), {}};
  std::memcpy(number.bytes.data(), &index, 8);
  engine->attributes[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] = number;
  configuration.attributes[CUDNN_ATTR_ENGINECFG_ENGINE] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {engine}};
  configuration.finalized = true;
}

std::vector<cudnnBackendNumericalNote_t> notes_of(const Descriptor& engine) {
  std::vector<cudnnBackendNumericalNote_t> notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
  if (sums_as_they_come(engine.one(CUDNN_ATTR_ENGINE_OPERATION_GRAPH)) || process().misbehaving == "nondeterministic")
    notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  return notes;
}

// What GetAttribute gives of descriptors into descriptors that the caller made.
cudnnStatus_t give_descriptors(const Descriptor& d, int name, std::int64_t asked, std::int64_t* count, void* into) {
  std::vector<std::shared_ptr<Descriptor>> targets;
  for (std::int64_t i = 0; into != nullptr && i < asked; ++i) {
    targets.push_back(found(static_cast<cudnnBackendDescriptor_t*>(into)[i]));
    if (targets.back() == nullptr) return fail(CUDNN_STATUS_BAD_PARAM, "a descriptor that is none");
  }
  if (d.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    const std::int64_t have = process().misbehaving == "no_engine" ? 0 : 2;
    if (count != nullptr) *count = into == nullptr ? have : std::min(asked, have);
    for (std::size_t i = 0; i < targets.size() && static_cast<std::int64_t>(i) < have; ++i) {
      if (targets[i]->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        return fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "results of a heuristic are engine configurations");
      fill_engine(*targets[i], d.of(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).front(), static_cast<std::int64_t>(i));
    }
    return CUDNN_STATUS_SUCCESS;
  }
  if (d.type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    if (count != nullptr) *count = 1;
    if (targets.size() == 1 && targets[0]->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR)
      *targets[0] = d.one(CUDNN_ATTR_ENGINECFG_ENGINE);
    else if (into != nullptr)
      return fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "one engine is given");
    return CUDNN_STATUS_SUCCESS;
  }
  if (d.type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES) {
    if (count != nullptr) *count = 0;
    return CUDNN_STATUS_SUCCESS;
  }
  return fail(CUDNN_STATUS_BAD_PARAM, "this attribute cannot be asked for");
}

Failure check_address(const Descriptor& tensor, const void* address) {
  const Memory& memory = process().memory;
  const std::string name = "tensor " + std::to_string(tensor.value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
  if (address == nullptr) return {CUDNN_STATUS_BAD_PARAM_NULL_POINTER, name};
  const bool by_value = tensor.value<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  const auto alignment = tensor.value<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  if (!by_value && reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(alignment) != 0)
    return {CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, name};
  if (memory.owns == nullptr) return {};
  std::int64_t last = 0;
  const auto dims = tensor.values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = tensor.values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  for (std::size_t i = 0; i < dims.size(); ++i) last += (dims[i] - 1) * strides[i];
  const std::int64_t size = tensor.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_BFLOAT16 ? 2 : 4;
  const bool inside = memory.owns(memory.device, address) &&
                      memory.owns(memory.device, static_cast<const std::byte*>(address) + (last + 1) * size - 1);
  if (by_value == inside)
    return {CUDNN_STATUS_EXECUTION_FAILED,
            name + (by_value ? " by value lies on the device" : " is not of the device")};
  return {};
}

}  // namespace

extern "C" {

// "no_engine", "unsupported", "first_unsupported", "nondeterministic", "large_workspace", "old"; "": nothing.
void fake_cudnn_misbehave(const char* what) {
  process().misbehaving = what;
}
void fake_cudnn_memory(void (*open)(void*), void (*close)(void*), bool (*owns)(void*, const void*), void* device) {
  process().memory = {open, close, owns, device};
}
// The graph that was finalized last, as text.
const char* fake_cudnn_graph() {
  return process().graph.c_str();
}
// How often so far: "graphs" and "plans" made, "executions"; "descriptors" alive.
long fake_cudnn_count(const char* what) {
  return std::string(what) == "descriptors" ? static_cast<long>(process().descriptors.size()) : process().counts[what];
}

size_t cudnnGetVersion() {
  return process().misbehaving == "old" ? 90100 : CUDNN_VERSION;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (CUDNN_STATUS_CATEGORY(status)) {
    case 0: return "CUDNN_STATUS_SUCCESS";
    case 2000: return "CUDNN_STATUS_BAD_PARAM";
    case 3000: return "CUDNN_STATUS_NOT_SUPPORTED";
    case 5000: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_STATUS_INTERNAL_ERROR";
  }
}
void cudnnGetLastErrorString(char* message, size_t size) {
  if (size == 0) return;
  std::strncpy(message, process().said.c_str(), size - 1);
  message[size - 1] = 0;
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  process().handles.insert(*handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  if (process().handles.erase(handle) == 0) return fail(CUDNN_STATUS_BAD_PARAM, "a handle that is none");
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (!process().handles.contains(handle)) return fail(CUDNN_STATUS_BAD_PARAM, "a handle that is none");
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  if (rules_of(type) == nullptr) return fail(CUDNN_STATUS_NOT_SUPPORTED, "a descriptor of this kind");
  auto made = std::make_shared<Descriptor>();
  made->type = type;
  *descriptor = made.get();
  process().descriptors[made.get()] = made;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return process().descriptors.erase(descriptor) == 1 ? CUDNN_STATUS_SUCCESS
                                                      : fail(CUDNN_STATUS_BAD_PARAM, "a descriptor that is none");
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* elements) {
  const std::shared_ptr<Descriptor> d = found(descriptor);
  if (d == nullptr) return fail(CUDNN_STATUS_BAD_PARAM, "a descriptor that is none");
  const std::string text = "attribute " + std::to_string(name) + " of descriptor " + std::to_string(d->type);
  if (d->finalized) return fail(CUDNN_STATUS_NOT_INITIALIZED, text + " is set after finalizing");
  const Rule* rule = nullptr;
  for (const Rule& r : *rules_of(d->type))
    if (r.name == name) rule = &r;
  if (rule == nullptr) return fail(CUDNN_STATUS_NOT_SUPPORTED, text + " is not one of it");
  if (rule->type != type) return fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, text + " is of another type");
  if (count < 1 || count > rule->most) return fail(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, text + ": elements");
  if (elements == nullptr) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, text);
  Attribute attribute{type, count, {}, {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (int64_t i = 0; i < count; ++i) {
      const auto other = found(static_cast<const cudnnBackendDescriptor_t*>(elements)[i]);
      if (other == nullptr) return fail(CUDNN_STATUS_BAD_PARAM, text + " names no descriptor");
      if (!other->finalized) return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, text + " names one not finalized");
      attribute.descriptors.push_back(other);
    }
  } else {
    attribute.bytes.resize(static_cast<std::size_t>(count) * bytes_of(type));
    std::memcpy(attribute.bytes.data(), elements, attribute.bytes.size());
  }
  d->attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  const std::shared_ptr<Descriptor> d = found(descriptor);
  if (d == nullptr) return fail(CUDNN_STATUS_BAD_PARAM, "a descriptor that is none");
  for (const Rule& rule : *rules_of(d->type))
    if (rule.needed && !d->has(rule.name))
      return fail(CUDNN_STATUS_BAD_PARAM,
                  "descriptor " + std::to_string(d->type) + " lacks attribute " + std::to_string(rule.name));
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (d->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) status = check_tensor(*d);
  if (d->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) status = check_graph(*d);
  if (d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
    status = status_of(check_pattern(d->one(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)));
  if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) status = check_plan(*d);
  d->finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t asked, int64_t* count, void* into) {
  const std::shared_ptr<Descriptor> d = found(descriptor);
  if (d == nullptr) return fail(CUDNN_STATUS_BAD_PARAM, "a descriptor that is none");
  if (!d->finalized) return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "asked of what is not finalized");
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) return give_descriptors(*d, name, asked, count, into);
  if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE &&
      type == CUDNN_TYPE_INT64 && asked == 1) {
    if (count != nullptr) *count = 1;
    *static_cast<int64_t*>(into) = workspace_of_plan(*d);
    return CUDNN_STATUS_SUCCESS;
  }
  if (d->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && name == CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE &&
      type == CUDNN_TYPE_INT64 && asked == 1) {
    if (count != nullptr) *count = 1;
    *static_cast<int64_t*>(into) =
        workspace_of(d->one(CUDNN_ATTR_ENGINECFG_ENGINE).one(CUDNN_ATTR_ENGINE_OPERATION_GRAPH));
    return CUDNN_STATUS_SUCCESS;
  }
  if (d->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX &&
      type == CUDNN_TYPE_INT64) {
    if (count != nullptr) *count = 1;
    *static_cast<int64_t*>(into) = d->value<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    return CUDNN_STATUS_SUCCESS;
  }
  if (d->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR &&
      ((name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && type == CUDNN_TYPE_NUMERICAL_NOTE) ||
       (name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE && type == CUDNN_TYPE_BEHAVIOR_NOTE))) {
    const auto notes =
        name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE ? notes_of(*d) : std::vector<cudnnBackendNumericalNote_t>{};
    if (count != nullptr) *count = static_cast<int64_t>(notes.size());
    for (std::size_t i = 0; into != nullptr && i < notes.size() && static_cast<int64_t>(i) < asked; ++i)
      static_cast<cudnnBackendNumericalNote_t*>(into)[i] = notes[i];
    return CUDNN_STATUS_SUCCESS;
  }
  return fail(CUDNN_STATUS_BAD_PARAM, "attribute " + std::to_string(name) + " cannot be asked for");
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const std::shared_ptr<Descriptor> p = found(plan), v = found(pack);
  if (!process().handles.contains(handle) || p == nullptr || v == nullptr ||
      p->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || v->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
    return fail(CUDNN_STATUS_BAD_PARAM, "handle, plan or variant pack");
  if (!p->finalized || !v->finalized) return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "plan or variant pack");
  const Descriptor& graph = graph_of_plan(*p);
  const auto ids = v->values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = v->values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (ids.size() != pointers.size()) return fail(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "ids and addresses");
  std::map<std::int64_t, void*> memory;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (!memory.emplace(ids[i], pointers[i]).second)
      return fail(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "tensor " + std::to_string(ids[i]) + " twice");
  std::size_t real = 0;
  for (const Descriptor* tensor : tensors_of(graph)) {
    if (tensor->value<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL)) continue;
    const auto at = memory.find(tensor->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
    if (at == memory.end()) return fail(CUDNN_STATUS_BAD_PARAM, "a tensor without an address");
    if (const Failure failure = check_address(*tensor, at->second); failure.failed()) return status_of(failure);
    ++real;
  }
  if (real != memory.size()) return fail(CUDNN_STATUS_BAD_PARAM, "an address of no tensor");
  const std::int64_t bytes = workspace_of_plan(*p);
  auto* workspace = static_cast<std::byte*>(v->value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE));
  const Memory& device = process().memory;
  if (bytes > 0 && workspace == nullptr) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "workspace");
  if (bytes > 0 && device.owns != nullptr &&
      !(device.owns(device.device, workspace) && device.owns(device.device, workspace + bytes - 1)))
    return fail(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "workspace");
  if (device.open != nullptr) device.open(device.device);
  if (bytes > 0) std::memset(workspace, 0xFF, static_cast<std::size_t>(bytes));
  const Failure failure = compute(graph, memory);
  if (device.close != nullptr) device.close(device.device);
  ++process().counts["executions"];
  return status_of(failure);
}

}  // extern "C"
