// Room engine/curate/read
// Raw inputs as they lie on disk: which files a user's path names, and their records one at a time.
// inputs.h finds and reads; input_stream.h unpacks by content (unpackers.h), lines.h and records.h cut.
// It judges no text: a record that holds none is reported, every other one is handed on.
//
// What a user names as raw documents, found and read.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error/diagnostics.h"
#include "base/error/result.h"

namespace longhaul {

// What files of a type are called. The types there are stand in engine/curate/readers/document_readers.h.
struct DocumentType {
  const char* name;
  std::vector<const char*> endings;  // of file names in lower case, each also with .gz, .bz2, .xz or .zst behind it
  bool is_page = false;              // HTML: shares text with the other pages of its site
  const char* refusal = "";          // why files of this type are not read; "" where they are
};
using DocumentTypes = std::vector<const DocumentType*>;

struct InputFile {
  std::string path;    // to open it
  std::string source;  // its path below the folder or the fixed part of the pattern that named it; unique, sorted
  const DocumentType* type = nullptr;  // never null in what find_inputs() returns
  bool named = false;                  // by the user, not found in a folder or by a pattern
  std::string refusal;                 // why this build cannot read it; "" where it can
};

struct FoundInputs {
  std::vector<InputFile> files;
  std::int64_t other_files = 0;  // in folders, of other types (pictures, style sheets): not read
};

// `names`: files, folders (read with all folders below), and patterns with * ? and ** (any folders). The ending of a
// file's name chooses among `types`, which live as long as what is returned. What names nothing, or a file of no type,
// is added to `problems`.
FoundInputs find_inputs(const std::vector<std::string>& names, const DocumentTypes& types, Diagnostics& problems);

// The whole file, unpacked; of a longer one the first `bytes_max` + 1 bytes. Errors: the disk, and packed data that is
// cut or damaged.
Result<std::string> read_input(const InputFile& file, std::int64_t bytes_max);

bool matches_pattern(std::string_view path, std::string_view pattern);  // * and ? do not match '/', ** does

}  // namespace longhaul
