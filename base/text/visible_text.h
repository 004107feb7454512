// Text of others (files, logs, models, Slurm, people's runs) may hold control characters that a terminal obeys: it sets
// its title or clipboard, goes back over lines, shows text in another order. Here they become characters that are seen.
//
// Escaped are C0 (below U+0020), DEL, C1 (U+0080 to U+009F), line and paragraph separators (U+2028, U+2029) and the
// bidirectional controls (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069), all as \uXXXX: the form that
// JSON reads as the same character, so a JSON document stays valid and says the same. Bytes that are not UTF-8 become
// \xNN. All other text stays as it is.
#pragma once

#include <string>
#include <string_view>

namespace longhaul {

// Newlines and tabs stay.
std::string visible(std::string_view text);
// Newlines and tabs are escaped as well: for a value that stands within a line, which it must not end.
std::string visible_line(std::string_view text);
// As visible(); lines after the first are indented, so that none can pass for a line of the program's own.
std::string visible_paragraph(std::string_view text);

}  // namespace longhaul
