// The lines of a corpus's files, and what its languages hold. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/curate/curate_task.h"
#include "engine/curate/examine.h"
#include "engine/curate/read/records.h"

namespace longhaul {

std::string document_lines(const std::vector<CurateDocument>& documents);  // documents.jsonl, heldout.jsonl
std::string rejected_lines(const std::vector<RejectedRecord>& rejected);   // rejected.jsonl
std::string rejected_text(const RejectedRecord& rejected);                 // "file:line: reason: detail (start)"
std::int64_t text_bytes(const std::vector<CurateDocument>& documents);
// Most bytes first.
std::vector<LanguageShare> language_shares(const std::vector<CurateDocument>& training,
                                           const std::vector<CurateDocument>& heldout);

}  // namespace longhaul
