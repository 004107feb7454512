// What a chat template makes of tools: templates that know none of them leave out in silence what is handed to them, so
// each conversation with tools is written once more with every name, argument and answer exchanged for a mark, and what
// does not come back is refused.
#pragma once

#include "engine/data/template/chat_template.h"

namespace longhaul {

// ErrorCode::unsupported: the names of tools, the names and arguments of calls, the contents of tools' answers and what
// an answer says beside its calls are not all written. Ids of calls are not looked at: several families have no place
// for them. Ok where the conversation has nothing of that.
Status check_tools_written(const ChatTemplate& chat, std::span<const ChatMessage> messages, bool open,
                           const Value& tools);

// Calls are written as <tool_call>{"name": ..., "arguments": ...}</tool_call> (Hermes, Qwen).
inline constexpr const char* tool_call_begin = "<tool_call>";
inline constexpr const char* tool_call_end = "</tool_call>";
bool writes_marked_calls(const ChatTemplate& chat);

}  // namespace longhaul
