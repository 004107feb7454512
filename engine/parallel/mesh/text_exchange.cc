#include "engine/parallel/mesh/text_exchange.h"

#include <cstdint>
#include <cstring>
#include <numeric>

#include "engine/comm/communicator.h"

namespace longhaul {

Result<std::vector<std::string>> gather_text_to_first(CollectiveGroup& group, const std::string& mine) {
  Communicator* const communicator = group.communicator();
  if (!communicator) return std::vector<std::string>{mine};
  const auto ranks = static_cast<std::size_t>(group.size());
  const double own = static_cast<double>(mine.size());
  std::vector<double> sizes(ranks);
  LH_CHECK(group.all_gather({&own, 1}, sizes));
  std::vector<std::size_t> gives(ranks, 0), takes(ranks, 0);
  gives[0] = mine.size();
  if (group.is_first())
    for (std::size_t r = 0; r < ranks; ++r) takes[r] = static_cast<std::size_t>(sizes[r]);
  std::vector<std::byte> all(std::accumulate(takes.begin(), takes.end(), std::size_t{0}));
  LH_CHECK(communicator->wait(communicator->all_to_all_v(std::as_bytes(std::span(mine)), gives, all, takes),
                              group.deadline_ms()));
  std::vector<std::string> texts;
  const char* next = reinterpret_cast<const char*>(all.data());
  for (std::size_t r = 0; r < ranks && group.is_first(); ++r) {
    texts.emplace_back(next, takes[r]);
    next += takes[r];
  }
  return texts;
}

Result<std::string> broadcast_text(CollectiveGroup& group, const std::string& text, int root) {
  Communicator* const communicator = group.communicator();
  if (!communicator) return text;
  std::uint64_t bytes = text.size();
  LH_CHECK(communicator->wait(communicator->broadcast(std::as_writable_bytes(std::span(&bytes, 1)), root),
                              group.deadline_ms()));
  std::string all = group.rank() == root ? text : std::string(static_cast<std::size_t>(bytes), ' ');
  if (all.empty()) return all;
  LH_CHECK(
      communicator->wait(communicator->broadcast(std::as_writable_bytes(std::span(all)), root), group.deadline_ms()));
  return all;
}

Result<std::string> exchange_text(CollectiveGroup& group, const std::string& mine, int to, int from) {
  Communicator* const communicator = group.communicator();
  if (!communicator) return mine;
  const auto ranks = static_cast<std::size_t>(group.size());
  const double own = static_cast<double>(mine.size());
  std::vector<double> sizes(ranks);
  LH_CHECK(group.all_gather({&own, 1}, sizes));
  std::vector<std::size_t> gives(ranks, 0), takes(ranks, 0);
  gives[static_cast<std::size_t>(to)] = mine.size();
  takes[static_cast<std::size_t>(from)] = static_cast<std::size_t>(sizes[static_cast<std::size_t>(from)]);
  std::string taken(takes[static_cast<std::size_t>(from)], ' ');
  LH_CHECK(communicator->wait(communicator->all_to_all_v(std::as_bytes(std::span(mine)), gives,
                                                         std::as_writable_bytes(std::span(taken)), takes),
                              group.deadline_ms()));
  return taken;
}

}  // namespace longhaul
