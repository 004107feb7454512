#include "resiliency/taxonomy/fingerprint.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t length_max = 400;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
// What a word consists of, for names of hosts and for digests.
bool joins(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.';
}

// Where it was when it happened is no part of why.
std::string without_place(std::string_view cause) {
  std::string text(cause);
  constexpr std::string_view begin = ", in section ", middle = " at step ";
  const std::size_t at = text.find(begin);
  if (at == std::string::npos) return text;
  std::size_t end = text.find(middle, at);
  if (end == std::string::npos || text.find(' ', at + begin.size()) != end) return text;
  for (end += middle.size(); end < text.size() && is_digit(text[end]);) ++end;
  return text.erase(at, end - at);
}

bool is_digest(std::string_view word) {
  constexpr std::size_t shortest = 8;
  const auto digits = std::count_if(word.begin(), word.end(), is_digit);
  return word.size() >= shortest && digits > 0 &&
         std::all_of(word.begin(), word.end(), [](char c) { return is_hex(c) || c == '-'; });
}

// Digit runs become `#`; "0x7f..." and digests altogether.
std::string plain_word(std::string_view word) {
  if (is_digest(word)) return "#";
  std::string out;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (!is_digit(word[i])) {
      out += word[i];
      continue;
    }
    if (word[i] == '0' && i + 1 < word.size() && (word[i + 1] == 'x' || word[i + 1] == 'X'))
      for (++i; i + 1 < word.size() && is_hex(word[i + 1]);) ++i;
    while (i + 1 < word.size() && is_digit(word[i + 1])) ++i;
    out += '#';
  }
  return out;
}

bool keeps_its_number(std::string_view word) {
  std::string low(word);
  for (char& c : low) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const char* known : {"signal", "code", "xid", "errno"})
    if (low == known) return true;
  return false;
}

// "#-#-#T#:#" and "#, #, #" are one "#": times, and lists of any length, look the same.
std::string with_runs_joined(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const std::size_t back = out.find_last_not_of(" ,:-./+T");
    if (c == '#' && back != std::string::npos && out[back] == '#')
      out.resize(back + 1);
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string fingerprint(std::string_view cause, const std::vector<std::string>& hosts) {
  const std::string text = without_place(cause);
  std::string out;
  std::string_view before;  // the word before this one
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '/' && i + 1 < text.size() && joins(text[i + 1]) && (i == 0 || !joins(text[i - 1]))) {
      while (i < text.size() && (joins(text[i]) || text[i] == '/')) ++i;
      out += "<path>";
    } else if (joins(c)) {
      std::size_t end = i;
      while (end < text.size() && joins(text[end])) ++end;
      while (end > i + 1 && (text[end - 1] == '.' || text[end - 1] == '-')) --end;  // the end of a sentence
      const std::string_view word = std::string_view(text).substr(i, end - i);
      const bool is_host = std::find(hosts.begin(), hosts.end(), word) != hosts.end();
      out += is_host ? "<host>" : keeps_its_number(before) ? std::string(word) : plain_word(word);
      before = word;
      i = end;
    } else {
      const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
      if (!space || (!out.empty() && out.back() != ' ')) out += space ? ' ' : c;
      ++i;
    }
  }
  out = trim(repair_utf8(with_runs_joined(out)));
  if (out.size() <= length_max) return out;
  std::size_t end = length_max;
  while ((static_cast<unsigned char>(out[end]) & 0xC0) == 0x80) --end;  // not within a character
  return out.substr(0, end);
}

}  // namespace longhaul
