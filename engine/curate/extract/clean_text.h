// Room engine/curate/extract
// Bytes of documents as clean Unicode: which encoding a page has, what is normalised, what is not text.
// charset.h finds and converts encodings, unicode.h has the properties of letters, clean_text.h puts them together.
// It knows no HTML (engine/curate/html) and drops no document: filters do.
//
// Text as it should stand in a corpus, whatever its source did to it.
#pragma once

#include <string>
#include <string_view>

namespace longhaul {

// Valid UTF-8 in normal form C; lines end with \n (from \r\n, \r, U+2028, U+0085); control and format characters,
// private use, non-characters and U+FFFD are gone, as are blanks at line ends; every other Unicode blank is a space, a
// tab stays; never more than one empty line in a row, none at the start or end. Runs of blanks inside a line become
// one, except the indentation (code). Idempotent. Any bytes are accepted.
std::string clean_text(std::string_view text);

// What is compared when two texts are asked to say the same: case folded, letters, marks and digits only, words
// separated by one blank; numbers keep their sign and their point or comma ("-1.5" is not "15"). Text without any
// letter or digit keeps its other marks, without blanks.
std::string comparison_key(std::string_view text);

}  // namespace longhaul
