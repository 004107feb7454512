// Calls of tools in answers: what a model writes between <tool_call> and </tool_call> (the form of Hermes and Qwen) is
// given back as calls, everything else as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/data/template/chat_tools.h"

namespace longhaul {

// Parts the text of one answer as it comes. White space around calls is not text. What stands between the marks and is
// no {"name": text, "arguments": object} is given back as text with its marks; so is a call that ends with the answer
// and is not whole. A call may lack the mark of its end at the end of an answer.
class ToolCallReader {
 public:
  struct Part {
    std::string text;
    std::vector<ToolCall> calls;
  };
  Part push(std::string_view text);
  Part finish();  // what was held back

 private:
  void read_outside(Part& part);
  bool read_inside(Part& part);  // false: the end of the call is not there yet
  std::string held_, before_;    // before_: the white space in front of a call
  bool inside_ = false, called_ = false;
};

}  // namespace longhaul
