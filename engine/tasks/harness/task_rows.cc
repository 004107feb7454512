#include "engine/tasks/harness/task_rows.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "base/value/json_lines.h"

namespace longhaul {

namespace {

Error row_error(const std::string& file, int line, std::string what, std::string hint = {}) {
  Error error = make_error(ErrorCode::invalid_input, std::move(what), std::move(hint));
  error.where = SourcePos{file, line, 0};
  return error;
}

Status add_json(const std::string& text, const std::string& file, std::vector<Value>& rows) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '[') {
    LH_TRY(const Value list, parse_json(text, file));
    for (const Value& row : list.as_array()) {
      if (!row.is_table()) return row_error(file, 1, "an element of the list is no object");
      rows.push_back(row);
    }
    return {};
  }
  return for_each_json_row(text, {file}, [&](const Value& row, int) -> Status {
    rows.push_back(row);
    return {};
  });
}

// Fields of a CSV file (RFC 4180), record by record.
class CsvReader {
 public:
  CsvReader(const std::string& text, const std::string& file) : text_(text), file_(file) {}
  bool at_end() const { return at_ >= text_.size(); }
  int line() const { return line_; }

  Result<std::vector<std::string>> record() {
    std::vector<std::string> fields;
    while (true) {
      LH_TRY(std::string field, next_field());
      fields.push_back(std::move(field));
      if (at_end()) return fields;
      const char sign = text_[at_++];
      if (sign == ',') continue;
      if (sign == '\r' && !at_end() && text_[at_] == '\n') ++at_;
      ++line_;
      return fields;
    }
  }

 private:
  Result<std::string> next_field() {
    std::string field;
    if (at_end() || text_[at_] != '"') {
      while (!at_end() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r') field += text_[at_++];
      return field;
    }
    const int began = line_;
    for (++at_; !at_end(); ++at_) {
      if (text_[at_] == '"') {
        if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') break;
        ++at_;
      } else if (text_[at_] == '\n') {
        ++line_;
      }
      field += text_[at_];
    }
    if (at_end()) return row_error(file_, began, "a quoted field has no end");
    ++at_;
    if (!at_end() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r')
      return row_error(file_, line_, "something stands behind a quoted field");
    return field;
  }

  const std::string& text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1;
};

// What pandas.read_csv takes for nothing.
bool is_nothing(const std::string& field) {
  static const std::set<std::string> nothing = {"",     "#N/A",   "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN",
                                                "-nan", "1.#IND", "1.#QNAN",  "<NA>", "N/A",     "NA",       "NULL",
                                                "NaN",  "None",   "n/a",      "nan",  "null"};
  return nothing.contains(field);
}

template <class Number>
bool is_number(const std::string& field, Number& value) {
  const auto read = std::from_chars(field.data(), field.data() + field.size(), value);
  return !field.empty() && read.ec == std::errc() && read.ptr == field.data() + field.size();
}

Value csv_value(const std::string& field, bool whole, bool broken, bool logical) {
  if (is_nothing(field)) return {};
  std::int64_t i = 0;
  double d = 0;
  if (whole && is_number(field, i)) return i;
  if (broken && is_number(field, d)) return d;
  if (logical) return field == "True" || field == "TRUE" || field == "true";
  return field;
}

Status add_csv(const std::string& text, const std::string& file, std::vector<Value>& rows) {
  CsvReader reader(text, file);
  LH_TRY(const std::vector<std::string> names, reader.record());
  std::vector<std::vector<std::string>> records;
  while (!reader.at_end()) {
    const int line = reader.line();
    LH_TRY(std::vector<std::string> record, reader.record());
    if (record.size() == 1 && record[0].empty()) continue;
    if (record.size() != names.size())
      return row_error(file, line, format("{} fields where the first line names {}", record.size(), names.size()));
    records.push_back(std::move(record));
  }
  std::vector<Value> made(records.size(), Value::make_table());
  for (std::size_t column = 0; column < names.size(); ++column) {
    bool whole = true, broken = true, logical = true;
    for (const auto& record : records) {
      const std::string& field = record[column];
      std::int64_t i = 0;
      double d = 0;
      whole = whole && is_number(field, i);
      if (is_nothing(field)) continue;
      broken = broken && is_number(field, d);
      logical = logical && (field == "True" || field == "False" || field == "TRUE" || field == "FALSE" ||
                            field == "true" || field == "false");
    }
    for (std::size_t i = 0; i < records.size(); ++i)
      made[i].set(names[column], csv_value(records[i][column], whole, broken, logical));
  }
  rows.insert(rows.end(), std::make_move_iterator(made.begin()), std::make_move_iterator(made.end()));
  return {};
}

void add_lines(const std::string& text, std::vector<Value>& rows) {
  std::vector<std::string> lines = split(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  for (std::string& line : lines) {
    if (ends_with(line, "\r")) line.pop_back();
    Value row = Value::make_table();
    row.set("text", line);
    rows.push_back(std::move(row));
  }
}

}  // namespace

TaskRows rows_of(const std::vector<Value>& tables) {
  TaskRows made;
  for (const Value& table : tables)
    for (const ValueMember& member : table.as_table())
      if (std::find(made.columns.begin(), made.columns.end(), member.key) == made.columns.end())
        made.columns.push_back(member.key);
  for (const Value& table : tables) {
    Value row = Value::make_table();
    for (const std::string& column : made.columns) {
      const Value* value = table.find(column);
      row.set(column, value != nullptr ? *value : Value());
    }
    made.rows.push_back(std::move(row));
  }
  return made;
}

Result<TaskRows> read_task_rows(const EvaluationTask& task, const std::string& split) {
  const TaskSplit* const of = task.split(split);
  if (of == nullptr) return make_error(ErrorCode::not_found, format("the task {} has no split {}", task.name, split));
  std::vector<Value> tables;
  for (const std::string& file : of->files) {
    LH_TRY(const std::string text, read_file(file));
    if (!is_valid_utf8(text)) return row_error(file, 0, "the file is not UTF-8");
    if (task.format == "json")
      LH_CHECK(add_json(text, file, tables));
    else if (task.format == "csv")
      LH_CHECK(add_csv(text, file, tables));
    else
      add_lines(text, tables);
  }
  if (tables.empty())
    return make_error(ErrorCode::invalid_input, format("the split {} of the task {} has no rows", split, task.name));
  return rows_of(tables);
}

}  // namespace longhaul
