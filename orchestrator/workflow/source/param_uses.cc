#include "orchestrator/workflow/source/param_uses.h"

#include "base/text/text.h"

namespace longhaul {
namespace {

void look(const Value& value, const std::string& reference, ParamUse& at, std::vector<ParamUse>& uses) {
  if (value.is_string()) {
    const std::string& text = value.as_string();
    at.whole = text == reference + "}";
    if (at.whole || text.find(reference + "}") != std::string::npos || text.find(reference + ".") != std::string::npos)
      uses.push_back(at);
  }
  for (std::size_t i = 0; value.is_array() && i < value.size(); ++i) {
    at.path.push_back(format("[{}]", i));
    look(value.as_array()[i], reference, at, uses);
    at.path.pop_back();
  }
  for (std::size_t i = 0; value.is_table() && i < value.size(); ++i) {
    at.path.push_back(value.as_table()[i].key);
    look(value.as_table()[i].value, reference, at, uses);
    at.path.pop_back();
  }
}

}  // namespace

std::string ParamUse::text() const {
  return path.empty() ? section : section + "." + join(path, ".");
}

std::vector<ParamUse> uses_of_param(const Value& workflow, const std::string& name) {
  std::vector<ParamUse> uses;
  const std::string reference = "${params." + name;
  if (!workflow.is_table()) return uses;
  for (const ValueMember& section : workflow.as_table()) {
    if (section.key != "stage" || !section.value.is_table()) {
      ParamUse at{section.key, {}, false};
      look(section.value, reference, at, uses);
      continue;
    }
    for (const ValueMember& stage : section.value.as_table()) {
      ParamUse at{"stage." + stage.key, {}, false};
      look(stage.value, reference, at, uses);
    }
  }
  return uses;
}

}  // namespace longhaul
