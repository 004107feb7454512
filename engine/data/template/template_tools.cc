#include "engine/data/template/template_tools.h"

#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

// Marks, and what each stands for.
class Marks {
 public:
  std::string next(std::string what) {
    what_.push_back(std::move(what));
    return mark(what_.size() - 1);
  }
  Status check(const std::string& text) const {
    for (std::size_t i = 0; i < what_.size(); ++i)
      if (text.find(mark(i)) == std::string::npos)
        return make_error(ErrorCode::unsupported, format("the chat template leaves out {}", what_[i]),
                          "use a model whose chat template writes it, or leave it out yourself");
    return {};
  }

 private:
  static std::string mark(std::size_t i) { return format("mark_{}_of_longhaul", i); }
  std::vector<std::string> what_;
};

void mark_tool(Value& tool, Marks& marks) {
  Value* function = tool.find("function");
  Value& named = function && function->is_table() ? *function : tool;
  named.set("name", marks.next(format("the tool '{}'", tool_name(tool))));
}

void mark_calls(ChatMessage& message, std::size_t number, Marks& marks) {
  for (ToolCall& call : message.tool_calls) {
    if (call.arguments.size() > 0) {
      const std::string mark = marks.next(format("the arguments of a call in message {}", number));
      call.arguments.as_table().front().value = mark;
    }
    call.name = marks.next(format("the call of '{}' in message {}", call.name, number));
  }
}

}  // namespace

Status check_tools_written(const ChatTemplate& chat, std::span<const ChatMessage> messages, bool open,
                           const Value& tools) {
  if (tools.is_null() && !speaks_of_tools(messages)) return {};
  Marks marks;
  Value marked_tools = tools;
  if (!tools.is_null())
    for (Value& tool : marked_tools.as_array()) mark_tool(tool, marks);
  std::vector<ChatMessage> marked(messages.begin(), messages.end());
  for (std::size_t i = 0; i < marked.size(); ++i) {
    ChatMessage& message = marked[i];
    if (message.role == "tool") message.content = marks.next(format("the answer of a tool in message {}", i + 1));
    if (message.tool_calls.empty()) continue;
    if (!message.content.empty()) message.content = marks.next(format("what message {} says beside its calls", i + 1));
    mark_calls(message, i + 1, marks);
  }
  LH_TRY(const JinjaRendering made, chat.render(marked, open, marked_tools));
  return marks.check(made.text);
}

bool writes_marked_calls(const ChatTemplate& chat) {
  if (chat.source().find(tool_call_begin) == std::string::npos) return false;
  ToolCall call{"callabcde", "mark", Value::make_table()};
  call.arguments.set("key", "value");
  ChatMessage caller{"assistant", ""};
  caller.no_content = true;
  caller.tool_calls.push_back(call);
  const ChatMessage messages[] = {{"user", "mark"}, caller};
  const Value tools = parse_json(R"([{"type": "function", "function": {"name": "mark", "description": "mark", )"
                                 R"("parameters": {"type": "object", "properties": {"key": {"type": "string", )"
                                 R"("description": "mark"}}, "required": []}}}])")
                          .value();
  const Result<JinjaRendering> made = chat.render(messages, false, tools);
  if (!made.ok()) return false;
  // The last one is the call: the text for the tools may show an example before it.
  const std::size_t begin = made->text.rfind(tool_call_begin);
  const std::size_t from = begin + std::string_view(tool_call_begin).size();
  const std::size_t end = begin == std::string::npos ? begin : made->text.find(tool_call_end, from);
  if (end == std::string::npos) return false;
  const Result<Value> inside = parse_json(made->text.substr(from, end - from));
  if (!inside.ok()) return false;
  const Value* arguments = inside->find("arguments");
  return inside->get_string("name") == "mark" && arguments && *arguments == call.arguments;
}

}  // namespace longhaul
