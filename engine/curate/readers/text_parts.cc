#include "engine/curate/readers/text_parts.h"

namespace longhaul {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// U+3000 to U+9FFF begin so.
bool begins_ideograph(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0xE3 && byte <= 0xE9;
}

// Where the word number words_max + 1 begins; the size of `text` where there is none.
std::size_t end_of_words(std::string_view text, std::int64_t words_max) {
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = begins_ideograph(text[i]) || (!inside && !is_blank(text[i]));
    if (begins && ++words > words_max) return i;
    inside = !is_blank(text[i]);
  }
  return text.size();
}

std::size_t end_of_part(std::string_view text, std::size_t most) {
  for (const std::string_view mark : {std::string_view("\n\n"), std::string_view("\n"), std::string_view(" ")}) {
    const std::size_t found = text.substr(0, most).rfind(mark);
    if (found != std::string_view::npos && found > most / 2) return found;
  }
  return most;
}

}  // namespace

std::vector<std::string_view> text_parts(std::string_view text, std::int64_t words_max) {
  if (words_max <= 0 || end_of_words(text, words_max) == text.size()) return {text};
  std::vector<std::string_view> parts;
  const std::int64_t most = words_max / 2 > 0 ? words_max / 2 : 1;
  while (!text.empty()) {
    const std::size_t limit = end_of_words(text, most);
    const std::size_t end = limit == text.size() ? limit : end_of_part(text, limit);
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  }
  return parts;
}

}  // namespace longhaul
