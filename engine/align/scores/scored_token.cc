#include "engine/align/scores/scored_token.h"

#include "base/text/text.h"

namespace longhaul {

std::size_t scored_token(const JudgedBatch& batch, std::size_t sequence) {
  const auto length = static_cast<std::size_t>(batch.length);
  for (std::size_t t = (sequence + 1) * length; t-- > sequence * length;)
    if (batch.targets[t] >= 0) return t;
  LH_ASSERT(false, format("sequence {} of a batch has no token that is scored", sequence));
  return 0;
}

}  // namespace longhaul
