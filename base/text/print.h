// Where the programs write to their standard output and error: all of it passes visible() (base/text/visible_text.h),
// so what strangers wrote cannot give orders to a terminal. `scripts/check` (rule `output`) finds other ways out.
#pragma once

#include <cstdio>
#include <string_view>

#include "base/text/text.h"

namespace longhaul {

// Writes visible(text); false when the stream takes no more.
bool print_text(std::FILE* stream, std::string_view text);

template <class... Values>
bool print(std::FILE* stream, fmt::format_string<Values...> text, Values&&... values) {
  return print_text(stream, fmt::format(text, std::forward<Values>(values)...));
}

// As they are: what a program or a file takes in (a log sent into a pipe, a script), and text with the program's own
// control sequences, whose foreign parts were made visible when it was put together.
bool print_bytes(std::FILE* stream, std::string_view bytes);

}  // namespace longhaul
