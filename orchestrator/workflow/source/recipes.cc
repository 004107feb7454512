#include "orchestrator/workflow/source/recipes.h"

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "orchestrator/workflow/source/stage_text.h"

namespace longhaul {

const Recipes::Recipe* Recipes::find(const std::string& name, Interpolator& interpolator) {
  const auto known = recipes_.find(name);
  if (known != recipes_.end()) return &known->second;
  for (const std::string& folder : folders_) {
    const std::string path = join_path(folder, name + ".toml");
    auto text = files_.read(path);
    if (!text.ok()) continue;
    auto parsed = parse_toml(*text, path);
    if (!parsed.ok()) diagnostics_.add(parsed.error());
    Recipe recipe;
    recipe.written = recipe.resolved = parsed.ok() ? *std::move(parsed) : Value::make_table();
    resolve_references(recipe.resolved, interpolator);
    return &recipes_.emplace(name, std::move(recipe)).first->second;
  }
  return nullptr;
}

void Recipes::merge_into(Value& table, const std::string& stage, Interpolator& interpolator) {
  const Value* named = table.find("recipe");
  if (!named) return;
  const std::string where = "stage." + stage + ".recipe";
  if (!named->is_string() || !is_name(named->as_string())) {
    diagnostics_.add(named->pos, where + " is not the name of a recipe",
                     "write the file's name without folder and .toml");
    return;
  }
  const std::string name = named->as_string();
  if (const Recipe* recipe = find(name, interpolator))
    merge_below(table, recipe->resolved);
  else
    diagnostics_.add(named->pos, "recipe '" + name + "' is not found", hint_of(name));
}

std::string Recipes::hint_of(const std::string& name) const {
  std::vector<std::string> known;
  for (const std::string& folder : folders_)
    if (const auto files = files_.expand(join_path(folder, "*.toml")); files.ok())
      for (const std::string& file : *files) {
        const std::string found = file_name(file);
        if (found.find('*') == std::string::npos) known.push_back(found.substr(0, found.rfind('.')));
      }
  const std::string looked = "looked for " + name + ".toml in " + join(folders_, ", ");
  if (const std::string nearest = nearest_word(name, known); !nearest.empty())
    return "did you mean '" + nearest + "'? " + looked;
  return known.empty() ? looked : "there are " + join(known, ", ") + "; " + looked;
}

Value Recipes::written_whole(const Value& workflow) const {
  Value whole = workflow;
  Value* stages = whole.find("stage");
  for (std::size_t i = 0; stages && stages->is_table() && i < stages->size(); ++i) {
    Value& stage = stages->as_table()[i].value;
    if (const auto recipe = recipes_.find(stage.get_string("recipe")); recipe != recipes_.end())
      merge_below(stage, recipe->second.written);
  }
  return whole;
}

}  // namespace longhaul
