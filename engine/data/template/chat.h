// Room engine/data/template
// How a conversation becomes tokens: Longhaul's own form, or the chat template of a model's folder.
// Start with chat.h; chat_template.h finds and runs a template, template_encoder.h finds which tokens are answers.
// end_tokens.h gathers the tokens that end an answer, post_processor.h adds those that begin a text.
// chat_tools.h reads tools and calls of them.
// It reads no training files: rows become conversations in engine/data/samples.
//
// How a conversation becomes tokens: by the chat template of the model's folder (engine/data/template), or, where it
// has none or Longhaul's own, by one fixed form, without white space of its own, so that every boundary is a special
// token and text is tokenized the same in training and in service:
//
//   <|system|>You are brief.<|end|><|user|>2+2?<|assistant|>   ... the model goes on: 4<|end|>
//
// The same form is stored as a Jinja chat_template in tokenizer_config.json, so other tools render it identically.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"
#include "engine/data/template/chat_tools.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace longhaul {

inline constexpr const char* end_of_text_token = "<|endoftext|>";
inline constexpr const char* end_of_turn_token = "<|end|>";

struct ChatMessage {
  std::string role;  // system, user, assistant or tool
  std::string content;
  bool trained = true;                       // of the assistant, in training: its answer is learnt
  bool no_content = false;                   // of the assistant: it is null beside calls
  std::vector<ToolCall> tool_calls = {};     // of the assistant
  std::string tool_call_id = {}, name = {};  // of a tool: the call that it answers, and what was called; "": not given
  bool operator==(const ChatMessage&) const = default;
};

const std::vector<std::string>& chat_roles();
// Every special token that pretraining and chat need, in order of their ids.
std::vector<std::string> default_special_tokens();

// Roles known, at least one message, a user's before the first of the assistant, a call before the first of a tool,
// contents UTF-8. Several messages of one role may follow each other, and system messages stand anywhere. The error's
// text names the message (1-based).
Status check_conversation(std::span<const ChatMessage> messages);
// Whether a message calls a tool, or is one's answer.
bool speaks_of_tools(std::span<const ChatMessage> messages);

const std::string& chat_template_jinja();

struct ChatTokens {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> loss_mask;  // same length; 1: this token is learnt (answers and the token that ends them)
};

class TemplateEncoder;

// Looks up the special tokens once. Contents are always text: a "<|end|>" that somebody wrote ends nothing.
class ChatEncoder {
 public:
  // ErrorCode::invalid_input if a special token is missing from the tokenizer. `tokenizer` must outlive the encoder.
  static Result<ChatEncoder> create(const Tokenizer& tokenizer);
  // By the template of a model's folder where it has one of its own.
  static Result<ChatEncoder> create(const Tokenizer& tokenizer, const std::string& folder);

  // `open` adds <|assistant|>, for generation. `tools`: a list (read_tools), or null. Tools, calls and answers of tools
  // need a template of the folder that writes them: ErrorCode::unsupported says what it leaves out. Thread-safe.
  Result<ChatTokens> encode(std::span<const ChatMessage> messages, bool open = false, const Value& tools = {}) const;
  // What a model goes on from: the assistant's turn is opened, or, where it has the last message, goes on.
  Result<std::vector<std::int32_t>> encode_prompt(std::span<const ChatMessage> messages, const Value& tools = {}) const;
  // A conversation and what follows it, of which alone something is learnt: the assistant's messages that are trained.
  Result<ChatTokens> encode_answer(std::span<const ChatMessage> messages, std::span<const ChatMessage> answers,
                                   const Value& tools = {}) const;
  // What stands between an answer that a token of `ends` has ended and the next one, where `reply` (a user's message,
  // or a tool's) comes between them: that message, and the assistant's turn opened again. Of the answer nothing is
  // written anew, and what stood before the reply changes nothing of it; where the template writes the end of a turn
  // without such a token, that end is written, too. ErrorCode::unsupported: the template leaves out the answer before,
  // or the tool's message. Thread-safe.
  Result<std::vector<std::int32_t>> encode_reply(const ChatMessage& reply, std::span<const std::int32_t> ends) const;
  // A text that is no conversation: learnt whole, with the token that ends a text.
  Result<ChatTokens> encode_text(const std::string& text) const;
  // The folder's template writes a call as <tool_call>{"name": ..., "arguments": ...}</tool_call>.
  bool marks_tool_calls() const { return marks_tool_calls_; }
  std::int32_t end_of_text() const { return end_of_text_; }

 private:
  const Tokenizer* tokenizer_ = nullptr;
  std::vector<std::int32_t> role_ids_;  // as chat_roles()
  std::int32_t end_of_turn_ = 0, end_of_text_ = 0;
  std::shared_ptr<const TemplateEncoder> template_;  // null: Longhaul's form
  bool marks_tool_calls_ = false;
};

// tokenizer_config.json for an exported tokenizer: class, special tokens, chat_template.
// `end_of_text` names its end-of-sequence token; model_max_length 0: left out.
Value tokenizer_config(const Tokenizer& tokenizer, const std::string& end_of_text, std::int64_t model_max_length = 0);

}  // namespace longhaul
