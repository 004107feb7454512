// Files of JSON Lines: a JSON object on every line that is not blank. The one reader of them. for_each_json_row reads a
// whole text and reports all of its problems together; who reads a part of a file, on several threads, or counts rather
// than refuses, goes from line to line by JsonLineReader and takes parse_json_row. Every error carries file and line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/value/value.h"

namespace longhaul {

struct JsonLine {
  std::string_view text;  // without its line break
  int number = 0;         // from 1, blank lines counted
};

// Lines that are not blank, in their order. The text must outlive the reader and its lines.
class JsonLineReader {
 public:
  explicit JsonLineReader(std::string_view text) : text_(text) {}
  // False at the end of the text; `line` is left as it was.
  bool next(JsonLine& line);
  // Where the line after the last one that was given begins: at most the text's size.
  std::size_t position() const { return at_; }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  int number_ = 0;
};

// How long a line may be where nothing else is asked: reading JSON takes up to fifty times its bytes of memory, and a
// row of this length has millions of tokens. A longer one is refused before it is read.
inline constexpr std::size_t json_line_bytes_max = std::size_t{16} << 20;

// The object of a line of the file `name`. Errors are invalid_input: too long, no JSON, no object.
Result<Value> parse_json_row(const JsonLine& line, const std::string& name,
                             std::size_t bytes_max = json_line_bytes_max);

struct JsonRows {
  std::string name;       // the file's, for errors
  std::string rows = {};  // what it holds, "examples": then an empty file is an error; "": then it is not
  std::string consequence = "nothing was read";  // at the end of a list of problems
};
// Calls `read` for every object; problems of lines, those of `read` among them, are gathered, and at most
// json_problems_shown of them shown.
inline constexpr std::size_t json_problems_shown = 20;
using ReadJsonRow = std::function<Status(const Value& row, int line)>;
Status for_each_json_row(std::string_view text, const JsonRows& of, const ReadJsonRow& read);

}  // namespace longhaul
