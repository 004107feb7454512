#include "engine/data/template/chat.h"

#include <algorithm>
#include <cstddef>

#include "base/text/text.h"
#include "engine/data/template/template_encoder.h"
#include "engine/data/template/template_tools.h"

namespace longhaul {
namespace {

std::string role_token(std::string_view role) {
  return format("<|{}|>", role);
}

// Longhaul's own form has no place for them.
Status check_no_tools(std::span<const ChatMessage> messages, const Value& tools) {
  if (tools.is_null() && !speaks_of_tools(messages)) return {};
  return make_error(ErrorCode::unsupported,
                    format("{} not used: Longhaul's own form of conversations has no place for tools",
                           tools.is_null() ? "calls of tools are" : "'tools' is"),
                    "use a model whose folder has a chat template with tools");
}

}  // namespace

const std::vector<std::string>& chat_roles() {
  static const std::vector<std::string> roles = {"system", "user", "assistant"};
  return roles;
}

std::vector<std::string> default_special_tokens() {
  std::vector<std::string> tokens = {end_of_text_token};
  for (const std::string& role : chat_roles()) tokens.push_back(role_token(role));
  tokens.push_back(end_of_turn_token);
  return tokens;
}

Status check_conversation(std::span<const ChatMessage> messages) {
  const auto wrong = [](std::size_t i, std::string what, std::string hint = {}) {
    return make_error(ErrorCode::invalid_input, format("message {}: {}", i + 1, what), std::move(hint));
  };
  if (messages.empty()) return make_error(ErrorCode::invalid_input, "the conversation has no messages");
  bool begun = false, called = false;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    const bool tool = message.role == "tool";
    if (!tool && std::find(chat_roles().begin(), chat_roles().end(), message.role) == chat_roles().end())
      return wrong(i, format("unknown role '{}'", message.role), "use " + join(chat_roles(), ", ") + ", tool");
    if (!is_valid_utf8(message.content)) return wrong(i, "the content is not valid UTF-8");
    if (message.role == "system") continue;
    if (!begun && message.role != "user") return wrong(i, format("is from {}, expected user", message.role));
    begun = true;
    if (tool && !called) return wrong(i, "is the answer of a tool, and nothing before it calls one");
    called = called || !message.tool_calls.empty();
  }
  return {};
}

bool speaks_of_tools(std::span<const ChatMessage> messages) {
  return std::any_of(messages.begin(), messages.end(),
                     [](const ChatMessage& message) { return message.role == "tool" || !message.tool_calls.empty(); });
}

const std::string& chat_template_jinja() {
  static const std::string jinja =
      "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";
  return jinja;
}

Result<ChatEncoder> ChatEncoder::create(const Tokenizer& tokenizer) {
  ChatEncoder encoder;
  encoder.tokenizer_ = &tokenizer;
  for (const std::string& role : chat_roles()) {
    LH_TRY(const std::int32_t id, tokenizer.require_special(role_token(role)));
    encoder.role_ids_.push_back(id);
  }
  LH_TRY(encoder.end_of_turn_, tokenizer.require_special(end_of_turn_token));
  LH_TRY(encoder.end_of_text_, tokenizer.require_special(end_of_text_token));
  return encoder;
}

Result<ChatEncoder> ChatEncoder::create(const Tokenizer& tokenizer, const std::string& folder) {
  LH_TRY(std::optional<ChatTemplate> chat, ChatTemplate::load(folder));
  if (!chat || chat->source() == chat_template_jinja()) return create(tokenizer);
  ChatEncoder encoder;
  encoder.tokenizer_ = &tokenizer;
  encoder.end_of_turn_ = encoder.end_of_text_ = -1;
  if (const JinjaValue* end = chat->special_tokens().find("eos_token"))
    encoder.end_of_text_ = encoder.end_of_turn_ = tokenizer.added_id(end->as_text()).value_or(-1);
  encoder.marks_tool_calls_ = writes_marked_calls(*chat);
  encoder.template_ = std::make_shared<const TemplateEncoder>(tokenizer, std::move(*chat));
  return encoder;
}

Result<std::vector<std::int32_t>> ChatEncoder::encode_prompt(std::span<const ChatMessage> messages,
                                                             const Value& tools) const {
  const bool begun = !messages.empty() && messages.back().role == "assistant";
  if (begun && !messages.back().tool_calls.empty())
    return make_error(ErrorCode::invalid_input,
                      format("message {}: calls tools, and their answers are missing", messages.size()));
  if (template_) return begun ? template_->encode_begun(messages, tools) : template_->encode(messages, true, tools);
  LH_TRY(ChatTokens tokens, encode(messages, !begun, tools));
  if (begun) tokens.ids.pop_back();  // the token that ends its turn
  return std::move(tokens.ids);
}

Result<ChatTokens> ChatEncoder::encode_answer(std::span<const ChatMessage> messages,
                                              std::span<const ChatMessage> answers, const Value& tools) const {
  std::vector<ChatMessage> all(messages.begin(), messages.end());
  for (ChatMessage& message : all) message.trained = false;  // earlier turns are given
  all.insert(all.end(), answers.begin(), answers.end());
  return encode(all, false, tools);
}

Result<ChatTokens> ChatEncoder::encode(std::span<const ChatMessage> messages, bool open, const Value& tools) const {
  if (template_ && !open) return template_->encode_trained(messages, tools);
  ChatTokens tokens;
  if (!template_) LH_CHECK(check_no_tools(messages, tools));
  if (template_) {
    LH_TRY(tokens.ids, template_->encode(messages, true, tools));
    tokens.loss_mask.assign(tokens.ids.size(), 0);
    return tokens;
  }
  const auto learn_from = [&](std::uint8_t learn) { tokens.loss_mask.resize(tokens.ids.size(), learn); };
  const auto role_id = [&](const std::string& role) {
    const auto at = std::find(chat_roles().begin(), chat_roles().end(), role);
    LH_ASSERT(at != chat_roles().end(), role);
    return role_ids_[static_cast<std::size_t>(at - chat_roles().begin())];
  };
  for (const ChatMessage& message : messages) {
    tokens.ids.push_back(role_id(message.role));
    learn_from(0);
    LH_TRY(const std::vector<std::int32_t> content, tokenizer_->encode(message.content));
    tokens.ids.insert(tokens.ids.end(), content.begin(), content.end());
    tokens.ids.push_back(end_of_turn_);
    learn_from(message.role == "assistant" && message.trained ? 1 : 0);
  }
  if (open) {
    tokens.ids.push_back(role_id("assistant"));
    learn_from(0);
  }
  return tokens;
}

Result<std::vector<std::int32_t>> ChatEncoder::encode_reply(const ChatMessage& reply,
                                                            std::span<const std::int32_t> ends) const {
  if (template_) return template_->encode_reply(reply, ends);
  LH_TRY(ChatTokens tokens, encode({&reply, 1}, true));
  return std::move(tokens.ids);
}

Result<ChatTokens> ChatEncoder::encode_text(const std::string& text) const {
  ChatTokens tokens;
  LH_TRY(tokens.ids, tokenizer_->encode(text));
  if (end_of_text_ < 0)
    return make_error(ErrorCode::invalid_input, "the model's folder names no eos_token, with which a text would end",
                      "write eos_token into its tokenizer_config.json");
  tokens.ids.push_back(end_of_text_);
  tokens.loss_mask.assign(tokens.ids.size(), 1);
  return tokens;
}

Value tokenizer_config(const Tokenizer& tokenizer, const std::string& end_of_text, std::int64_t model_max_length) {
  Value config = Value::make_table();
  config.set("tokenizer_class", "PreTrainedTokenizerFast");
  config.set("clean_up_tokenization_spaces", false);
  config.set("add_prefix_space", false);
  if (model_max_length > 0) config.set("model_max_length", model_max_length);
  if (tokenizer.added_id(end_of_text)) {
    config.set("eos_token", end_of_text);
    config.set("pad_token", end_of_text);
  }
  Value decoder = Value::make_table();
  for (const AddedToken& token : tokenizer.added_tokens()) {
    Value entry = Value::make_table();
    entry.set("content", token.content);
    for (const char* key : {"lstrip", "rstrip", "single_word"}) entry.set(key, false);
    entry.set("normalized", token.normalized);
    entry.set("special", token.special);
    decoder.set(std::to_string(token.id), std::move(entry));
  }
  config.set("added_tokens_decoder", std::move(decoder));
  if (ChatEncoder::create(tokenizer).ok()) config.set("chat_template", chat_template_jinja());
  return config;
}

}  // namespace longhaul
