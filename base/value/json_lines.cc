#include "base/value/json_lines.h"

#include <algorithm>

#include "base/error/diagnostics.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

Error line_error(const JsonLine& line, const std::string& name, std::string what, std::string hint = {}) {
  Error error = make_error(ErrorCode::invalid_input, std::move(what), std::move(hint));
  error.where = SourcePos{name, line.number, 0};
  return error;
}

}  // namespace

bool JsonLineReader::next(JsonLine& line) {
  while (at_ < text_.size()) {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = std::min(end + 1, text_.size());
    ++number_;
    if (found.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    line = {found, number_};
    return true;
  }
  return false;
}

Result<Value> parse_json_row(const JsonLine& line, const std::string& name, std::size_t bytes_max) {
  if (line.text.size() > bytes_max)
    return line_error(
        line, name,
        format("the row has {} bytes, more than {} MiB: it was not read", line.text.size(), bytes_max >> 20),
        "cut it into several, or look whether a line break is missing");
  Result<Value> object = parse_json(line.text, name);
  if (!object.ok())
    return line_error(line, name, object.error().what, "one JSON object per line is expected (JSON Lines)");
  if (!object->is_table())
    return line_error(line, name, "the line is not a JSON object", "one JSON object per line is expected");
  return object;
}

Status for_each_json_row(std::string_view text, const JsonRows& of, const ReadJsonRow& read) {
  Diagnostics problems;
  std::size_t hidden = 0;
  bool any = false;
  JsonLineReader lines(text);
  for (JsonLine line; lines.next(line); any = true) {
    const Result<Value> row = parse_json_row(line, of.name);
    const Status status = row.ok() ? read(*row, line.number) : Status(row.error());
    if (status.ok()) continue;
    if (problems.size() < json_problems_shown)
      problems.add(SourcePos{of.name, line.number, 0}, status.error().what, status.error().hint);
    else
      ++hidden;
  }
  if (!any && !of.rows.empty())
    return make_error(ErrorCode::invalid_input, of.name + " has no " + of.rows, "one JSON object per line is expected");
  return problems.to_status(hidden > 0 ? format("and {} more lines with errors; {}", hidden, of.consequence)
                                       : of.consequence);
}

}  // namespace longhaul
