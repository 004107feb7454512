// Conversations as tokens by a model's own chat template. The template's special tokens are tokens; what somebody wrote
// in a message is text, also where it spells one of them.
#pragma once

#include "engine/data/template/chat_template.h"

namespace longhaul {

class TemplateEncoder {
 public:
  // `tokenizer` must outlive the encoder.
  TemplateEncoder(const Tokenizer& tokenizer, ChatTemplate chat) : tokenizer_(&tokenizer), template_(std::move(chat)) {}

  // `open` adds the beginning of the assistant's turn. `tools`: a list, or null; what the template leaves out of them
  // is refused (template_tools.h).
  Result<std::vector<std::int32_t>> encode(std::span<const ChatMessage> messages, bool open,
                                           const Value& tools = {}) const;
  // The last message is the assistant's and goes on.
  Result<std::vector<std::int32_t>> encode_begun(std::span<const ChatMessage> messages, const Value& tools = {}) const;
  // ChatEncoder::encode_reply.
  Result<std::vector<std::int32_t>> encode_reply(const ChatMessage& reply, std::span<const std::int32_t> ends) const;
  // With the mask of what is learnt: answers that are trained, and the token that ends each. Where the template has
  // {% generation %} blocks these say what an answer is, as in transformers; otherwise it is what the template adds for
  // the message behind the opened turn, and a template that changes earlier turns later is refused.
  Result<ChatTokens> encode_trained(std::span<const ChatMessage> messages, const Value& tools = {}) const;

 private:
  using Spans = std::vector<std::pair<std::size_t, std::size_t>>;
  Result<Spans> answers_of(std::span<const ChatMessage> messages, const Value& tools,
                           const JinjaRendering& whole) const;
  Result<std::vector<std::int32_t>> tokens_of(const std::string& text, const std::string& guard) const;

  const Tokenizer* tokenizer_;
  ChatTemplate template_;
};

}  // namespace longhaul
