#include "engine/curate/rules/document_filters.h"

namespace longhaul {

// Text that stands for text.
std::optional<RuleVerdict> placeholder_filter(const MeasuredDocument& m, const DocumentRuleSettings& s) {
  if (!s.lorem_ipsum || ascii_lowered(m.text).find("lorem ipsum") == std::string::npos) return std::nullopt;
  return RuleVerdict{"lorem_ipsum", "holds \"lorem ipsum\""};
}

}  // namespace longhaul
