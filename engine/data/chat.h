// How a conversation becomes tokens. One fixed form, without white space of its own, so that every boundary is a
// special token and text is tokenized the same in training and in service:
//
//   <|system|>You are brief.<|end|><|user|>2+2?<|assistant|>   ... the model goes on: 4<|end|>
//
// The same form is stored as a Jinja chat_template in tokenizer_config.json, so other tools render it identically.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/value.h"
#include "engine/data/tokenizer.h"

namespace longhaul {

inline constexpr const char* end_of_text_token = "<|endoftext|>";
inline constexpr const char* end_of_turn_token = "<|end|>";

struct ChatMessage {
  std::string role;  // system, user or assistant
  std::string content;
  bool trained = true;  // of the assistant, in training: its answer is learnt
  bool operator==(const ChatMessage&) const = default;
};

const std::vector<std::string>& chat_roles();
// Every special token that pretraining and chat need, in order of their ids.
std::vector<std::string> default_special_tokens();

// Roles known, at least one message, a user's before the first of the assistant, contents UTF-8. Several messages of
// one role may follow each other, and system messages stand anywhere. The error's text names the message (1-based).
Status check_conversation(std::span<const ChatMessage> messages);

// The text of the conversation; `open` adds the start of the assistant's turn. As the Jinja template renders it.
std::string render_chat(std::span<const ChatMessage> messages, bool open);
const std::string& chat_template_jinja();

struct ChatTokens {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> loss_mask;  // same length; 1: this token is learnt (answers and the token that ends them)
};

// Looks up the special tokens once. Contents are always text: a "<|end|>" that somebody wrote ends nothing.
class ChatEncoder {
 public:
  // ErrorCode::invalid_input if a special token is missing from the tokenizer. `tokenizer` must outlive the encoder.
  static Result<ChatEncoder> create(const Tokenizer& tokenizer);

  // `open` adds <|assistant|>, for generation. Thread-safe.
  Result<ChatTokens> encode(std::span<const ChatMessage> messages, bool open = false) const;
  // A text that is no conversation: learnt whole, with the token that ends a text.
  Result<ChatTokens> encode_text(const std::string& text) const;
  std::int32_t end_of_turn() const { return end_of_turn_; }
  std::int32_t end_of_text() const { return end_of_text_; }

 private:
  const Tokenizer* tokenizer_ = nullptr;
  std::vector<std::int32_t> role_ids_;  // as chat_roles()
  std::int32_t end_of_turn_ = 0, end_of_text_ = 0;
};

// tokenizer_config.json for an exported tokenizer: class, special tokens, chat_template.
// `end_of_text` names its end-of-sequence token; model_max_length 0: left out.
Value tokenizer_config(const Tokenizer& tokenizer, const std::string& end_of_text, std::int64_t model_max_length = 0);

}  // namespace longhaul
