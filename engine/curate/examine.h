// What can be decided about a document without knowing the others: reading, extraction, cleaning, language, rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contracts/settings/stages/curate.h"
#include "engine/curate/filter/page_identity.h"
#include "engine/curate/html/html_repetition.h"
#include "engine/curate/read/inputs.h"
#include "engine/curate/read/records.h"
#include "engine/curate/rules/document_rules.h"

namespace longhaul {

struct CurateDocument {
  std::string id;             // 16 hex digits, from its source
  std::string source;         // path below the input's folder; "#line" behind it for JSON lines
  std::string page;           // the same for all languages of a page
  std::string path_language;  // what the path says, or ""
  std::string language;       // what the text says
  std::string title;
  std::string author, date, url;  // as the page or the record states them; "" where it does not
  std::string text;
};

struct ExaminedDocument {
  CurateDocument document;
  std::int64_t raw_bytes = 0, extracted_bytes = 0, clean_bytes = 0;
  std::int64_t repeated_bytes = 0;  // left out of the page, since the pages of its site have it in common
  std::vector<RemovedLines> removed_lines;
  // Set when the document goes: the step, why, and the figures.
  std::string removed_in, reason, detail;
  std::vector<std::string> rules_left_out;  // document rules that its language has no list or mark for
  // Of work, per step.
  double extract_s = 0, clean_s = 0, language_s = 0, line_rules_s = 0, document_rules_s = 0;
};

// The reason in `removed_in` = "read" of a file that the disk does not give, or that is damaged.
inline constexpr const char* unreadable_file = "unreadable";

struct ExaminedFile {
  std::vector<ExaminedDocument> documents;
  std::vector<RejectedRecord> rejected;  // a whole file that cannot be read is in `documents` as well, as removed
};

// All documents of a file: one, or one per record of JSON lines. Records that are none are counted in `rejected`.
// `repeated`: what the pages of the file's site have in common, or null.
// Errors: a file that cannot be read if the user named it; one that merely lies in a folder is one removed document.
Result<ExaminedFile> examine_file(const InputFile& file, const CurateSettings& settings, const PageNamer& namer,
                                  const RepeatedBlocks* repeated = nullptr);

}  // namespace longhaul
