#include "csv_table.h"

#include <algorithm>
#include <cstdlib>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul::bench {
namespace {

// Fields of a line; quotes as in RFC 4180.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      fields.back() += c, ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      fields.emplace_back();
    else if (c != '\r')
      fields.back() += c;
  }
  return fields;
}

}  // namespace

const std::string& CsvRow::text(const std::string& name) const {
  static const std::string none;
  const auto found = std::find(names_.begin(), names_.end(), name);
  return found == names_.end() ? none : fields_[static_cast<std::size_t>(found - names_.begin())];
}

double CsvRow::number(const std::string& name, double otherwise) const {
  const std::string& value = text(name);
  return value.empty() ? otherwise : std::strtod(value.c_str(), nullptr);
}

Result<CsvTable> read_csv(const std::string& path) {
  LH_TRY(std::string text, read_file(path));
  if (starts_with(text, "\xEF\xBB\xBF")) text.erase(0, 3);
  CsvTable csv;
  for (const std::string& line : split(text, '\n')) {
    if (trim(line).empty()) continue;
    auto fields = fields_of(line);
    if (csv.names.empty())
      csv.names = std::move(fields);
    else
      csv.rows.push_back(std::move(fields));
  }
  for (const auto& row : csv.rows)
    if (row.size() != csv.names.size())
      return make_error(ErrorCode::corrupt, path + " has a row with another number of fields than its head");
  return csv;
}

}  // namespace longhaul::bench
