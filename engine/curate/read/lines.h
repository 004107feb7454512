// The lines of an input, one at a time, in bounded memory.
#pragma once

#include <string>

#include "engine/curate/read/input_stream.h"

namespace longhaul {

struct InputLine {
  std::string text;         // without its end; of a line that is too long its first bytes
  std::int64_t number = 0;  // from 1
  std::int64_t bytes = 0;   // of the line in the file
  bool too_long = false;
  bool cut = false;  // the file is broken within it: what is there may not be all
};

// Lines end with \n, \r\n or \r. A byte order mark of UTF-8 at the start of the file is no part of the first line. A
// file in UTF-16 (by its mark, or by every second byte being zero) is read as UTF-8 would be; it may have 256 MiB.
class LineReader {
 public:
  // Of lines above `line_bytes_max` only the start is kept; one of more than 256 times that ends the reading.
  LineReader(InputStream& stream, std::int64_t line_bytes_max);

  // The next line; false at the end of the file. Errors: the disk.
  Result<bool> next(InputLine& line);

  // "" or why reading ended before the file did.
  const std::string& damage() const { return damage_.empty() ? stream_.damage() : damage_; }

 private:
  Status fill();
  Status start();
  void take(InputLine& line, std::size_t bytes);

  InputStream& stream_;
  std::int64_t line_bytes_max_;
  std::string buffer_;
  std::size_t at_ = 0;
  std::int64_t number_ = 0;
  bool started_ = false, ended_ = false, skip_newline_ = false;
  std::string damage_;
};

}  // namespace longhaul
