// Room engine/curate/rules
// Which documents and lines are worth learning from, by published rules.
// document_rules.h judges one text; document_filters.h is the table of filters, a file each; line_rules.cc is for
// lines. measured_document.h gathers what filters ask. It reads no files and knows no other document: duplicates are
// engine/curate/dedup's.
//
// Rules that find text worth learning from: Gopher (Rae et al. 2021, arXiv 2112.11446, section A.1), C4 (Raffel et al.
// 2020, arXiv 1910.10683, section 2.2) and FineWeb (Penedo et al. 2024, arXiv 2406.17557, section 3.6).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contracts/settings/stages/curate.h"

namespace longhaul {

struct RuleVerdict {
  std::string rule;  // the reason in waterfalls: "words_min", "top_2_gram", ...: the setting's name where there is one
  std::string detail;  // "12 words; at least 20 wanted"
};

// The first rule that the document breaks, cheapest rules first. `language` chooses the stop words. Rules that the
// text's language or script has no list, mark or limit for are not asked, and added to `left_out`.
std::optional<RuleVerdict> broken_document_rule(std::string_view text, std::string_view language,
                                                const DocumentRuleSettings& settings,
                                                std::vector<std::string>* left_out = nullptr);

struct RemovedLines {
  std::string rule;
  std::int64_t lines = 0, bytes = 0;
};
// `text` without the lines that break a rule; what went is added to `removed`, one entry per rule. Empty paragraphs go.
std::string apply_line_rules(std::string_view text, const LineRuleSettings& settings,
                             std::vector<RemovedLines>& removed);

}  // namespace longhaul
