#include "engine/curate/html/html_repetition.h"

#include <algorithm>
#include <unordered_map>

#include "base/digest/hash.h"

namespace longhaul {
namespace {

constexpr int sentence_columns_min = 40;

bool is_prose(const HtmlBlock& block) {
  return block.columns >= sentence_columns_min && block.link_density() <= 0.5;
}

}  // namespace

std::uint64_t block_key(const HtmlBlock& block) {
  if (is_heading(block.tag) || block.tag == HtmlTag::pre || block.tag == HtmlTag::tr) return 0;
  if (block.columns < sentence_columns_min && block.link_density() <= 0.5) return 0;
  return std::max<std::uint64_t>(1, xxh3_64(block.text));
}

RepeatedBlocks repeated_blocks(const std::vector<std::vector<HtmlBlock>>& pages) {
  std::unordered_map<std::uint64_t, std::size_t> counts;
  std::unordered_set<std::uint64_t> different;
  for (const std::vector<HtmlBlock>& page : pages) {
    RepeatedBlocks keys;
    std::uint64_t whole = 0;
    for (const HtmlBlock& block : page) {
      whole = whole * 0x9E3779B97F4A7C15ULL + xxh3_64(block.text);
      if (const std::uint64_t key = block_key(block)) keys.insert(key);
    }
    if (!different.insert(whole).second) continue;
    for (const std::uint64_t key : keys) ++counts[key];
  }
  RepeatedBlocks repeated;
  if (different.size() < site_pages_min) return repeated;
  for (const auto& [key, count] : counts) {
    if (count >= 3 && 2 * count >= different.size()) repeated.insert(key);
  }
  return repeated;
}

std::vector<char> mark_repeated(const std::vector<HtmlBlock>& blocks, const RepeatedBlocks& repeated) {
  std::vector<char> marks(blocks.size(), 0);
  if (repeated.empty()) return marks;
  double all = 0, of_site = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const std::uint64_t key = block_key(blocks[b]);
    marks[b] = key != 0 && repeated.contains(key);
    if (!is_prose(blocks[b])) continue;
    all += blocks[b].columns;
    if (marks[b]) of_site += blocks[b].columns;
  }
  if (of_site > 0.5 * all) std::fill(marks.begin(), marks.end(), 0);
  return marks;
}

}  // namespace longhaul
