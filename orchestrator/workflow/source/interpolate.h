// ${params.NAME} and ${site.NAME} inside the strings of a workflow. A string that is one reference and nothing else
// takes the value with its type ("${params.languages}" can be a list); inside a longer text only text, numbers and
// yes/no fit.
// "$${" stands for a literal "${". There is no reference to the environment: a run must be repeatable from its files.
// In the `script` of a command, where ${NAME} belongs to the shell, only params, site and env references are looked at,
// and their values never become a part of its text: a variable of the environment holds each, so that none is run.
#pragma once

#include <map>
#include <string>

#include "base/error/diagnostics.h"
#include "base/value/value.h"

namespace longhaul {

class Interpolator {
 public:
  // Resolves the params first; they may refer to the site and to each other, but not in a circle.
  Interpolator(const Value& params, const Value& site, Diagnostics& diagnostics);

  // Replaces all references in `value`, at any depth. Problems go to the diagnostics; the text then stays as it is.
  void resolve(Value& value);

  using ShellVariables = std::map<std::string, std::string>;  // by name
  // A text that a shell will read: a reference becomes ${LONGHAUL_PARAMS_name}, and `variables` gets its value. Refused
  // where a shell replaces no variable (single quotes), and text where it would calculate, which can run a command.
  enum class ShellText { script, argument };  // of a command's `script`; behind `bash -c`, written as other arguments
  void resolve_shell(Value& value, ShellText kind, ShellVariables& variables);
  const Value& params() const { return params_; }

 private:
  enum class State { untouched, under_way, done };

  void resolve_text(Value& value, const ShellText* shell, ShellVariables* variables);
  bool add_variable(const std::string& reference, const Value& found, const SourcePos& where, std::string& out,
                    ShellVariables& variables);
  const Value* look_up(const std::string& reference, const SourcePos& where);
  bool resolve_param(const std::string& name, const SourcePos& where);

  Value params_;
  const Value& site_;
  Diagnostics& diagnostics_;
  std::map<std::string, State> states_;
};

}  // namespace longhaul
