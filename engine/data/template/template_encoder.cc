#include "engine/data/template/template_encoder.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/data/template/template_tools.h"
#include "engine/data/tokenizer/utf8.h"

namespace longhaul {
namespace {

// Messages in which every special token that somebody wrote is broken by a character that none of them holds, and which
// the template carries through like any other.
struct Guarded {
  std::vector<ChatMessage> messages;
  Value tools;
  std::string guard;  // "": there was nothing to break
};

// Finds special tokens in texts; the longest of those that begin at one place.
class SpecialTokens {
 public:
  explicit SpecialTokens(const Tokenizer& tokenizer) {
    for (const AddedToken& token : tokenizer.added_tokens())
      if (token.special) by_first_[static_cast<unsigned char>(token.content[0])].push_back(&token);
    for (auto& tokens : by_first_)
      std::sort(tokens.begin(), tokens.end(),
                [](const auto* a, const auto* b) { return a->content.size() > b->content.size(); });
  }
  const AddedToken* at(std::string_view text, std::size_t place) const {
    for (const AddedToken* token : by_first_[static_cast<unsigned char>(text[place])])
      if (text.compare(place, token->content.size(), token->content) == 0) return token;
    return nullptr;
  }

 private:
  std::vector<const AddedToken*> by_first_[256];
};

// With the guard behind the first character of each special token.
std::string broken_up(const SpecialTokens& specials, const std::string& text, const std::string& guard) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = read_utf8(text, at).length;
    const bool special = specials.at(text, at) != nullptr;
    out += text.substr(at, length);
    if (special) out += guard;
    at += length;
  }
  return out;
}

// Every text of a value, keys among them.
template <class Change>
Value changed_texts(const Value& value, const Change& change) {
  if (value.is_string()) return change(value.as_string());
  if (value.is_array()) {
    Value list = Value::make_array();
    for (const Value& one : value.as_array()) list.push_back(changed_texts(one, change));
    return list;
  }
  if (!value.is_table()) return value;
  Value table = Value::make_table();
  for (const ValueMember& member : value.as_table()) table.set(change(member.key), changed_texts(member.value, change));
  return table;
}

// Everything that somebody wrote in a conversation and its tools.
template <class Change>
void change_texts(Guarded& made, const Change& change) {
  for (ChatMessage& message : made.messages) {
    for (std::string* text : {&message.content, &message.tool_call_id, &message.name}) *text = change(*text);
    for (ToolCall& call : message.tool_calls) {
      call.id = change(call.id);
      call.name = change(call.name);
      call.arguments = changed_texts(call.arguments, change);
    }
  }
  made.tools = changed_texts(made.tools, change);
}

Result<Guarded> guarded(const Tokenizer& tokenizer, std::span<const ChatMessage> messages, const Value& tools) {
  Guarded made{{messages.begin(), messages.end()}, tools, {}};
  const SpecialTokens specials(tokenizer);
  bool needed = false;
  std::string all;
  change_texts(made, [&](const std::string& text) {
    all += text;
    for (std::size_t at = 0; at < text.size() && !needed; ++at) needed = specials.at(text, at) != nullptr;
    return text;
  });
  if (!needed) return made;
  for (std::uint32_t c = 0xFDD0; c < 0xFDEF && made.guard.empty(); ++c) {
    std::string candidate;
    append_utf8(candidate, c);
    if (all.find(candidate) == std::string::npos) made.guard = candidate;
  }
  if (made.guard.empty())
    return make_error(ErrorCode::invalid_input, "the messages hold special tokens and all of U+FDD0 to U+FDEE");
  change_texts(made, [&](const std::string& text) { return broken_up(specials, text, made.guard); });
  return made;
}

std::string without(const std::string& text, const std::string& guard) {
  return guard.empty() ? text : replace_all(text, guard, "");
}

}  // namespace

Result<std::vector<std::int32_t>> TemplateEncoder::tokens_of(const std::string& text, const std::string& guard) const {
  if (guard.empty()) return tokenizer_->encode(text, true);
  const SpecialTokens specials(*tokenizer_);
  std::vector<std::int32_t> ids;
  std::string plain;
  const auto flush = [&]() -> Status {
    LH_TRY(const std::vector<std::int32_t> more, tokenizer_->encode(without(plain, guard), false));
    ids.insert(ids.end(), more.begin(), more.end());
    plain.clear();
    return {};
  };
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* special = specials.at(text, at);
    if (!special) {
      plain += text[at++];
      continue;
    }
    LH_CHECK(flush());
    ids.push_back(special->id);
    at += special->content.size();
  }
  LH_CHECK(flush());
  return ids;
}

Result<std::vector<std::int32_t>> TemplateEncoder::encode(std::span<const ChatMessage> messages, bool open,
                                                          const Value& tools) const {
  LH_TRY(const Guarded safe, guarded(*tokenizer_, messages, tools));
  LH_TRY(const JinjaRendering made, template_.render(safe.messages, open, safe.tools));
  LH_CHECK(check_tools_written(template_, messages, open, tools));
  return tokens_of(made.text, safe.guard);
}

Result<std::vector<std::int32_t>> TemplateEncoder::encode_begun(std::span<const ChatMessage> messages,
                                                                const Value& tools) const {
  LH_TRY(const Guarded safe, guarded(*tokenizer_, messages, tools));
  LH_TRY(const std::string text, template_.render_begun(safe.messages, safe.tools));
  LH_CHECK(check_tools_written(template_, messages, false, tools));
  return tokens_of(text, safe.guard);
}

// By the difference of two conversations that stand for all: a question, an answer, and the reply behind them, and the
// same without the reply. What both have behind the answer ends its turn. So does verl with a fixed conversation before
// ("delta-based tokenization"): templates that write earlier turns anew cannot change what the model has written.
Result<std::vector<std::int32_t>> TemplateEncoder::encode_reply(const ChatMessage& reply,
                                                                std::span<const std::int32_t> ends) const {
  const std::string answer = "the-answer-before";
  const ChatMessage conversation[] = {
      {.role = "user", .content = "a question"}, {.role = "assistant", .content = answer}, reply};
  LH_TRY(const Guarded safe, guarded(*tokenizer_, conversation, {}));
  const std::span<const ChatMessage> all = safe.messages;
  LH_TRY(const JinjaRendering before, template_.render(all.first(2), false, {}));
  LH_TRY(const JinjaRendering behind, template_.render(all, true, {}));
  LH_CHECK(check_tools_written(template_, conversation, true, {}));
  const std::size_t begin_before = before.text.rfind(answer), begin = behind.text.find(answer);
  if (begin_before == std::string::npos || begin == std::string::npos)
    return make_error(ErrorCode::unsupported, "the chat template leaves out the answer before a reply",
                      "conversations of several turns need a template that writes all of them");
  const std::string_view ended = std::string_view(before.text).substr(begin_before + answer.size());
  const std::string_view rest = std::string_view(behind.text).substr(begin + answer.size());
  const auto same = std::ranges::mismatch(ended, rest).in1 - ended.begin();
  const SpecialTokens specials(*tokenizer_);
  for (std::size_t at = 0; at < static_cast<std::size_t>(same); ++at) {
    const AddedToken* token = specials.at(rest, at);
    if (!token || std::ranges::find(ends, token->id) == ends.end()) continue;
    // With the token that ended the answer, which is there already: a text's first token may be another one.
    LH_TRY(std::vector<std::int32_t> ids, tokens_of(std::string(rest.substr(at)), safe.guard));
    ids.erase(ids.begin(), std::ranges::find(ids, token->id) + 1);
    return ids;
  }
  return tokens_of(std::string(rest), safe.guard);
}

Result<TemplateEncoder::Spans> TemplateEncoder::answers_of(std::span<const ChatMessage> messages, const Value& tools,
                                                           const JinjaRendering& whole) const {
  Spans spans;
  const auto answers =
      std::count_if(messages.begin(), messages.end(), [](const auto& message) { return message.role == "assistant"; });
  if (!whole.answers.empty()) {
    const bool all = std::all_of(messages.begin(), messages.end(), [](const auto& message) { return message.trained; });
    if (!all && static_cast<std::ptrdiff_t>(whole.answers.size()) != answers)
      return make_error(
          ErrorCode::unsupported,
          format("the chat template has {} generation blocks for {} answers, some of which are not trained",
                 whole.answers.size(), answers));
    std::size_t which = 0;
    if (all) return whole.answers;
    for (const ChatMessage& message : messages) {
      if (message.role != "assistant") continue;
      if (message.trained) spans.push_back(whole.answers[which]);
      ++which;
    }
    return spans;
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != "assistant" || !messages[i].trained) continue;
    if (i == 0) return make_error(ErrorCode::unsupported, "an answer stands before any question");
    LH_TRY(const JinjaRendering before, template_.render(messages.subspan(0, i), true, tools));
    LH_TRY(const JinjaRendering behind, template_.render(messages.subspan(0, i + 1), false, tools));
    if (!starts_with(behind.text, before.text) || !starts_with(whole.text, behind.text))
      return make_error(
          ErrorCode::unsupported,
          format("the chat template does not say which tokens of message {} are the answer: it writes earlier "
                 "turns anew, or opens a turn otherwise than it writes one",
                 i + 1),
          "put {% generation %} and {% endgeneration %} around what it writes of an answer");
    std::size_t end = behind.text.size();
    while (end > before.text.size() && (behind.text[end - 1] == '\n' || behind.text[end - 1] == ' ')) --end;
    spans.emplace_back(before.text.size(), end);
  }
  return spans;
}

Result<ChatTokens> TemplateEncoder::encode_trained(std::span<const ChatMessage> messages, const Value& tools) const {
  LH_TRY(const Guarded safe, guarded(*tokenizer_, messages, tools));
  LH_TRY(const JinjaRendering whole, template_.render(safe.messages, false, safe.tools));
  LH_CHECK(check_tools_written(template_, messages, false, tools));
  LH_TRY(Spans spans, answers_of(safe.messages, safe.tools, whole));
  ChatTokens tokens;
  LH_TRY(tokens.ids, tokens_of(whole.text, safe.guard));
  // Places in the text without guards, where each token's bytes lie.
  for (auto& [begin, end] : spans) {
    end = without(whole.text.substr(0, end), safe.guard).size();
    begin = without(whole.text.substr(0, begin), safe.guard).size();
  }
  const std::size_t bytes = without(whole.text, safe.guard).size();
  std::size_t at = 0, span = 0;
  for (const std::int32_t id : tokens.ids) {
    const std::size_t next = at + tokenizer_->token_bytes(id).size();
    while (span < spans.size() && spans[span].second <= at) ++span;
    tokens.loss_mask.push_back(span < spans.size() && spans[span].first < next && at < spans[span].second ? 1 : 0);
    at = next;
  }
  if (at != bytes)
    return make_error(ErrorCode::unsupported, "the tokenizer changes the text, so that answers cannot be found in it",
                      "train with a tokenizer without normalizer and without a space in front");
  return tokens;
}

}  // namespace longhaul
