#include "orchestrator/workflow/source/overrides.h"

#include <algorithm>

#include "base/text/text.h"
#include "base/toml.h"
#include "contracts/tasks/stage_kinds.h"

namespace longhaul {
namespace {

constexpr std::size_t names_offered = 4;

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

bool has_key(const StageKind* kind, const std::string& key) {
  const auto has = [&](const std::vector<FieldInfo>& fields) {
    return std::any_of(fields.begin(), fields.end(), [&](const FieldInfo& field) { return field.name == key; });
  };
  return kind != nullptr && (has(kind->fields) || has(stage_common_fields().describe()));
}

const FieldInfo* find_field(const std::vector<FieldInfo>& fields, const std::vector<std::string>& path,
                            std::size_t from) {
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const FieldInfo& field) { return field.name == path[from]; });
  if (found == fields.end()) return nullptr;
  if (from + 1 == path.size()) return &*found;
  const std::size_t below = from + (found->named ? 2 : 1);  // behind a name of the user's
  return below < path.size() ? find_field(found->members, path, below) : nullptr;
}

// Whether what stands at `path` is written as text: a parameter that is text, or a key of such a type. There a word
// without quotes can mean nothing else.
bool takes_text(const Value& workflow, const std::vector<std::string>& path) {
  const Value* at = &workflow;
  for (const std::string& name : path) at = at != nullptr && at->is_table() ? at->find(name) : nullptr;
  if (at != nullptr) return at->is_string();
  const Value* stage = path[0] == "stage" ? workflow.find("stage")->find(path[1]) : nullptr;
  if (stage == nullptr || !stage->is_table()) return false;
  const StageKind* kind = find_stage_kind(stage->get_string("kind"));
  const std::vector<FieldInfo> common = stage_common_fields().describe();
  const FieldInfo* field = kind != nullptr ? find_field(kind->fields, path, 2) : nullptr;
  if (field == nullptr) field = find_field(common, path, 2);
  return field != nullptr && (field->type == "text" || field->type == "duration" || field->type == "size");
}

// Of "steps", "pretrain.steps" or "optimizer.lr": the names under which the workflow has it.
std::string full_name_hint(const std::vector<std::string>& path, const Value& workflow) {
  const std::string key = join(path, ".");
  std::vector<std::string> meant;
  for (const std::string& name : names_of(workflow.find("params")))
    if (name == key) meant.push_back("params." + key);
  const Value* stages = workflow.find("stage");
  for (const std::string& name : names_of(stages)) {
    const Value* stage = stages->find(name);
    if (path[0] == name && path.size() > 1) meant.push_back("stage." + key);
    if (stage->is_table() && has_key(find_stage_kind(stage->get_string("kind")), path[0]))
      meant.push_back("stage." + name + "." + key);
  }
  if (meant.empty() || meant.size() > names_offered) return "use params.NAME or stage.NAME.KEY";
  return "did you mean '" + join(meant, "' or '") + "'?";
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
    diagnostics.add(where, "'" + set.substr(0, equals) + "' cannot be set", full_name_hint(path, workflow));
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
  const Value word(text);
  if (!value && !text.empty() && takes_text(workflow, path)) value = &word;
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
