// A template's text as tokens, by the rules of Jinja 3.1. With trim_blocks and lstrip_blocks, which is how chat
// templates are meant to be read (transformers sets both), the first line end behind a block is dropped, blanks before
// one too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"
#include "engine/data/jinja/jinja_setup.h"

namespace longhaul {

struct JinjaToken {
  enum class Kind { data, block_begin, block_end, print_begin, print_end, name, text, integer, number, sign, end };
  Kind kind = Kind::end;
  std::string text;  // of data and texts what they say; of the others how they are written
  int line = 1;
  bool is(Kind wanted, std::string_view what) const { return kind == wanted && text == what; }
};

// `name` stands in errors, with the line.
Result<std::vector<JinjaToken>> jinja_tokens(std::string_view source, const std::string& name,
                                             const JinjaSetup& setup = {});

Error jinja_error_at(const std::string& name, int line, std::string what, std::string hint = {});

}  // namespace longhaul
