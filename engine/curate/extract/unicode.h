// What the curation room needs of Unicode: decoding, normal form C, case folding, and a few questions about one code
// point. The only file that knows ICU is unicode.cc; ASCII never reaches it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

// The code point at `pos`, which moves behind it. Ill-formed bytes give U+FFFD and move by at least one byte.
char32_t next_code_point(std::string_view text, std::size_t& pos);
void append_utf8(std::string& text, char32_t code_point);

// Bytes in the named charset as valid UTF-8; "" when ICU does not know the name. Ill-formed input becomes U+FFFD.
std::string convert_to_utf8(std::string_view bytes, const std::string& charset);
bool is_known_charset(const std::string& charset);

// Normal form C (Unicode Standard Annex 15) of valid UTF-8.
std::string normalize_nfc(std::string_view text);

// Letters, marks and digits: what is left of a text when one asks whether two texts say the same.
bool is_word_char(char32_t c);
bool is_letter(char32_t c);
bool is_digit(char32_t c);
bool is_space(char32_t c);      // every Unicode white space, also U+00A0 and U+3000
bool is_control(char32_t c);    // Cc, Cf other than joiners, surrogates, private use, non-characters
char32_t to_lower(char32_t c);  // simple case folding
// Scripts that write words without blanks between them: Han, Hiragana, Katakana, Thai, Lao, Khmer, Myanmar. (Tibetan
// puts a mark behind each syllable.)
bool is_unspaced_script(char32_t c);
// Of them those whose words a dictionary has to find: Thai, Lao, Khmer, Myanmar.
bool is_dictionary_script(char32_t c);
// Marks that end a sentence in some script: . ! ? and their relatives, closing quotes not included. The property
// Sentence_Terminal of Unicode (UAX 29), and what it leaves to languages: the shads of Tibetan, paragraph ends of Khmer
// and Thai, the ellipsis.
bool is_sentence_end(char32_t c);
// Where the words of `text` end, in bytes, rising; the last is its size. By ICU (UAX 29 with its dictionaries). `text`
// is valid UTF-8 below 2 GiB.
std::vector<std::uint32_t> word_ends(std::string_view text);
// 2 for wide (East Asian) code points, 0 for combining marks, else 1.
int display_columns(char32_t c);
std::int64_t display_columns(std::string_view text);

}  // namespace longhaul
