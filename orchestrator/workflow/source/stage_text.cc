#include "orchestrator/workflow/source/stage_text.h"

#include <algorithm>
#include <cctype>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {

bool is_name(const std::string& name) {
  if (name.empty() || name.size() > 64 || !std::isalnum(static_cast<unsigned char>(name[0]))) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
}

void merge_over(Value& table, const Value& over) {
  for (const ValueMember& member : over.as_table()) {
    Value* own = table.find(member.key);
    if (own && own->is_table() && member.value.is_table())
      merge_over(*own, member.value);
    else
      table.set(member.key, member.value);
  }
}

void merge_below(Value& table, const Value& below) {
  for (const ValueMember& member : below.as_table()) {
    Value* own = table.find(member.key);
    if (!own)
      table.as_table().push_back(member);
    else if (own->is_table() && member.value.is_table())
      merge_below(*own, member.value);
  }
}

namespace {

bool is_shell(const std::string& program) {
  for (const char* name : {"sh", "bash", "dash", "ksh", "zsh"})
    if (file_name(program) == name) return true;
  return false;
}

// "-c", "-ec": what comes next is a script.
bool says_script(const std::string& option) {
  return option.size() > 1 && option[0] == '-' && option[1] != '-' && option.back() == 'c';
}

// The references of one stage, wherever its commands stand: in itself, in its steps, in its matrix.
class CommandReferences {
 public:
  explicit CommandReferences(Interpolator& interpolator) : interpolator_(interpolator) {}

  void resolve_stage(Value& stage) {
    for (ValueMember& member : stage.as_table()) {
      if (member.key == "step" && member.value.is_table())
        for (ValueMember& step : member.value.as_table()) resolve_step(step.value);
      else if (member.key == "matrix" && member.value.is_table())
        resolve_matrix(member.value);
      else
        resolve_key(member.key, member.value);
    }
    Value* environment = stage.find("environment");
    if (!variables_.empty() && !environment) environment = &stage.set("environment", Value::make_table());
    for (const auto& [name, value] : variables_)
      if (environment->is_table()) environment->set(name, Value(value));
  }

 private:
  void resolve_step(Value& step) {
    if (!step.is_table()) return interpolator_.resolve(step);
    for (ValueMember& member : step.as_table()) resolve_key(member.key, member.value);
  }

  // "step.one.script" is an axis as `step = { one = { script = [...] } }` is.
  void resolve_matrix(Value& matrix) {
    for (ValueMember& axis : matrix.as_table()) {
      const std::string key = axis.key.substr(axis.key.rfind('.') + 1);  // npos + 1 is 0
      if (axis.value.is_table())
        resolve_matrix(axis.value);
      else if (axis.value.is_array())
        for (Value& element : axis.value.as_array()) resolve_key(key, element);
      else
        resolve_key(key, axis.value);
    }
  }

  void resolve_key(const std::string& key, Value& value) {
    if (key == "script" && value.is_string())
      interpolator_.resolve_shell(value, Interpolator::ShellText::script, variables_);
    else if (key == "argv" && value.is_array())
      resolve_arguments(value);
    else
      interpolator_.resolve(value);
  }

  void resolve_arguments(Value& argv) {
    bool in_shell = false, is_script = false;
    for (Value& argument : argv.as_array()) {
      if (is_script)
        interpolator_.resolve_shell(argument, Interpolator::ShellText::argument, variables_);
      else
        interpolator_.resolve(argument);
      const std::string text = !is_script && argument.is_string() ? argument.as_string() : "";
      is_script = in_shell && says_script(text);
      in_shell = !is_script && (in_shell || is_shell(text));
    }
  }

  Interpolator& interpolator_;
  Interpolator::ShellVariables variables_;
};

}  // namespace

void resolve_references(Value& table, Interpolator& interpolator) {
  CommandReferences(interpolator).resolve_stage(table);
}

NeedText read_need(const std::string& text) {
  NeedText need{text, NeedEdge::afterok};
  for (const NeedEdge edge : {NeedEdge::afterok, NeedEdge::afterany, NeedEdge::afternotok}) {
    const std::string prefix = std::string(to_string(edge)) + ":";
    if (!starts_with(text, prefix)) continue;
    need = {text.substr(prefix.size()), edge};
    break;
  }
  if (starts_with(need.stage, "@")) need.stage.erase(0, 1);
  return need;
}

}  // namespace longhaul
