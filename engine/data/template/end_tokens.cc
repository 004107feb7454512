#include "engine/data/template/end_tokens.h"

#include <algorithm>

#include "base/files/file_query.h"
#include "base/files/file_retry.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/data/template/chat.h"

namespace longhaul {
namespace {

Result<Value> read_config(const std::string& path) {
  LH_TRY(const bool there, retried({}, [&] { return is_there(path); }));
  if (!there) return Value::make_table();
  LH_TRY(const std::string text, read_file(path, 1 << 26));
  return parse_json(text, path);
}

Result<std::vector<std::int64_t>> ids_in(const Value& config, const char* key, const std::string& path) {
  std::vector<std::int64_t> ids;
  const Value* value = config.find(key);
  if (!value || value->is_null()) return ids;
  const ValueArray one = {*value};
  for (const Value& id : value->is_array() ? value->as_array() : one) {
    if (!id.is_integer() || id.as_integer() < -1)
      return make_error(ErrorCode::invalid_input, format("{}: {} is not a token id or a list of them", path, key));
    if (id.as_integer() >= 0) ids.push_back(id.as_integer());
  }
  return ids;
}

}  // namespace

Result<ModelTokens> tokens_of_folder(const std::string& folder, const Tokenizer& tokenizer) {
  ModelTokens made;
  const auto add_end = [&](std::int64_t id) {
    if (std::find(made.ends.begin(), made.ends.end(), id) == made.ends.end()) made.ends.push_back(id);
  };
  for (const char* name : {"config.json", "generation_config.json"}) {
    const std::string path = join_path(folder, name);
    LH_TRY(const Value config, read_config(path));
    LH_TRY(const std::vector<std::int64_t> ends, ids_in(config, "eos_token_id", path));
    for (const std::int64_t id : ends) add_end(id);
    for (const auto& [key, into] : {std::pair{"bos_token_id", &made.bos}, {"pad_token_id", &made.pad}}) {
      LH_TRY(const std::vector<std::int64_t> ids, ids_in(config, key, path));
      if (*into < 0 && !ids.empty()) *into = ids.front();
    }
  }
  const std::string path = join_path(folder, "tokenizer_config.json");
  LH_TRY(const Value config, read_config(path));
  const auto named = [&](const char* key) -> std::optional<std::int32_t> {
    const Value* token = config.find(key);
    if (token && token->is_table()) token = token->find("content");
    return token && token->is_string() ? tokenizer.added_id(token->as_string()) : std::nullopt;
  };
  for (const char* token : {end_of_turn_token, end_of_text_token})
    if (const auto id = tokenizer.added_id(token)) add_end(*id);
  if (const auto end = named("eos_token")) add_end(*end);
  if (made.bos < 0) made.bos = named("bos_token").value_or(-1);
  if (made.pad < 0) made.pad = named("pad_token").value_or(-1);
  if (const auto id = tokenizer.added_id(end_of_text_token)) {
    if (made.bos < 0) made.bos = *id;
    if (made.pad < 0) made.pad = *id;
  }
  return made;
}

}  // namespace longhaul
