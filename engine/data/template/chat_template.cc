#include "engine/data/template/chat_template.h"

#include <ctime>

#include "base/files/file_query.h"
#include "base/files/file_retry.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/data/jinja/values/jinja_text.h"

namespace longhaul {
namespace {

constexpr std::size_t config_bytes_max = std::size_t{1} << 26;
constexpr const char* special_keys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};

Result<Value> read_table(const std::string& path) {
  LH_TRY(const bool there, retried({}, [&] { return is_there(path); }));
  if (!there) return Value::make_table();
  LH_TRY(const std::string text, read_file(path, config_bytes_max));
  LH_TRY(Value value, parse_json(text, path));
  if (!value.is_table()) return make_error(ErrorCode::corrupt, path + ": is not a JSON object");
  return value;
}

// "<s>", or {"content": "<s>", ...}.
const Value* token_text(const Value& config, const char* key) {
  const Value* token = config.find(key);
  if (token && token->is_table()) token = token->find("content");
  return token && token->is_string() ? token : nullptr;
}

// The text of `chat_template`; nullopt: there is none.
Result<std::optional<std::string>> default_of(const Value& config, const std::string& path) {
  const Value* written = config.find("chat_template");
  if (!written || written->is_null()) return std::optional<std::string>();
  if (written->is_string()) return std::optional(written->as_string());
  std::vector<std::string> names;
  if (written->is_array())
    for (const Value& one : written->as_array()) {
      const Value* text = one.find("template");
      if (!text || !text->is_string()) return make_error(ErrorCode::corrupt, path + ": a chat_template has no text");
      names.push_back(one.get_string("name"));
      if (names.back() == "default") return std::optional(text->as_string());
    }
  return make_error(ErrorCode::unsupported,
                    names.empty()
                        ? format("{}: chat_template is neither a text nor a list of named ones", path)
                        : format("{}: none of the chat templates {} is named default", path, join(names, ", ")),
                    "name the one that is to be used 'default'");
}

// {"role", "content"}, and of calls and tools what OpenAI's form has besides.
JinjaValue message_value(const ChatMessage& message) {
  JinjaTable one;
  one.set("role", JinjaValue::of(message.role));
  one.set("content", message.no_content ? JinjaValue() : JinjaValue::of(message.content));
  JinjaList calls;
  for (const ToolCall& call : message.tool_calls) {
    JinjaTable written, function;
    if (!call.id.empty()) written.set("id", JinjaValue::of(call.id));
    written.set("type", JinjaValue::of(std::string("function")));
    function.set("name", JinjaValue::of(call.name));
    function.set("arguments", JinjaValue::from(call.arguments));
    written.set("function", JinjaValue::of(std::move(function)));
    calls.push_back(JinjaValue::of(std::move(written)));
  }
  if (!calls.empty()) one.set("tool_calls", JinjaValue::of(std::move(calls)));
  if (!message.tool_call_id.empty()) one.set("tool_call_id", JinjaValue::of(message.tool_call_id));
  if (!message.name.empty()) one.set("name", JinjaValue::of(message.name));
  return JinjaValue::of(std::move(one));
}

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return local;
}

}  // namespace

Result<std::optional<ChatTemplate>> ChatTemplate::load(const std::string& folder) {
  const std::string config_path = join_path(folder, "tokenizer_config.json");
  LH_TRY(const Value config, read_table(config_path));
  LH_TRY(const Value map, read_table(join_path(folder, "special_tokens_map.json")));
  JinjaTable special;
  for (const char* key : special_keys)
    for (const Value* from : {&config, &map})
      if (const Value* text = token_text(*from, key); text && !special.find(key))
        special.set(key, JinjaValue::of(text->as_string()));
  std::string name = join_path(folder, "chat_template.jinja");
  std::optional<std::string> source;
  LH_TRY(const bool own_file, retried({}, [&] { return is_there(name); }));
  if (own_file) {
    LH_TRY(source, read_file(name, config_bytes_max));
  } else {
    name = config_path;
    LH_TRY(source, default_of(config, config_path));
    if (!source) {
      name = join_path(folder, "chat_template.json");
      LH_TRY(const Value processor, read_table(name));
      LH_TRY(source, default_of(processor, name));
    }
    name += ": chat_template";
  }
  if (!source) return std::optional<ChatTemplate>();
  LH_TRY(ChatTemplate made, parse(*source, name, std::move(special)));
  return std::optional(std::move(made));
}

Result<ChatTemplate> ChatTemplate::parse(const std::string& source, const std::string& name, JinjaTable special) {
  ChatTemplate made;
  LH_TRY(made.template_, JinjaTemplate::parse(source, name));
  made.source_ = source;
  made.special_ = std::move(special);
  return made;
}

Result<JinjaRendering> ChatTemplate::render(std::span<const ChatMessage> messages, bool open,
                                            const Value& tools) const {
  JinjaList list;
  for (const ChatMessage& message : messages) list.push_back(message_value(message));
  JinjaTable variables = special_;
  variables.set("messages", JinjaValue::of(std::move(list)));
  variables.set("tools", JinjaValue::from(tools));
  variables.set("documents", {});
  variables.set("add_generation_prompt", JinjaValue::of(open));
  return template_->render(variables, local_time());
}

Result<std::string> ChatTemplate::render_begun(std::span<const ChatMessage> messages, const Value& tools) const {
  // A mark behind the content says where it ends, whatever the template trims or adds.
  static const std::string mark =
      "\xEF\xB7\xAF"
      "begun\xEF\xB7\xAF ";
  static const std::string bare = mark.substr(0, mark.size() - 1);
  std::vector<ChatMessage> marked(messages.begin(), messages.end());
  marked.back().content += mark;
  LH_TRY(JinjaRendering made, render(marked, false, tools));
  const std::size_t at = made.text.rfind(bare);
  if (at == std::string::npos)
    return make_error(ErrorCode::unsupported, "the chat template leaves out the message that is to be continued",
                      "end the conversation with a message of the user");
  const bool kept_space = made.text.compare(at, mark.size(), mark) == 0;
  made.text.resize(at);
  return kept_space ? made.text : strip_text(made.text, false, true);
}

}  // namespace longhaul
