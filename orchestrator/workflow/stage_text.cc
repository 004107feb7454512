#include "orchestrator/workflow/stage_text.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

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

void resolve_references(Value& table, Interpolator& interpolator, int depth) {
  for (ValueMember& member : table.as_table()) {
    const bool holds_scripts = member.value.is_table() && ((depth == 0 && member.key == "step") || depth == 1);
    if (holds_scripts)
      resolve_references(member.value, interpolator, depth + 1);
    else
      interpolator.resolve(member.value, member.key == "script" && depth != 1);
  }
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
