#include "engine/curate/extract/clean_text.h"

#include "base/text/text.h"
#include "engine/curate/extract/unicode.h"

namespace longhaul {
namespace {

// One line, without its end: the indentation stays, other runs of blanks become one, nothing stands behind.
void append_clean_line(std::string& out, std::string_view line, int& empty_lines) {
  std::string clean;
  bool content = false, blank = false;
  for (std::size_t pos = 0; pos < line.size();) {
    const char32_t c = next_code_point(line, pos);
    if (is_space(c)) {
      if (!content) {
        clean += c == '\t' ? '\t' : ' ';
      } else {
        blank = true;
      }
      continue;
    }
    if (c == 0xFFFD || is_control(c)) continue;
    if (blank) clean += ' ';
    blank = false;
    content = true;
    append_utf8(clean, c);
  }
  if (!content) {
    ++empty_lines;
    return;
  }
  if (!out.empty()) out += empty_lines > 0 ? "\n\n" : "\n";
  empty_lines = 0;
  out += clean;
}

}  // namespace

std::string clean_text(std::string_view raw) {
  const std::string text = normalize_nfc(is_valid_utf8(raw) ? std::string(raw) : repair_utf8(raw));
  std::string out;
  out.reserve(text.size());
  int empty_lines = 0;
  std::size_t start = 0;
  const auto end_line = [&](std::size_t end, std::size_t next) {
    append_clean_line(out, std::string_view(text).substr(start, end - start), empty_lines);
    start = next;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n' || c == '\v' || c == '\f') {
      end_line(i, i + 1);
    } else if (c == '\r') {
      const bool pair = i + 1 < text.size() && text[i + 1] == '\n';
      end_line(i, i + (pair ? 2 : 1));
      if (pair) ++i;
    } else if (text.compare(i, 3, "\xE2\x80\xA8") == 0 || text.compare(i, 3, "\xE2\x80\xA9") == 0) {
      end_line(i, i + 3);
      i += 2;
    } else if (text.compare(i, 2, "\xC2\x85") == 0) {
      end_line(i, i + 2);
      ++i;
    }
  }
  end_line(text.size(), text.size());
  // What was removed may have stood between two characters that now compose.
  return normalize_nfc(out);
}

std::string comparison_key(std::string_view text) {
  std::string key, marks;
  bool gap = false, after_digit = false, after_blank = true;
  char32_t mark = 0;  // the only one since the last letter, digit or blank
  for (std::size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    if (is_word_char(c)) {
      const bool digit = is_digit(c);
      const bool decimal = digit && after_digit && (mark == '.' || mark == ',');
      const bool minus = digit && after_blank && (mark == '-' || mark == 0x2212);
      if (gap && !key.empty() && !decimal) key += ' ';
      if (decimal) append_utf8(key, mark);
      if (minus) key += '-';
      gap = after_blank = false;
      mark = 0;
      after_digit = digit;
      append_utf8(key, to_lower(c));
      continue;
    }
    gap = true;
    if (is_space(c)) {
      after_blank = true;
      after_digit = false;
      mark = 0;
      continue;
    }
    append_utf8(marks, c);
    if (mark == 0 || mark == '(') {
      mark = c;
    } else {
      after_blank = after_digit = false;
    }
  }
  return key.empty() ? marks : key;
}

}  // namespace longhaul
