#include "engine/curate/html/html_edges.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "engine/curate/extract/unicode.h"

namespace longhaul {
namespace {

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

bool ends_sentence(std::string_view text) {
  char32_t last = 0;
  for (std::size_t pos = text.size() > 12 ? text.size() - 12 : 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    if (is_word_char(c) || is_sentence_end(c)) last = c;
  }
  return is_sentence_end(last);
}

// A year from 1900 to 2099, or a time of day: "2019-11-20", "8:21".
bool holds_date(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    if (!is_ascii_digit(text[i])) {
      ++i;
      continue;
    }
    const std::size_t begin = i;
    while (i < text.size() && is_ascii_digit(text[i])) ++i;
    const std::string_view digits = text.substr(begin, i - begin);
    if (digits.size() == 4 && (digits.substr(0, 2) == "19" || digits.substr(0, 2) == "20")) return true;
    if (digits.size() <= 2 && i + 2 < text.size() && text[i] == ':' && is_ascii_digit(text[i + 1]) &&
        is_ascii_digit(text[i + 2]))
      return true;
  }
  return false;
}

// An address of the web or of mail, and nothing else.
bool is_address(std::string_view text) {
  if (text.find(' ') != std::string_view::npos) return false;
  return text.starts_with("http://") || text.starts_with("https://") || text.starts_with("www.") ||
         (text.find('@') != std::string_view::npos && text.find('.') != std::string_view::npos);
}

bool is_copyright_notice(const HtmlBlock& block) {
  if (block.columns > 250) return false;
  std::string lower = block.text;
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  const auto has = [&](const char* part) { return lower.find(part) != std::string::npos; };
  return has("\xC2\xA9") || has("\xE2\x93\x92") || has("all rights reserved");
}

// Words alone, and what stands between them in sentences: no code, no figures.
bool is_wording(std::string_view text) {
  for (std::size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    const bool mark = c == ',' || c == '\'' || c == '"' || c == '-' || c == 0x2019 || c == 0x2014 || is_sentence_end(c);
    if (!mark && !is_space(c) && (!is_word_char(c) || is_digit(c))) return false;
  }
  return true;
}

bool is_plain(const HtmlBlock& block) {
  return block.tag == HtmlTag::other || block.tag == HtmlTag::p;
}

void drop_lines_of_head(std::vector<const HtmlBlock*>& selected) {
  const auto first = std::find_if(selected.begin(), selected.end(), [](const HtmlBlock* block) {
    return !is_heading(block->tag) && (block->columns >= 100 || (block->columns >= 60 && ends_sentence(block->text)));
  });
  if (first == selected.end()) return;  // no paragraph that they could stand above
  const auto is_line = [](const HtmlBlock* block) {
    return block->tag == HtmlTag::other && !ends_sentence(block->text) &&
           (holds_date(block->text) || is_address(block->text));
  };
  selected.erase(std::remove_if(selected.begin(), first, is_line), first);
}

// From how many of the blocks at `end` the page goes on to others, 0 if from none: a paragraph, or a list of links.
std::size_t leads_elsewhere(const std::vector<const HtmlBlock*>& selected, std::size_t end) {
  const HtmlBlock& last = *selected[end - 1];
  if (is_plain(last)) return last.link_density() >= 0.4 || is_address(last.text) || is_copyright_notice(last) ? 1 : 0;
  std::size_t items = 0;
  double links = 0, columns = 0;
  for (; items < end && selected[end - 1 - items]->tag == HtmlTag::li; ++items) {
    links += selected[end - 1 - items]->link_columns;
    columns += selected[end - 1 - items]->columns;
  }
  return items > 0 && links >= 0.4 * columns ? items : 0;
}

void drop_lines_of_end(std::vector<const HtmlBlock*>& selected) {
  std::size_t end = selected.size();
  for (std::size_t count = 1; end > 1 && count > 0;) {
    count = std::min(leads_elsewhere(selected, end), end - 1);
    end -= count;
    // What announced them: "More stories".
    while (count > 0 && end > 1 &&
           (is_heading(selected[end - 1]->tag) ||
            (selected[end - 1]->tag == HtmlTag::other && selected[end - 1]->columns <= 40 &&
             !ends_sentence(selected[end - 1]->text))))
      --end;
  }
  selected.resize(end);
}

// Labels that stand between paragraphs three times and more ("Advertisement"), and sentences outside of paragraphs that
// have been there before (a summary above the text for each width of a screen).
void drop_repetitions(const HtmlTree& tree, std::vector<const HtmlBlock*>& selected) {
  const auto counts_here = [&](const HtmlBlock* block) {
    return block->tag == HtmlTag::other &&
           tree.nodes[static_cast<std::size_t>(block->element)].tag != HtmlTag::summary && is_wording(block->text);
  };
  std::unordered_map<std::string_view, int> counts, seen;
  for (const HtmlBlock* block : selected) {
    if (counts_here(block)) ++counts[block->text];
  }
  std::erase_if(selected, [&](const HtmlBlock* block) {
    const auto count = counts.find(block->text);
    if (count == counts.end() || count->second < 2 || !counts_here(block)) return false;
    if (block->columns <= 25 && block->commas == 0) return count->second >= 3;
    return block->columns >= 40 && block->commas > 0 && seen[block->text]++ > 0;
  });
}

}  // namespace

bool is_label(const HtmlBlock& block) {
  return block.tag == HtmlTag::other && block.columns <= 25 && block.commas == 0 && is_wording(block.text);
}

void drop_edges(const HtmlTree& tree, std::vector<const HtmlBlock*>& selected) {
  drop_repetitions(tree, selected);
  drop_lines_of_head(selected);
  drop_lines_of_end(selected);
}

}  // namespace longhaul
