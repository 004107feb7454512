#include "engine/parallel/mesh/rank_share.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

// Texts of any bytes in one: each behind its length, eight bytes.
std::string packed(const std::vector<std::string>& texts) {
  std::string made;
  for (const std::string& text : texts) {
    const std::uint64_t size = text.size();
    made.append(reinterpret_cast<const char*>(&size), sizeof size);
    made += text;
  }
  return made;
}

std::vector<std::string> unpacked(const std::string& bytes) {
  std::vector<std::string> made;
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes.size();) {
    std::uint64_t size = 0;
    std::memcpy(&size, bytes.data() + at, sizeof size);
    at += sizeof size;
    made.push_back(bytes.substr(at, size));
    at += size;
  }
  return made;
}

}  // namespace

std::vector<std::size_t> RankShare::mine() const {
  std::vector<std::size_t> made;
  for (auto i = static_cast<std::size_t>(group_.rank()); i < count_; i += static_cast<std::size_t>(group_.size()))
    made.push_back(i);
  return made;
}

Result<std::vector<std::string>> RankShare::gather(const Result<std::vector<std::string>>& made) const {
  if (group_.size() == 1) return made;
  LH_CHECK(group_.agree(made.ok() ? Status() : Status(made.error())));
  LH_ASSERT(made->size() == mine().size(), format("{} results of {} items", made->size(), mine().size()));
  LH_TRY(const std::vector<std::string> ranks, group_.all_gather_text(packed(*made)));
  std::vector<std::vector<std::string>> by_rank;
  for (const std::string& bytes : ranks) by_rank.push_back(unpacked(bytes));
  std::vector<std::string> all;
  for (std::size_t i = 0; i < count_; ++i) all.push_back(by_rank[i % ranks.size()].at(i / ranks.size()));
  return all;
}

}  // namespace longhaul
