// The chat template that a model's folder brings: chat_template.jinja, or `chat_template` of tokenizer_config.json, a
// text or a list of named ones, of which "default" is taken; or chat_template.json, as old processors have it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/jinja/jinja_template.h"
#include "engine/data/template/chat.h"

namespace longhaul {

class ChatTemplate {
 public:
  // nullopt: the folder has none. What the template uses and is not done here is refused with file and line.
  static Result<std::optional<ChatTemplate>> load(const std::string& folder);
  // `special`: what the template knows as bos_token, eos_token and so on.
  static Result<ChatTemplate> parse(const std::string& source, const std::string& name, JinjaTable special = {});

  const std::string& source() const { return source_; }
  // The texts of bos_token, eos_token, pad_token, ... that the folder names.
  const JinjaTable& special_tokens() const { return special_; }

  // As transformers' apply_chat_template renders it: with `messages`, `tools` (a list or null), `documents` (none), and
  // `add_generation_prompt` = `open`. strftime_now() shows the local time.
  Result<JinjaRendering> render(std::span<const ChatMessage> messages, bool open, const Value& tools = {}) const;
  // The same where the last message is begun: up to the end of its content.
  Result<std::string> render_begun(std::span<const ChatMessage> messages, const Value& tools = {}) const;

 private:
  std::string source_;
  std::optional<JinjaTemplate> template_;
  JinjaTable special_;
};

}  // namespace longhaul
