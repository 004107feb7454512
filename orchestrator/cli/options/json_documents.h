// How the JSON documents of commands begin, and the one that every command prints with --json when it does not do what
// it was asked (docs/reference/json.md, "errors").
#pragma once

#include <span>
#include <string>

#include "base/error/result.h"
#include "base/value/value.h"
#include "orchestrator/cli/options/exit_code.h"

namespace longhaul {

// A table that says which document it is ("longhaul fork") and of which format: what each begins with.
Value document_of(const std::string& file, int format);
// The same, with the keys of `table` behind.
Value document_of(const std::string& file, int format, const Value& table);

inline constexpr int errors_document_format = 1;

// The list alone, as it stands in other documents, too.
Value errors_value(std::span<const Error> errors);

// {"file": "longhaul errors", "format", "command", "ok": false, "exit_code", "errors": [{code, what, hint, and file,
// line, column where the user wrote it}]}.
Value errors_document(const std::string& command, ExitCode exit, std::span<const Error> errors);

}  // namespace longhaul
