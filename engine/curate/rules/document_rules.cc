#include "engine/curate/rules/document_rules.h"

#include "engine/curate/rules/document_filters.h"

namespace longhaul {

std::optional<RuleVerdict> broken_document_rule(std::string_view text, std::string_view language,
                                                const DocumentRuleSettings& settings,
                                                std::vector<std::string>* left_out) {
  const MeasuredDocument measured = measure_document(text, language, left_out);
  for (const DocumentFilter& filter : document_filters())
    if (auto verdict = filter.judge(measured, settings)) return verdict;
  return std::nullopt;
}

}  // namespace longhaul
