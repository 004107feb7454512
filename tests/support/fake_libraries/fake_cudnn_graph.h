// What the simulated cuDNN (fake_cudnn.cc) holds: descriptors with their attributes, and how a graph of operations is
// written down and computed.
#pragma once

#include <cudnn_graph.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace longhaul::fake_cudnn {

struct Descriptor;
struct Attribute {
  cudnnBackendAttributeType_t type{};
  std::int64_t count = 0;
  std::vector<std::byte> bytes;
  std::vector<std::shared_ptr<Descriptor>> descriptors;  // in place of bytes
};

struct Descriptor {
  cudnnBackendDescriptorType_t type{};
  bool finalized = false;
  std::map<int, Attribute> attributes;

  bool has(int name) const { return attributes.contains(name); }
  template <class T>
  std::vector<T> values(int name) const {
    std::vector<T> out;
    const auto found = attributes.find(name);
    if (found == attributes.end()) return out;
    out.resize(static_cast<std::size_t>(found->second.count));
    std::memcpy(out.data(), found->second.bytes.data(), found->second.bytes.size());
    return out;
  }
  template <class T>
  T value(int name, T missing = {}) const {
    if (const auto found = attributes.find(name); found != attributes.end())
      std::memcpy(&missing, found->second.bytes.data(), sizeof missing);
    return missing;
  }
  const std::vector<std::shared_ptr<Descriptor>>& of(int name) const { return attributes.at(name).descriptors; }
  const Descriptor& one(int name) const { return *of(name).front(); }
};

struct Failure {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  std::string what;
  bool failed() const { return status != CUDNN_STATUS_SUCCESS; }
};

// Tensors of a graph, each once, in the order in which operations name them.
std::vector<const Descriptor*> tensors_of(const Descriptor& graph);
// A graph of operations as text, the same for graphs that cuDNN cannot distinguish: tensors are numbered in the order
// in which operations name them, attributes are sorted.
std::string text_of(const Descriptor& graph);
// Whether a graph is one of those that the real library has an engine for here: attention forward, attention backward.
// `kinds`: its operations in order, a word each.
std::string kinds_of(const Descriptor& graph);
Failure check_pattern(const Descriptor& graph);
// Whether dq is summed by whoever comes first: it goes through a tensor in f32 that all blocks of keys add to.
bool sums_as_they_come(const Descriptor& graph);
std::int64_t workspace_of(const Descriptor& graph);

// Computes it in f64, rounding what operations give to the type of the tensor that takes it. `memory`: where each
// tensor that is not virtual lies, by its unique id.
Failure compute(const Descriptor& graph, const std::map<std::int64_t, void*>& memory);

}  // namespace longhaul::fake_cudnn
