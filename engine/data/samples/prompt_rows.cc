#include "engine/data/samples/prompt_rows.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json_lines.h"

namespace longhaul {

namespace {

Error bad_prompt(std::string what, std::string hint = {}) {
  return make_error(ErrorCode::invalid_input, std::move(what), std::move(hint));
}

Result<std::vector<ChatMessage>> prompt_messages(const Value& list, const char* key) {
  if (list.is_string()) return std::vector<ChatMessage>{{.role = "user", .content = list.as_string()}};
  if (!list.is_array())
    return bad_prompt(format("'{}' is {}, expected a text or a list of messages", key, list.kind_name()));
  std::vector<ChatMessage> messages;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Value& one = list.as_array()[i];
    const std::string place = format("{}[{}]", key, i);
    if (!one.is_table()) return bad_prompt(format("{} is {}, expected a message", place, one.kind_name()));
    for (const ValueMember& member : one.as_table())
      if (member.key != "role" && member.key != "content")
        return bad_prompt(format("{} has '{}', which is no key of a prompt's message", place, member.key),
                          "a message has role and content");
    for (const char* text : {"role", "content"})
      if (const Value* value = one.find(text); !value || !value->is_string())
        return bad_prompt(format("{}.{} is {}, expected a text", place, text, value ? value->kind_name() : "missing"));
    messages.push_back({.role = one.get_string("role"), .content = one.get_string("content")});
  }
  return messages;
}

Result<PromptExample> prompt_of_row(const Value& row, bool needs_answer, std::span<const std::string> ignore) {
  PromptExample example;
  const Value *prompt = nullptr, *messages = nullptr, *system = nullptr;
  for (const ValueMember& member : row.as_table()) {
    if (member.value.is_null() || std::ranges::find(ignore, member.key) != ignore.end()) continue;
    if (member.key == "prompt")
      prompt = &member.value;
    else if (member.key == "messages")
      messages = &member.value;
    else if (member.key == "system")
      system = &member.value;
    else if (member.key == "answer")
      example.answer = member.value;
    else
      return bad_prompt(format("'{}' is no key of a prompt with an answer", member.key),
                        format("to train without it: ignore = [\"{}\"]", member.key));
  }
  if ((prompt == nullptr) == (messages == nullptr))
    return bad_prompt(prompt ? "the row has 'prompt' and 'messages'" : "the row has neither 'prompt' nor 'messages'",
                      "one of them asks the question");
  if (needs_answer && example.answer.is_null())
    return bad_prompt("the row has no 'answer'", "the reward compares with it");
  LH_TRY(example.messages, prompt_messages(prompt ? *prompt : *messages, prompt ? "prompt" : "messages"));
  if (system != nullptr) {
    if (!system->is_string()) return bad_prompt(format("'system' is {}, expected a text", system->kind_name()));
    example.messages.insert(example.messages.begin(), {.role = "system", .content = system->as_string()});
  }
  LH_CHECK(check_conversation(example.messages));
  if (example.messages.back().role != "user")
    return bad_prompt(format("the prompt ends with the {}", example.messages.back().role),
                      "it is answered by the model: let the user speak last");
  return example;
}

}  // namespace

Result<std::vector<PromptExample>> parse_prompts(std::string_view text, const std::string& name, bool needs_answer,
                                                 std::span<const std::string> ignore) {
  std::vector<PromptExample> examples;
  LH_CHECK(for_each_json_row(text, {name, "examples"}, [&](const Value& row, int line) -> Status {
    LH_TRY(PromptExample example, prompt_of_row(row, needs_answer, ignore));
    example.line = line;
    examples.push_back(std::move(example));
    return {};
  }));
  return examples;
}

Result<std::vector<PromptExample>> read_prompts(const std::string& path, bool needs_answer,
                                                std::span<const std::string> ignore) {
  LH_TRY(const MappedFile file, MappedFile::open(path));
  return parse_prompts(file.view(), path, needs_answer, ignore);
}

Result<TokenizedPrompts> tokenize_prompts(std::vector<PromptExample> examples, const ChatEncoder& encoder,
                                          TextRoom room) {
  TokenizedPrompts made;
  for (PromptExample& example : examples) {
    auto encoded = encoder.encode_prompt(example.messages);
    LH_TRY(std::vector<std::int32_t> ids, std::move(encoded).with_context(format("line {}", example.line)));
    if (static_cast<std::int64_t>(ids.size()) > room.tokens()) {
      ++made.too_long;
      continue;
    }
    made.ids.push_back(std::move(ids));
    made.examples.push_back(std::move(example));
  }
  if (made.examples.empty())
    return bad_prompt(format("none of {} prompts fits into {} tokens: a text may have {}", examples.size(),
                             room.tokens(), room.text()),
                      "use a longer sequence_length, or a smaller max_new_tokens");
  return made;
}

}  // namespace longhaul
