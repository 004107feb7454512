// What can be decided about a document without knowing the others: reading, extraction, cleaning, language, rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contracts/settings/curate.h"
#include "engine/curate/document_rules.h"
#include "engine/curate/inputs.h"
#include "engine/curate/page_identity.h"

namespace longhaul {

struct CurateDocument {
  std::string id;             // 16 hex digits, from its source
  std::string source;         // path below the input's folder; "#line" behind it for JSON lines
  std::string page;           // the same for all languages of a page
  std::string path_language;  // what the path says, or ""
  std::string language;       // what the text says
  std::string title;
  std::string text;
};

struct ExaminedDocument {
  CurateDocument document;
  std::int64_t raw_bytes = 0, extracted_bytes = 0, clean_bytes = 0;
  std::vector<RemovedLines> removed_lines;
  // Set when the document goes: the step, why, and the figures.
  std::string removed_in, reason, detail;
  // Of work, per step.
  double extract_s = 0, clean_s = 0, language_s = 0, line_rules_s = 0, document_rules_s = 0;
};

// The reason in `removed_in` = "extract" of a file that the disk does not give, or that is damaged.
inline constexpr const char* unreadable_file = "unreadable";

// All documents of a file: one, or one per line of JSON lines. Errors: broken JSON, no "text", and a file that cannot
// be read if the user named it; one that merely lies in a folder is one removed document.
Result<std::vector<ExaminedDocument>> examine_file(const InputFile& file, const CurateSettings& settings,
                                                   const PageNamer& namer);

}  // namespace longhaul
