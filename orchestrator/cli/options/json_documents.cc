#include "orchestrator/cli/options/json_documents.h"

namespace longhaul {

Value document_of(const std::string& file, int format) {
  Value document = Value::make_table();
  document.set("file", file);
  document.set("format", format);
  return document;
}

Value document_of(const std::string& file, int format, const Value& table) {
  Value document = document_of(file, format);
  for (const ValueMember& member : table.as_table()) document.set(member.key, member.value);
  return document;
}

Value errors_value(std::span<const Error> errors) {
  Value list = Value::make_array();
  for (const Error& error : errors) {
    Value& one = list.push_back(Value::make_table());
    one.set("code", to_string(error.code));
    if (error.where) {
      one.set("file", error.where->file.str());
      one.set("line", error.where->line);
      one.set("column", error.where->column);
    }
    one.set("what", error.what);
    one.set("hint", error.hint);
  }
  return list;
}

Value errors_document(const std::string& command, ExitCode exit, std::span<const Error> errors) {
  Value document = document_of("longhaul errors", errors_document_format);
  document.set("command", command);
  document.set("ok", false);
  document.set("exit_code", static_cast<int>(exit));
  document.set("errors", errors_value(errors));
  return document;
}

}  // namespace longhaul
