#include "engine/interop/folder/model_companions.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

constexpr const char* companions[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "vocab.json",
    "merges.txt",
    "generation_config.json",
    "tokenizer.model",
};
// Named templates, as newer libraries keep them.
constexpr const char* more_templates = "additional_chat_templates";

}  // namespace

Result<std::vector<std::string>> model_companions(const std::string& folder) {
  std::vector<std::string> found;
  for (const char* name : companions)
    if (file_exists(join_path(folder, name))) found.emplace_back(name);
  const std::string more = join_path(folder, more_templates);
  if (!is_directory(more)) return found;
  LH_TRY(std::vector<std::string> names, list_directory(more));
  std::sort(names.begin(), names.end());
  for (const std::string& name : names)
    if (ends_with(name, ".jinja")) found.push_back(join_path(more_templates, name));
  return found;
}

Status copy_model_companions(const std::string& from, const std::string& to) {
  LH_TRY(const std::vector<std::string> names, model_companions(from));
  for (const std::string& name : names) {
    LH_TRY(const std::string text, read_file(join_path(from, name)));
    if (name.find('/') != std::string::npos) LH_CHECK(make_directories(join_path(to, more_templates)));
    LH_CHECK(write_file_atomic(join_path(to, name), text));
  }
  return {};
}

Result<Value> read_generation_config(const std::string& folder) {
  const std::string path = join_path(folder, "generation_config.json");
  if (!file_exists(path)) return Value::make_table();
  LH_TRY(const std::string text, read_file(path, 1 << 24));
  LH_TRY(Value config, parse_json(text, path));
  if (!config.is_table()) return make_error(ErrorCode::corrupt, path + ": is not a JSON object");
  return config;
}

}  // namespace longhaul
