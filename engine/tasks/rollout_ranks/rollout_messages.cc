#include "engine/tasks/rollout_ranks/rollout_messages.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/text/text.h"
#include "engine/core/tensor/transfer.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/tasks/rollouts/shared_rollouts.h"

namespace longhaul {

namespace {

static_assert(std::is_trivially_copyable_v<RolloutTask> && std::is_trivially_copyable_v<RolloutTimes>);

template <class T>
std::string bytes_of_value(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T next_of(std::string_view& bytes) {
  LH_ASSERT(bytes.size() >= sizeof(T), std::to_string(bytes.size()));
  T value;
  bytes.copy(reinterpret_cast<char*>(&value), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

// -1, or an error's code with its text behind it.
std::string pack_status(const Status& status) {
  if (status.ok()) return bytes_of_value(-1);
  return bytes_of_value(static_cast<int>(status.error().code)) + status.error().message();
}

}  // namespace

std::string pack_tasks(std::span<const RolloutTask> tasks) {
  return std::string(reinterpret_cast<const char*>(tasks.data()), tasks.size_bytes());
}

std::vector<RolloutTask> unpack_tasks(std::string_view bytes) {
  std::vector<RolloutTask> tasks;
  while (!bytes.empty()) tasks.push_back(next_of<RolloutTask>(bytes));
  return tasks;
}

std::string pack_order(const RolloutOrder& order) {
  std::string packed = bytes_of_value(order.tasks.size());
  if (order.tasks.empty()) return packed + pack_status(order.training);
  for (const std::size_t batch : order.batches) packed += bytes_of_value(batch);
  return packed + pack_tasks(order.tasks);
}

RolloutOrder unpack_order(std::string_view bytes) {
  RolloutOrder order;
  const auto count = next_of<std::size_t>(bytes);
  if (count > 0) {
    for (std::size_t i = 0; i < count; ++i) order.batches.push_back(next_of<std::size_t>(bytes));
    order.tasks = unpack_tasks(bytes);
    return order;
  }
  if (const int code = next_of<int>(bytes); code >= 0)
    order.training = make_error(static_cast<ErrorCode>(code), std::string(bytes));
  return order;
}

std::string pack_reply(const Result<RolloutReply>& reply) {
  if (!reply.ok()) return pack_status(reply.error());
  return pack_status(Status()) + bytes_of_value(reply->times) + pack_rollouts(reply->rollouts);
}

Result<RolloutReply> unpack_reply(std::string_view bytes) {
  if (const int code = next_of<int>(bytes); code >= 0)
    return make_error(static_cast<ErrorCode>(code), std::string(bytes));
  RolloutReply reply;
  reply.times = next_of<RolloutTimes>(bytes);
  reply.rollouts = unpack_rollouts(bytes);
  return reply;
}

namespace {

std::span<std::byte> bytes_of_view(View view) {
  return {static_cast<std::byte*>(view.data()), static_cast<std::size_t>(view.bytes())};
}

// Parameters that go in one message, and their elements.
struct WeightMessage {
  std::span<const FlatParameter> parameters;
  std::int64_t elements = 0;
};

// The same on both sides, wherever the parameters lie: their sizes decide.
std::vector<WeightMessage> messages_of(const ParameterStore& store, std::int64_t together) {
  const std::int64_t most = store.device() ? 0 : together;
  const std::span<const FlatParameter> all = store.layout().parameters();
  std::vector<WeightMessage> messages;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int64_t elements = all[i].end - all[i].begin;
    if (messages.empty() || messages.back().elements + elements > most) messages.push_back({all.subspan(i, 0), 0});
    WeightMessage& last = messages.back();
    last = {{last.parameters.data(), last.parameters.size() + 1}, last.elements + elements};
  }
  return messages;
}

std::int64_t largest_of(const std::vector<WeightMessage>& messages) {
  std::int64_t largest = 0;
  for (const WeightMessage& message : messages) largest = std::max(largest, message.elements);
  return largest;
}

}  // namespace

Status send_weights(const ComputeContext& context, const ParameterStore& store, CollectiveGroup& ranks,
                    MemoryAccount* memory, std::int64_t together) {
  const std::vector<WeightMessage> messages = messages_of(store, together);
  Tensor copy(store.device() ? store.compute_dtype() : DType::f32, {largest_of(messages)}, memory);
  for (const WeightMessage& message : messages) {
    std::int64_t at = 0;
    for (const FlatParameter& p : message.parameters) {
      const std::int64_t begin = std::exchange(at, at + p.end - p.begin);
      const ConstView weights = store.vector(p.begin, p.end - p.begin);
      if (store.device())
        copy_within(context, weights, copy.view().rows(begin, at));
      else
        cast(context, weights, copy.view().rows(begin, at));
    }
    LH_CHECK(ranks.broadcast(bytes_of_view(copy.view().rows(0, message.elements)), 0));
  }
  return {};
}

Status take_weights(const ComputeContext& context, ParameterStore& store, CollectiveGroup& ranks,
                    std::int64_t together) {
  const View weights = store.device() ? store.frozen_weights() : View(store.masters());
  for (const WeightMessage& message : messages_of(store, together)) {
    if (message.parameters.size() == 1) {
      const FlatParameter& p = message.parameters.front();
      LH_CHECK(ranks.broadcast(bytes_of_view(weights.rows(p.begin, p.end)), 0));
      continue;
    }
    Tensor copy(weights.dtype(), {message.elements});
    LH_CHECK(ranks.broadcast(bytes_of_view(copy.view()), 0));
    std::int64_t at = 0;
    for (const FlatParameter& p : message.parameters) {
      const std::int64_t begin = std::exchange(at, at + p.end - p.begin);
      cast(context, copy.view().rows(begin, at), weights.rows(p.begin, p.end));
    }
  }
  return {};
}

}  // namespace longhaul
