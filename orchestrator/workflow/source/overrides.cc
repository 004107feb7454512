#include "orchestrator/workflow/source/overrides.h"

#include "base/text/text.h"
#include "base/toml.h"

namespace longhaul {
namespace {

void place(Value& value, const SourcePos& where) {
  value.pos = where;
  if (value.is_array())
    for (Value& element : value.as_array()) place(element, where);
  if (value.is_table())
    for (ValueMember& member : value.as_table()) {
      member.key_pos = where;
      place(member.value, where);
    }
}

std::vector<std::string> names_of(const Value* table) {
  std::vector<std::string> names;
  if (table && table->is_table())
    for (const ValueMember& member : table->as_table()) names.push_back(member.key);
  return names;
}

void apply_one(const std::string& set, Value& workflow, Diagnostics& diagnostics) {
  const SourcePos where{"--set " + set, 0, 0};
  const std::size_t equals = set.find('=');
  if (equals == std::string::npos || equals == 0) {
    diagnostics.add(where, "no '=' between key and value", "for example --set params.steps=10");
    return;
  }
  const std::vector<std::string> path = split(trim(set.substr(0, equals)), '.');
  const std::string text = trim(set.substr(equals + 1));
  const std::size_t named = path[0] == "params" ? 2 : 3;
  if ((path[0] != "params" && path[0] != "stage") || path.size() < named) {
    diagnostics.add(where, "'" + set.substr(0, equals) + "' cannot be set", "use params.NAME or stage.NAME.KEY");
    return;
  }
  for (const std::string& part : path)
    if (part.empty()) {
      diagnostics.add(where, "empty name in '" + set.substr(0, equals) + "'");
      return;
    }
  const Value* section = workflow.find(path[0]);
  if (!section || !section->find(path[1])) {
    const std::string nearest = nearest_word(path[1], names_of(section));
    diagnostics.add(where, "the workflow has no " + path[0] + "." + path[1],
                    nearest.empty() ? "" : "did you mean '" + path[0] + "." + nearest + "'?");
    return;
  }
  auto parsed = parse_toml("x = " + text + "\n", "");
  const Value* value = parsed.ok() && parsed->size() == 1 ? parsed->find("x") : nullptr;
  if (!value) {
    Value quoted = Value::make_table();
    quoted.set("x", text);
    const std::string as_text = trim(to_toml(quoted)).substr(std::string_view("x = ").size());
    diagnostics.add(where, "'" + text + "' is not a TOML value",
                    "text needs quotes: --set " + shell_quoted(set.substr(0, equals) + "=" + as_text));
    return;
  }
  Value placed = *value;
  place(placed, where);
  set_at_path(workflow, path, placed, where);
}

}  // namespace

void set_at_path(Value& table, const std::vector<std::string>& path, const Value& value, const SourcePos& where) {
  Value* at = &table;
  for (std::size_t i = 0; i < path.size(); ++i) {
    Value* next = at->find(path[i]);
    if (!next) {
      ValueMember member;
      member.key = path[i];
      member.value = Value::make_table();
      member.value.pos = where;
      member.key_pos = where;
      at->as_table().push_back(std::move(member));
      next = &at->as_table().back().value;
    }
    if (i + 1 < path.size() && !next->is_table()) {
      *next = Value::make_table();
      next->pos = where;
    }
    at = next;
  }
  *at = value;
}

void apply_overrides(const std::vector<std::string>& sets, Value& workflow, Diagnostics& diagnostics) {
  for (const std::string& set : sets) apply_one(set, workflow, diagnostics);
}

}  // namespace longhaul
