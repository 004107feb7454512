// Prompts with an answer that a program checks, as rows of JSON Lines:
//   {"prompt": a text or a list of messages, "answer": any JSON}   or   {"messages": [...], "answer": ...}
// with `system` beside either. A prompt that is a list ends with the user. `answer` may be missing where the reward
// asks for none. A key that is not known is refused by name, unless it is ignored.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"
#include "engine/data/samples/text_room.h"
#include "engine/data/template/chat.h"

namespace longhaul {

struct PromptExample {
  std::vector<ChatMessage> messages;
  Value answer;  // null: none
  int line = 0;  // of its file, from 1
  // What the last message says.
  const std::string& question() const { return messages.back().content; }
};

// invalid_input, with all lines that are wrong. needs_answer: rows without one are refused.
Result<std::vector<PromptExample>> parse_prompts(std::string_view text, const std::string& name, bool needs_answer,
                                                 std::span<const std::string> ignore = {});
Result<std::vector<PromptExample>> read_prompts(const std::string& path, bool needs_answer,
                                                std::span<const std::string> ignore = {});

struct TokenizedPrompts {
  std::vector<std::vector<std::int32_t>> ids;  // of `examples`, each with the assistant's turn opened
  std::vector<PromptExample> examples;
  std::int64_t too_long = 0;  // left out: more than room.tokens()
};
// invalid_input if nothing is left.
Result<TokenizedPrompts> tokenize_prompts(std::vector<PromptExample> examples, const ChatEncoder& encoder,
                                          TextRoom room);

}  // namespace longhaul
