#include "engine/parallel/mesh/collective_group.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/text/text.h"
#include "engine/comm/communicator.h"

namespace longhaul {

CollectiveGroup::CollectiveGroup(Communicator& communicator, std::int64_t deadline_ms)
    : communicator_(&communicator), rank_(communicator.rank()), size_(communicator.size()), deadline_ms_(deadline_ms) {}

Status CollectiveGroup::barrier() {
  if (!communicator_) return {};
  return communicator_->wait(communicator_->barrier(), deadline_ms_);
}

namespace {

template <class T>
Status gather_values(Communicator* communicator, int size, std::int64_t deadline_ms, std::span<const T> mine,
                     std::span<T> all) {
  LH_ASSERT(all.size() == mine.size() * static_cast<std::size_t>(size), std::to_string(all.size()));
  if (communicator)
    return communicator->wait(communicator->all_gather(std::as_bytes(mine), std::as_writable_bytes(all)), deadline_ms);
  std::copy(mine.begin(), mine.end(), all.begin());
  return {};
}

}  // namespace

Status CollectiveGroup::all_gather(std::span<const double> mine, std::span<double> all) {
  return gather_values(communicator_, size_, deadline_ms_, mine, all);
}

Status CollectiveGroup::all_gather(std::span<const float> mine, std::span<float> all) {
  return gather_values(communicator_, size_, deadline_ms_, mine, all);
}

Result<std::vector<std::string>> CollectiveGroup::all_gather_text(const std::string& mine) {
  if (!communicator_) return std::vector<std::string>{mine};
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<double> sizes(ranks);
  const double own = static_cast<double>(mine.size());
  LH_CHECK(all_gather({&own, 1}, sizes));
  const auto longest = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
  if (longest == 0) return std::vector<std::string>(ranks);
  std::vector<std::byte> padded(longest), all(longest * ranks);
  std::memcpy(padded.data(), mine.data(), mine.size());
  LH_CHECK(communicator_->wait(communicator_->all_gather(padded, all), deadline_ms_));
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < ranks; ++r)
    texts.emplace_back(reinterpret_cast<const char*>(all.data() + r * longest), static_cast<std::size_t>(sizes[r]));
  return texts;
}

Status CollectiveGroup::broadcast(std::span<float> data, int root) {
  return broadcast(std::as_writable_bytes(data), root);
}

Status CollectiveGroup::broadcast(std::span<std::byte> data, int root) {
  if (!communicator_) return {};
  return communicator_->wait(communicator_->broadcast(data, root), deadline_ms_);
}

namespace {

constexpr std::size_t message_elements_max = std::size_t{1} << 26;  // a library counts a message's bytes in an int

// Piece i of an array that travels in several messages; empty behind the last.
template <class T>
std::span<T> message_of(std::span<T> data, std::size_t i) {
  const std::size_t begin = std::min(data.size(), i * message_elements_max);
  return data.subspan(begin, std::min(data.size() - begin, message_elements_max));
}

}  // namespace

Status CollectiveGroup::send(std::span<const float> data, int to) {
  LH_ASSERT(communicator_ && to != rank_, std::to_string(to));
  for (std::size_t i = 0; !message_of(data, i).empty(); ++i)
    LH_CHECK(communicator_->wait(communicator_->send(std::as_bytes(message_of(data, i)), to), deadline_ms_));
  return {};
}

Status CollectiveGroup::recv(std::span<float> data, int from) {
  LH_ASSERT(communicator_ && from != rank_, std::to_string(from));
  for (std::size_t i = 0; !message_of(data, i).empty(); ++i)
    LH_CHECK(communicator_->wait(communicator_->recv(std::as_writable_bytes(message_of(data, i)), from), deadline_ms_));
  return {};
}

Status CollectiveGroup::exchange(std::span<const float> give, int to, std::span<float> take, int from) {
  if (to == rank_ && from == rank_) {
    LH_ASSERT(give.size() == take.size(), std::to_string(take.size()));
    std::copy(give.begin(), give.end(), take.begin());
    return {};
  }
  LH_ASSERT(communicator_ && to != rank_ && from != rank_, std::to_string(to));
  for (std::size_t i = 0; !message_of(give, i).empty() || !message_of(take, i).empty(); ++i) {
    const auto out = message_of(give, i);
    const auto in = message_of(take, i);
    Request coming;
    if (!in.empty()) coming = communicator_->recv(std::as_writable_bytes(in), from);
    if (!out.empty()) LH_CHECK(communicator_->wait(communicator_->send(std::as_bytes(out), to), deadline_ms_));
    if (!in.empty()) LH_CHECK(communicator_->wait(std::move(coming), deadline_ms_));
  }
  return {};
}

Status CollectiveGroup::sum_along_tree(std::span<float> x) {
  if (!communicator_) return {};
  return communicator_->wait(communicator_->all_reduce_sum(x), deadline_ms_);
}

Status CollectiveGroup::agree(const Status& mine) {
  if (!communicator_) return mine;
  // "<code> <message>", empty when all is well: then only the sizes travel.
  std::string text;
  if (!mine.ok()) text = format("{} {}", static_cast<int>(mine.error().code), mine.error().message());
  LH_TRY(const std::vector<std::string> all, all_gather_text(text));
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    if (static_cast<int>(r) == rank_) return mine;
    int code = 0;
    std::from_chars(all[r].data(), all[r].data() + all[r].size(), code);
    return make_error(static_cast<ErrorCode>(code), format("rank {}: {}", r, all[r].substr(all[r].find(' ') + 1)));
  }
  return {};
}

}  // namespace longhaul
