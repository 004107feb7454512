#include "engine/infer/serve/tool_calls.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/data/template/template_tools.h"

namespace longhaul {
namespace {

constexpr std::string_view call_begin = tool_call_begin, call_end = tool_call_end;
constexpr std::string_view blanks = " \t\r\n";

std::optional<ToolCall> call_in(std::string_view json) {
  const Result<Value> value = parse_json(json, "tool_call");
  if (!value.ok() || !value->is_table()) return std::nullopt;
  const Value* arguments = value->find("arguments");
  if (arguments && !arguments->is_table() && !arguments->is_null()) return std::nullopt;
  Result<ToolCall> call = read_called_function(*value, "tool_call");
  if (!call.ok()) return std::nullopt;
  return std::move(*call);
}

// Where the mark stands that is no part of a JSON text, from `from`; npos: nowhere yet.
std::size_t end_outside_texts(std::string_view json) {
  bool in_text = false;
  for (std::size_t at = 0; at < json.size(); ++at) {
    if (in_text && json[at] == '\\')
      ++at;
    else if (json[at] == '"')
      in_text = !in_text;
    else if (!in_text && json.compare(at, call_end.size(), call_end) == 0)
      return at;
  }
  return std::string_view::npos;
}

// How much at the end of a text may still belong to a call: blanks, and the beginning of its mark.
std::size_t held_back(std::string_view text) {
  std::size_t mark = std::min(call_begin.size() - 1, text.size());
  while (text.substr(text.size() - mark) != call_begin.substr(0, mark)) --mark;
  std::size_t at = text.size() - mark;
  while (at > 0 && blanks.find(text[at - 1]) != std::string_view::npos) --at;
  return text.size() - at;
}

}  // namespace

ToolCallReader::Part ToolCallReader::push(std::string_view text) {
  Part part;
  held_ += text;
  while (true) {
    if (!inside_) read_outside(part);
    if (!inside_ || !read_inside(part)) return part;
  }
}

void ToolCallReader::read_outside(Part& part) {
  const std::size_t begin = held_.find(call_begin);
  std::size_t text_end = begin;
  if (begin == std::string::npos) {
    text_end = held_.size() - held_back(held_);
  } else {
    while (text_end > 0 && blanks.find(held_[text_end - 1]) != std::string_view::npos) --text_end;
    before_ = held_.substr(text_end, begin - text_end);
  }
  part.text += held_.substr(0, text_end);
  called_ = called_ && text_end == 0;
  held_.erase(0, begin == std::string::npos ? text_end : begin + call_begin.size());
  inside_ = begin != std::string::npos;
}

bool ToolCallReader::read_inside(Part& part) {
  const std::size_t end = end_outside_texts(held_);
  if (end == std::string::npos) return false;
  const std::string json = held_.substr(0, end);
  held_.erase(0, end + call_end.size());
  inside_ = false;
  if (std::optional<ToolCall> call = call_in(json)) {
    part.calls.push_back(std::move(*call));
    called_ = true;
  } else {
    part.text += format("{}{}{}{}", before_, call_begin, json, call_end);
    called_ = false;
  }
  return true;
}

ToolCallReader::Part ToolCallReader::finish() {
  Part part;
  const std::string rest = std::exchange(held_, {});
  if (std::optional<ToolCall> call = inside_ ? call_in(rest) : std::nullopt) {
    part.calls.push_back(std::move(*call));
  } else if (inside_) {
    part.text = format("{}{}{}", before_, call_begin, rest);
  } else if (!called_ || rest.find_first_not_of(blanks) != std::string::npos) {
    part.text = rest;
  }
  inside_ = false;
  return part;
}

}  // namespace longhaul
