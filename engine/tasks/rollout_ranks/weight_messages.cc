#include "engine/tasks/rollout_ranks/weight_messages.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/parallel/mesh/box_copy.h"
#include "engine/parallel/mesh/part_copy.h"
#include "engine/parallel/pipeline/gather_masters.h"
#include "engine/tasks/drawing/drawing_weights.h"

namespace longhaul {

namespace {

std::span<std::byte> bytes_of_view(View view) {
  return {static_cast<std::byte*>(view.data()), static_cast<std::size_t>(view.bytes())};
}

// Parameters that go in one message, and their elements.
struct WeightMessage {
  std::vector<ParameterSpec> parameters;
  std::int64_t elements = 0;
};

// The same on both sides: sizes decide.
std::vector<WeightMessage> messages_of(const ModelShape& shape, std::int64_t together) {
  std::vector<WeightMessage> messages;
  for (const ParameterSpec& p : parameter_list(shape)) {
    if (messages.empty() || messages.back().elements + p.elements() > together) messages.emplace_back();
    messages.back().parameters.push_back(p), messages.back().elements += p.elements();
  }
  return messages;
}

std::int64_t largest_of(const std::vector<WeightMessage>& messages) {
  std::int64_t largest = 0;
  for (const WeightMessage& message : messages) largest = std::max(largest, message.elements);
  return largest;
}

// Puts parameters on processors together to messages, and sends each when it is complete.
class MessageWriter {
 public:
  MessageWriter(const ModelShape& shape, CollectiveGroup& receivers, std::int64_t together)
      : receivers_(receivers), messages_(messages_of(shape, together)) {
    values_.reserve(static_cast<std::size_t>(largest_of(messages_)));
  }
  Status add(std::span<const float> values) {
    values_.insert(values_.end(), values.begin(), values.end());
    if (std::ssize(values_) < messages_[sent_].elements) return {};
    ++sent_;
    LH_CHECK(receivers_.broadcast(std::span<float>(values_), 0));
    values_.clear();
    return {};
  }

 private:
  CollectiveGroup& receivers_;
  std::vector<WeightMessage> messages_;
  std::size_t sent_ = 0;
  std::vector<float> values_;  // of the next
};

Status send_from_host(const ComputeContext& context, Mesh& mesh, const ParameterStore& store,
                      CollectiveGroup* receivers, std::int64_t together) {
  std::optional<MessageWriter> messages;
  if (receivers) messages.emplace(store.shape(), *receivers, together);
  const auto take = [&](const ParameterSpec&, std::span<const float> values) {
    return messages ? messages->add(values) : Status();
  };
  if (draws_with_masters(mesh.dims(), store))
    return gather_each_parameter(mesh, store.shape(), store.layout(), {store.masters(), store.device()}, take);
  return gather_each_parameter(mesh, store.shape(), store.layout(), held_as_computed(context, store), take);
}

Status send_from_device(const ComputeContext& context, Mesh& mesh, const ParameterStore& store,
                        CollectiveGroup* receivers, MemoryAccount* memory) {
  const auto held = [&](const FlatParameter& p) { return store.vector(p.begin, p.end - p.begin); };
  const auto take = [&](const ParameterSpec&, View values) {
    return receivers ? receivers->broadcast(bytes_of_view(values), 0) : Status();
  };
  return gather_each_parameter(context, mesh, store.shape(), store.layout(), held, store.compute_dtype(), memory, take);
}

}  // namespace

Status send_weights(const ComputeContext& context, Mesh& mesh, const ParameterStore& store, CollectiveGroup* receivers,
                    MemoryAccount* memory, std::int64_t together) {
  const Status sent = store.device() ? send_from_device(context, mesh, store, receivers, memory)
                                     : send_from_host(context, mesh, store, receivers, together);
  return sent.ok() ? store.status() : sent;
}

// A message that is wanted whole comes to where it belongs, any other through a copy.
Status take_weights(const ComputeContext& context, ParameterStore& store, CollectiveGroup& ranks, MemoryAccount* memory,
                    std::int64_t together) {
  const View weights = store.device() ? store.frozen_weights() : View(store.masters());
  const ParameterNames names(store.layout());
  Tensor copy;
  for (const WeightMessage& message : messages_of(store.shape(), store.device() ? 0 : together)) {
    const FlatParameter* const first = names.find_if_held(message.parameters.front().name);
    if (message.parameters.size() == 1 && first != nullptr && first->is_whole()) {
      LH_CHECK(ranks.broadcast(bytes_of_view(weights.rows(first->begin, first->end)), 0));
      continue;
    }
    if (copy.size() < message.elements) copy = Tensor(), copy = Tensor(weights.dtype(), {message.elements}, memory);
    const View values = copy.view().rows(0, message.elements);
    LH_CHECK(ranks.broadcast(bytes_of_view(values), 0));
    std::int64_t at = 0;
    for (const ParameterSpec& spec : message.parameters) {
      const std::int64_t begin = std::exchange(at, at + spec.elements());
      if (const FlatParameter* const p = names.find_if_held(spec.name))
        copy_part(context, values.rows(begin, at), whole_box(spec.shape), p->box, weights.rows(p->begin, p->end));
    }
  }
  return {};
}

}  // namespace longhaul
