#include "engine/infer/generate/ngram_draft.h"

#include <algorithm>

namespace longhaul {

namespace {

constexpr std::size_t ngram_longest = 4, ngram_shortest = 2;  // of the tokens that are looked for

// Where the text goes on behind the latest earlier place of its last `length` tokens; its size: there is none.
std::size_t behind_earlier(std::span<const std::int32_t> text, std::size_t length) {
  if (text.size() <= length) return text.size();
  const std::span<const std::int32_t> wanted = text.last(length);
  const std::span<const std::int32_t> before = text.first(text.size() - 1);
  const auto at = std::find_end(before.begin(), before.end(), wanted.begin(), wanted.end());
  return at == before.end() ? text.size() : static_cast<std::size_t>(at - before.begin()) + length;
}

}  // namespace

std::vector<std::int32_t> ngram_draft(std::span<const std::int32_t> text, std::int64_t count) {
  std::vector<std::int32_t> draft;
  if (count <= 0) return draft;
  std::size_t from = text.size();
  for (std::size_t length = ngram_longest; from == text.size() && length >= ngram_shortest; --length)
    from = behind_earlier(text, length);
  if (from == text.size()) return draft;
  for (; std::ssize(draft) < count; ++from)
    draft.push_back(from < text.size() ? text[from] : draft[from - text.size()]);
  return draft;
}

}  // namespace longhaul
