#include "engine/tasks/rollout_ranks/rollout_messages.h"

#include <type_traits>
#include <utility>

#include "base/text/text.h"
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
  for (const int rank : order.ranks) packed += bytes_of_value(rank);
  return packed + pack_tasks(order.tasks);
}

RolloutOrder unpack_order(std::string_view bytes) {
  RolloutOrder order;
  const auto count = next_of<std::size_t>(bytes);
  if (count > 0) {
    for (std::size_t i = 0; i < count; ++i) order.batches.push_back(next_of<std::size_t>(bytes));
    for (std::size_t i = 0; i < count; ++i) order.ranks.push_back(next_of<int>(bytes));
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

}  // namespace longhaul
