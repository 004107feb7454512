#include "orchestrator/workflow/source/interpolate.h"

#include <algorithm>
#include <cctype>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "orchestrator/workflow/source/shell_context.h"

namespace longhaul {
namespace {

std::vector<std::string> member_names(const Value& table) {
  std::vector<std::string> names;
  for (const ValueMember& member : table.as_table()) names.push_back(member.key);
  return names;
}

std::string scalar_text(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::boolean: return value.as_bool() ? "true" : "false";
    case Value::Kind::integer: return std::to_string(value.as_integer());
    case Value::Kind::number: return format("{}", value.as_number());
    default: return value.as_string();
  }
}

// Of "params.steps": LONGHAUL_PARAMS_steps. What a name of the shell cannot hold is made distinct by a hash.
std::string variable_of(const std::string& reference) {
  const std::size_t dot = reference.find('.');
  std::string variable = reference.substr(0, dot) == "site" ? "LONGHAUL_SITE_" : "LONGHAUL_PARAMS_";
  bool is_exact = true;
  for (const char c : reference.substr(dot + 1)) {
    const bool fits = c == '_' || (static_cast<unsigned char>(c) < 128 && std::isalnum(static_cast<unsigned char>(c)));
    variable += fits ? c : '_';
    is_exact = is_exact && fits;
  }
  return is_exact ? variable : variable + "_" + hex64(xxh3_64(reference)).substr(0, 8);
}

// The value with every position replaced: problems with it are reported where it is used.
Value moved_to(Value value, const SourcePos& where) {
  value.pos = where;
  if (value.is_array())
    for (Value& element : value.as_array()) element = moved_to(std::move(element), where);
  if (value.is_table())
    for (ValueMember& member : value.as_table()) {
      member.key_pos = where;
      member.value = moved_to(std::move(member.value), where);
    }
  return value;
}

}  // namespace

Interpolator::Interpolator(const Value& params, const Value& site, Diagnostics& diagnostics)
    : params_(params), site_(site), diagnostics_(diagnostics) {
  for (const std::string& name : member_names(params_)) resolve_param(name, {});
}

void Interpolator::resolve(Value& value) {
  if (value.is_string()) resolve_text(value, nullptr, nullptr);
  if (value.is_array())
    for (Value& element : value.as_array()) resolve(element);
  if (value.is_table())
    for (ValueMember& member : value.as_table()) resolve(member.value);
}

void Interpolator::resolve_shell(Value& value, ShellText kind, ShellVariables& variables) {
  if (value.is_string()) resolve_text(value, &kind, &variables);
}

bool Interpolator::resolve_param(const std::string& name, const SourcePos& where) {
  State& state = states_[name];
  if (state == State::done) return true;
  if (state == State::under_way) {
    diagnostics_.add(where, "params." + name + " refers to itself", "break the circle");
    return false;
  }
  state = State::under_way;
  Value value = *params_.find(name);
  resolve(value);
  *params_.find(name) = std::move(value);
  states_[name] = State::done;
  return true;
}

const Value* Interpolator::look_up(const std::string& reference, const SourcePos& where) {
  const std::vector<std::string> path = split(reference, '.');
  if (path[0] == "env") {
    diagnostics_.add(where, "${" + reference + "}: the environment is not read, so that a run can be repeated",
                     "declare it under [params] and give it with --set params.NAME=VALUE");
    return nullptr;
  }
  if ((path[0] != "params" && path[0] != "site") || path.size() < 2) {
    diagnostics_.add(where, "${" + reference + "} is not known",
                     params_.find(path.back()) != nullptr
                         ? "did you mean ${params." + path.back() + "}?"
                         : "references are ${params.NAME} and ${site.NAME}; write $${ for a literal ${");
    return nullptr;
  }
  if (path[0] == "params" && params_.find(path[1]) && !resolve_param(path[1], where)) return nullptr;
  const Value* at = path[0] == "params" ? &params_ : &site_;
  std::string so_far = path[0];
  for (std::size_t i = 1; i < path.size(); ++i) {
    const Value* next = at->find(path[i]);
    if (!next) {
      const std::string nearest = at->is_table() ? nearest_word(path[i], member_names(*at)) : "";
      diagnostics_.add(where, fmt::format("${{{}}}: {} has no '{}'", reference, so_far, path[i]),
                       nearest.empty() ? "" : fmt::format("did you mean '{}'?", nearest));
      return nullptr;
    }
    so_far.append(".").append(path[i]);
    at = next;
  }
  if (path[0] == "site" && at->is_string() && at->as_string().empty()) {
    diagnostics_.add(where, "${" + reference + "} is empty on this site", "set '" + path.back() + "' in the site file");
    return nullptr;
  }
  return at;
}

bool Interpolator::add_variable(const std::string& reference, const Value& found, const SourcePos& where,
                                std::string& out, ShellVariables& variables) {
  const ShellContext context = shell_context(out);
  const std::string written = "${" + reference + "}", name = variable_of(reference);
  if (context == ShellContext::single_quotes) {
    diagnostics_.add(where, written + " stands in single quotes, where the shell replaces nothing",
                     "use double quotes, or say environment = { NAME = \"" + written + "\" } and write \"$NAME\"");
    return false;
  }
  if (context == ShellContext::arithmetic && found.is_string()) {
    diagnostics_.add(where, written + " is text, and calculating with it can run a command", "let it be a number");
    return false;
  }
  if (found.is_string() && found.as_string().find('\0') != std::string::npos) {
    diagnostics_.add(where, written + " holds a zero byte, which no variable can hold", "remove it");
    return false;
  }
  out += "${" + name + "}";
  variables[name] = scalar_text(found);
  return true;
}

void Interpolator::resolve_text(Value& value, const ShellText* shell, ShellVariables* variables) {
  const bool is_script = shell && *shell == ShellText::script;
  const std::string text = value.as_string();
  const SourcePos where = value.pos;
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t open = text.find("${", i);
    if (open == std::string::npos) {
      out += text.substr(i);
      break;
    }
    if (!is_script && open > i && text[open - 1] == '$') {  // "$${"
      out += text.substr(i, open - 1 - i) + "${";
      i = open + 2;
      continue;
    }
    out += text.substr(i, open - i);
    const std::size_t close = text.find('}', open);
    const std::string reference = close == std::string::npos ? "" : text.substr(open + 2, close - open - 2);
    const bool ours =
        starts_with(reference, "params.") || starts_with(reference, "site.") || starts_with(reference, "env.");
    if (is_script && !ours) {
      out += "${";
      i = open + 2;
      continue;
    }
    if (close == std::string::npos) {
      diagnostics_.add(where, "'${' without '}'", "write $${ for a literal ${");
      return;
    }
    const Value* found = look_up(reference, where);
    if (!found) return;
    if (!shell && open == 0 && close + 1 == text.size()) {
      value = moved_to(*found, where);
      return;
    }
    if (found->is_array() || found->is_table() || found->is_null()) {
      diagnostics_.add(where, "${" + reference + "} is " + found->kind_name() + " and cannot stand inside a text",
                       shell ? "hand it over as text" : "let the string be \"${" + reference + "}\" alone");
      return;
    }
    if (!shell)
      out += scalar_text(*found);
    else if (!add_variable(reference, *found, where, out, *variables))
      return;
    i = close + 1;
  }
  value = Value(out);
  value.pos = where;
}

}  // namespace longhaul
