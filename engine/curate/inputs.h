// What a user names as raw documents, found and read.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/diagnostics.h"
#include "base/result.h"

namespace longhaul {

enum class InputKind { html, text, jsonl };

struct InputFile {
  std::string path;    // to open it
  std::string source;  // its path below the folder or the fixed part of the pattern that named it; unique, sorted
  InputKind kind = InputKind::text;
  bool gzip = false;
  bool named = false;  // by the user, not found in a folder or by a pattern
};

struct FoundInputs {
  std::vector<InputFile> files;
  std::int64_t other_files = 0;  // in folders, of other types (pictures, style sheets): not read
};

// `names`: files, folders (read with all folders below), and patterns with * ? and ** (any folders). By their names
// files are html (.html .htm .xhtml), text (.txt .md .text) or jsonl (.jsonl .ndjson), each also with .gz. What names
// nothing, or a file of another type, is added to `problems`.
FoundInputs find_inputs(const std::vector<std::string>& names, Diagnostics& problems);

// The whole file, unpacked. Refuses more than `bytes_max` unpacked bytes and truncated gzip files.
Result<std::string> read_input(const InputFile& file, std::int64_t bytes_max);

bool matches_pattern(std::string_view path, std::string_view pattern);  // * and ? do not match '/', ** does

}  // namespace longhaul
