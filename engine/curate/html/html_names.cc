#include "engine/curate/html/html_names.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

namespace longhaul {
namespace {

enum class WordKind { furniture, neutral, negation };

// Parts of a page that are not what its reader came for.
constexpr const char* furniture_words[] = {
    "ad",        "ads",         "advert",         "advertisement", "advertising", "alert",
    "aside",     "attribution", "author",         "authorbio",     "articlemeta", "banner",
    "bio",       "bottom",      "breadcrumb",     "byline",        "caption",     "carousel",
    "catlinks",  "comment",     "complementary",  "contentinfo",   "cookie",      "copyright",
    "credit",    "creditos",    "date",           "dateline",      "disclaimer",  "disqus",
    "docnav",    "editsection", "feedback",       "footer",        "gallery",     "hatnote",
    "indexterm", "infobox",     "legal",          "links",         "login",       "masthead",
    "menu",      "meta",        "metadata",       "modal",         "mostread",    "nav",
    "navbar",    "navfooter",   "navheader",      "navigation",    "newsletter",  "noprint",
    "outbrain",  "pager",       "pagination",     "paywall",       "popular",     "popup",
    "prefooter", "printfooter", "promo",          "promoted",      "promotion",   "rating",
    "readmore",  "recommend",   "recommendation", "recommended",   "reflist",     "rel",
    "related",   "search",      "share",          "sharedaddy",    "sharing",     "sidebar",
    "signup",    "skiplink",    "slideshow",      "sns",           "social",      "socialite",
    "sponsor",   "sponsored",   "sponsorship",    "subscribe",     "subscriber",  "subscription",
    "taboola",   "taglist",     "tags",           "teaser",        "timestamp",   "toc",
    "toolbar",   "tooltip",     "topics",         "trending",      "unsubscribe", "widget",
    "yarpp"};
// Two words that are furniture together.
constexpr std::string_view furniture_pairs[] = {
    "more news",    "most read",    "next post",    "prev post",     "print only",     "print none",
    "print block",  "print header", "print footer", "next prev",     "prev next",      "breaking news",
    "hidden print", "hide print",   "read more",    "screen reader", "side bar",       "sign up",
    "skip link",    "sr only",      "tag list",     "top bar",       "visually hidden"};
// Words that say how a part looks or what it consists of, not what it is about.
constexpr const char* neutral_words[] = {
    "about",   "action",    "actions",   "and",       "area",     "article", "articles", "back",      "bar",
    "block",   "body",      "bottom",    "box",       "button",   "cards",   "card",     "center",    "col",
    "column",  "compact",   "component", "container", "content",  "count",   "cta",      "data",      "default",
    "desktop", "details",   "display",   "div",       "email",    "embed",   "entry",    "facebook",  "feed",
    "first",   "figure",    "fixed",     "float",     "floating", "form",    "full",     "fullwidth", "global",
    "grid",    "group",     "half",      "head",      "header",   "heading", "home",     "icon",      "icons",
    "image",   "img",       "info",      "inline",    "inner",    "item",    "items",    "label",     "large",
    "last",    "latest",    "layout",    "left",      "level",    "link",    "list",     "loader",    "logo",
    "main",    "media",     "medium",    "micro",     "mini",     "mobile",  "module",   "more",      "name",
    "native",  "new",       "news",      "number",    "outer",    "page",    "panel",    "photo",     "plugin",
    "post",    "posts",     "primary",   "profile",   "recent",   "region",  "reply",    "right",     "rss",
    "section", "secondary", "shell",     "show",      "side",     "single",  "site",     "slot",      "small",
    "sticky",  "stories",   "story",     "strip",     "sub",      "super",   "tab",      "tag",       "text",
    "the",     "thumb",     "title",     "tool",      "tools",    "top",     "topic",    "track",     "twitter",
    "unit",    "utility",   "video",     "view",      "wide",     "wrap",    "wrapper",  "zone"};
// "has-sidebar", "page-without-comments": of something else.
constexpr const char* negations[] = {"has", "no", "not", "with", "without"};
constexpr std::string_view content_pairs[] = {"article body", "entry content", "post content",    "story body",
                                              "post body",    "articlebody",   "article content", "storybody"};

const std::unordered_map<std::string_view, WordKind>& word_table() {
  static const auto table = [] {
    std::unordered_map<std::string_view, WordKind> words;
    for (const char* word : furniture_words) words.emplace(word, WordKind::furniture);
    for (const char* word : neutral_words) words.emplace(word, WordKind::neutral);
    for (const char* word : negations) words.emplace(word, WordKind::negation);
    return words;
  }();
  return table;
}

std::optional<WordKind> look_up(std::string_view word) {
  const auto& table = word_table();
  while (!word.empty() && word.back() >= '0' && word.back() <= '9') word.remove_suffix(1);
  if (word.size() <= 2 && word != "ad") return WordKind::neutral;  // prefixes of style sheets: "js-", "c-"
  auto found = table.find(word);
  if (found == table.end() && word.back() == 's') found = table.find(word.substr(0, word.size() - 1));
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

// Two known words written as one: "sharebar", "relatedposts".
std::optional<WordKind> look_up_joined(std::string_view word) {
  if (const auto whole = look_up(word)) return whole;
  for (std::size_t i = 3; i + 3 <= word.size(); ++i) {
    const auto first = look_up(word.substr(0, i)), second = look_up(word.substr(i));
    if (!first || !second || *first == WordKind::negation || *second == WordKind::negation) continue;
    if (*first == WordKind::furniture || *second == WordKind::furniture) return WordKind::furniture;
  }
  return std::nullopt;
}

bool is_pair_of(std::string_view pair, const auto& pairs) {
  return std::any_of(std::begin(pairs), std::end(pairs), [&](std::string_view known) { return pair == known; });
}

NameSays one_name_says(std::string_view name) {
  bool furniture = false;
  int others = 0;  // words that are not known
  std::string_view before;
  for (std::size_t start = 0; start < name.size();) {
    const std::size_t end = std::min(name.find(' ', start), name.size());
    const std::string_view word = name.substr(start, end - start);
    if (is_pair_of(word, content_pairs)) return NameSays::content;
    if (!before.empty()) {
      const std::string_view pair(before.data(), before.size() + 1 + word.size());
      if (is_pair_of(pair, content_pairs)) return NameSays::content;
      if (is_pair_of(pair, furniture_pairs)) {
        furniture = true;
        others -= !look_up_joined(before) + !look_up_joined(word);
      }
    }
    const auto says = look_up_joined(word);
    if (says == WordKind::negation) return NameSays::nothing;
    if (says == WordKind::furniture) furniture = true;
    if (!says) ++others;
    before = word;
    start = end + 1;
  }
  return !furniture ? NameSays::nothing : others > 0 ? NameSays::part : NameSays::furniture;
}

}  // namespace

std::string name_words(std::string_view value) {
  std::string words = "|";
  bool small_before = false;
  for (const char c : value) {
    const bool capital = c >= 'A' && c <= 'Z', small = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    const char last = words.back();
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f') {
      while (words.back() == ' ') words.pop_back();
      if (words.back() != '|') words += '|';
    } else if (!capital && !small) {
      if (last != '|' && last != ' ') words += ' ';
    } else {
      if (capital && small_before) words += ' ';
      words += capital ? static_cast<char>(c + 32) : c;
    }
    small_before = small;
  }
  while (words.back() == ' ') words.pop_back();
  if (words.back() != '|') words += '|';
  return words.size() == 1 ? std::string() : words;
}

NameSays name_says(std::string_view words) {
  NameSays all = NameSays::nothing;
  for (std::size_t start = 0; start < words.size();) {
    const std::size_t end = std::min(words.find('|', start), words.size());
    if (end > start) all = std::max(all, one_name_says(words.substr(start, end - start)));
    start = end + 1;
  }
  return all;
}

bool has_name_word(std::string_view words, std::string_view word) {
  const auto is_edge = [](char c) { return c == ' ' || c == '|'; };
  for (std::size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1)) {
    std::size_t end = at + word.size();
    if (end < words.size() && words[end] == 's') ++end;
    if ((at == 0 || is_edge(words[at - 1])) && (end >= words.size() || is_edge(words[end]))) return true;
  }
  return false;
}

}  // namespace longhaul
