// How attention of tokens that are distributed over the ranks of a cp group is done
// (engine/parallel/context/context_attention.h says each with its source): keys and values go round a ring beside the
// computation, are gathered before it, or everything is exchanged for some heads of whole sequences. That two of them
// are combined within and between nodes
// ("a2a+ring") the engine refuses (contracts/settings/training/feature_table.h), so it has no forecast.
#pragma once

#include <string>

namespace longhaul {

enum class ContextKind : unsigned char { ring, gather, a2a };

// Of cp_attention. Another name than these three is the table's to refuse, and counts as the ring.
inline ContextKind context_kind_of(const std::string& name) {
  if (name == "gather") return ContextKind::gather;
  return name == "a2a" ? ContextKind::a2a : ContextKind::ring;
}

}  // namespace longhaul
