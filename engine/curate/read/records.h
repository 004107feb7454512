// The records of a file of JSON lines, or of one JSON array: which hold a text, and why the others do not.
#pragma once

#include <functional>
#include <string>

#include "base/value/value.h"
#include "engine/curate/read/inputs.h"

namespace longhaul {

// A line, record, member or file that gave no document, for the user to find and mend.
struct RejectedRecord {
  std::string file;
  std::int64_t line = 0;  // or number of the element of an array, from 1; 0: the whole file
  std::string start;      // its first bytes, as far as they are text
  std::string reason;     // "not_json", "not_an_object", "no_text", "too_long", "cut", "unreadable"
  std::string detail;     // for people
  std::int64_t bytes = 0;
};

struct InputRecord {
  std::int64_t line = 0;
  std::int64_t bytes = 0;
  Value object;  // holds a string "text"
};

// Calls one of the two for everything in the file, in its order. A file that is cut or damaged gives what came before
// the damage, and what was cut as rejected. Blank lines count as nothing. Errors: the disk.
Status read_records(const InputFile& file, std::int64_t record_bytes_max,
                    const std::function<void(InputRecord)>& record,
                    const std::function<void(RejectedRecord)>& rejected);

// The first bytes of something, for a person: valid UTF-8 without control characters, at most 80 bytes.
std::string first_bytes(std::string_view text);

}  // namespace longhaul
