#include "engine/infer/generate/adaptive_draft.h"

#include <algorithm>

#include "engine/infer/generate/ngram_draft.h"

namespace longhaul {

std::vector<std::int32_t> AdaptiveDraft::next(std::int64_t count) const {
  return ngram_draft(text_, std::min(length_, count));
}

void AdaptiveDraft::judge(std::int64_t drafted, std::int64_t right) {
  if (drafted > 0) length_ = std::min(longest_, right < drafted ? right + 1 : 2 * drafted);
}

}  // namespace longhaul
