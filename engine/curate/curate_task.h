// Room engine/curate
// The work of the stage `curate`: raw pages in, clean documents without duplicates out.
// curate_task.h runs all steps; examine.h judges one document alone; removal_log.h and waterfall.h keep what each step
// removed; corpus_files.h writes lines.
// It uses no model and no tokenizer: curation runs on processors, before any vocabulary exists.
//
// The whole curation room as one task: raw pages in, a clean corpus out, and a waterfall of what each step removed and
// why.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "contracts/settings/stages/curate.h"

namespace longhaul {

struct CurateInputs {
  std::vector<std::string> documents;  // files, folders and patterns; see inputs.h
};

struct WaterfallReason {
  std::string reason;
  std::int64_t documents = 0;  // removed for it
  std::int64_t bytes = 0;      // of text removed for it, from documents that went and from those that stayed
};

struct WaterfallStep {
  std::string step;  // "read", "extract", "clean", "language", "line_rules", "document_rules", "exact_duplicates", ...
  std::int64_t documents_in = 0, documents_out = 0;
  std::int64_t bytes_in = 0, bytes_out = 0;
  double seconds = 0;
  std::vector<WaterfallReason> reasons;  // largest first
};

struct LanguageShare {
  std::string language;
  std::int64_t documents = 0, bytes = 0;  // of text, in training and held-out documents together
  std::int64_t heldout_documents = 0, heldout_bytes = 0;
};

struct CurateReport {
  std::int64_t files = 0, input_bytes = 0;
  std::int64_t unreadable_files = 0;      // below named folders; left out and counted in the step "read"
  std::string first_unreadable;           // which, and why
  std::int64_t rejected = 0;              // records that are none, and unreadable files
  std::string first_rejected;             // "file:line: reason: detail (first bytes)"
  std::int64_t documents = 0, bytes = 0;  // for training: documents and bytes of their text
  std::int64_t heldout_documents = 0, heldout_bytes = 0;
  std::string heldout_note;  // for people, where the split may surprise; else ""
  double seconds = 0;
  std::vector<WaterfallStep> steps;
  std::vector<LanguageShare> languages;  // most bytes first
  // Of how many documents of a language a rule was not asked, since the language has no list or no mark for it.
  std::map<std::string, std::map<std::string, std::int64_t>> rules_left_out;
};

struct CurateProgress {
  std::string step;
  std::int64_t done = 0, total = 0;  // files or documents
};

// Writes to the folder `out_dir`, which exists and is the caller's to publish:
//   documents.jsonl  one object per line: id, source, page, language, title, text; for training
//   heldout.jsonl    the same, for evaluation; empty when nothing is held out
//   removed.jsonl    id, source, step, reason, detail of every document that went
//   waterfall.json   the steps of the report;  languages.json  its languages
//   rejected.jsonl   file, line, reason, detail, bytes and first bytes of every record and file that is no document
// The same inputs and settings give the same files, whatever `threads` says; only seconds differ.
//
// Held out are whole pages, in all their languages, so that a translation of a held-out page is never trained on. No
// paragraph or line of `paragraph_columns_min` (at least 40) columns stands in both files: what paragraph
// deduplication left is removed from the training side, since held-out text should stay whole.
//
// Errors: every input that cannot be found, or that is named itself and cannot be read, all together; a setting out of
// its range; more broken records than the settings allow (rejected.jsonl is written then); no document left, with the
// step that removed most (waterfall.json and removed.jsonl are written then too). `progress` may be called from any
// thread, one at a time.
Result<CurateReport> curate(const CurateInputs& inputs, const CurateSettings& settings, const std::string& out_dir,
                            const std::function<void(const CurateProgress&)>& progress = {});

}  // namespace longhaul
