#include "engine/data/samples/row_lines.h"

#include <algorithm>

#include "base/error/diagnostics.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/data/samples/row_limit.h"

namespace longhaul {
namespace {

constexpr std::size_t row_problems_shown = 20;

Status read_line(std::string_view row, const std::string& name, int line, const ReadRow& read) {
  LH_CHECK(check_row_length(row.size()));
  const Result<Value> object = parse_json(row, name);
  if (!object.ok()) return make_error(ErrorCode::invalid_input, object.error().what);
  if (!object->is_table()) return make_error(ErrorCode::invalid_input, "the line is not a JSON object");
  return read(*object, line);
}

}  // namespace

Status for_each_row(std::string_view text, const std::string& name, const ReadRow& read) {
  Diagnostics problems;
  std::size_t hidden = 0;
  int line = 0, objects = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view row = text.substr(at, end - at);
    at = end + 1;
    ++line;
    if (row.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    ++objects;
    const Status status = read_line(row, name, line, read);
    if (status.ok()) continue;
    if (problems.size() < row_problems_shown)
      problems.add(SourcePos{name, line, 0}, status.error().what, status.error().hint);
    else
      ++hidden;
  }
  if (problems.empty() && objects == 0)
    return make_error(ErrorCode::invalid_input, name + " has no examples", "one JSON object per line is expected");
  return problems.to_status(hidden > 0 ? format("and {} more lines with errors; nothing was read", hidden)
                                       : "nothing was read");
}

}  // namespace longhaul
