// Texts as Python's str treats them: white space, characters (code points), quoting. Texts are valid UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// str.isspace of one character.
bool is_python_space(std::uint32_t c);
// Without the characters of `which` at its ends; nullopt: without white space.
std::string strip_text(std::string_view text, bool left, bool right, const std::optional<std::string>& which = {});
std::int64_t count_of_characters(std::string_view text);
std::vector<std::string> characters_of(std::string_view text);
// repr() of a str. Characters whose printing hangs on the version of Unicode are refused.
Result<std::string> quoted_as_python(std::string_view text);
// upper(), title(): of ASCII; lower(), capitalize(): of what text_case.h knows, the first letter of the latter of
// ASCII. Letters beyond are refused.
enum class TextCase { lower, upper, title, capital };
Result<std::string> in_case(const std::string& text, TextCase wanted);

}  // namespace longhaul
