// Room engine/curate/readers
// How the files that people have become documents: a reader for each type of file.
// document_readers.h is the table of them, each a row and a file of its own (NAME_reader.cc).
// Unpacking and finding files lie below (engine/curate/read), and so does the main text of a page (engine/curate/html).
// It judges no text: every document that was found is handed on (engine/curate/examine.h decides).
//
// The registry of what `curate` reads. Endings choose the reader, and messages that say what is read list them;
// docs/extending.md says how to add one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "contracts/settings/stages/curate.h"
#include "engine/curate/html/html_repetition.h"
#include "engine/curate/read/inputs.h"
#include "engine/curate/read/records.h"

namespace longhaul {

// One document as its file gives it, before anything is cleaned.
struct FoundDocument {
  std::int64_t record = 0;  // of several in a file, its line or number, from 1; 0: the file is one document
  std::string origin;       // of a record: the page or address that it states, or ""
  std::string title, author, date, url;  // as the document states them; "" where it does not
  std::string text;
  std::int64_t bytes = 0;           // that it takes in the file, unpacked
  std::int64_t repeated_bytes = 0;  // left out, since the pages of its site have it in common
  bool is_too_large = false;        // longer than page_bytes_max; `text` is empty then
  double seconds = 0;               // of work, from bytes to text
};

struct ReadJob {
  const InputFile& file;
  const CurateSettings& settings;
  const RepeatedBlocks* repeated;  // what the pages of the file's site have in common, or null
  const std::function<void(FoundDocument)>& found;
  const std::function<void(RejectedRecord)>& rejected;
};

struct DocumentReader {
  DocumentType type;
  // Hands over everything that is in the file, in its order. Errors: the disk, and a file that is damaged as a whole.
  // Called by many threads at once, for different files. Null where the type is refused.
  Status (*read)(const ReadJob& job);
};

const std::vector<DocumentReader>& document_readers();
// Of all of them, for find_inputs().
const DocumentTypes& document_types();
// The one whose type it is; the end of the program if there is none.
const DocumentReader& reader_of(const DocumentType& type);

Status read_html(const ReadJob& job);
Status read_plain_text(const ReadJob& job);
Status read_json_records(const ReadJob& job);

}  // namespace longhaul
