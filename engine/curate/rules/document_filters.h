// The registry of what is asked of a whole document: each filter is a row of the table and a file of its own beside
// this one (NAME_filter.cc), which has its source. A filter keeps the settings of one subject, and names the setting
// that a document breaks. docs/extending.md says how to add one.
#pragma once

#include <optional>
#include <vector>

#include "engine/curate/rules/measured_document.h"

namespace longhaul {

struct DocumentFilter {
  const char* name;
  // The first of its rules that the document breaks, or nothing. Rules that cannot be asked of this text are noted by
  // MeasuredDocument::leave_out. Called by many threads at once.
  std::optional<RuleVerdict> (*judge)(const MeasuredDocument& m, const DocumentRuleSettings& s);
};

// In the order in which they are asked, cheapest first: a document is removed for the first that it breaks, so the
// order is part of what waterfalls say.
const std::vector<DocumentFilter>& document_filters();

std::optional<RuleVerdict> word_filter(const MeasuredDocument& m, const DocumentRuleSettings& s);
std::optional<RuleVerdict> stop_word_filter(const MeasuredDocument& m, const DocumentRuleSettings& s);
std::optional<RuleVerdict> placeholder_filter(const MeasuredDocument& m, const DocumentRuleSettings& s);
std::optional<RuleVerdict> line_shape_filter(const MeasuredDocument& m, const DocumentRuleSettings& s);
std::optional<RuleVerdict> line_length_filter(const MeasuredDocument& m, const DocumentRuleSettings& s);
std::optional<RuleVerdict> repetition_filter(const MeasuredDocument& m, const DocumentRuleSettings& s);
std::optional<RuleVerdict> ngram_filter(const MeasuredDocument& m, const DocumentRuleSettings& s);

}  // namespace longhaul
