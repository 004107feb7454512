#include "engine/curate/filter/page_identity.h"

#include <algorithm>
#include <regex>
#include <unordered_set>
#include <vector>

#include "base/text/text.h"

namespace longhaul {
namespace {

// ISO 639-1, and nn/nb beside no.
const std::unordered_set<std::string_view>& language_codes() {
  static const std::unordered_set<std::string_view> codes = {
      "aa", "ab", "ae", "af", "ak", "am", "an", "ar", "as", "av", "ay", "az", "ba", "be", "bg", "bi", "bm", "bn", "bo",
      "br", "bs", "ca", "ce", "ch", "co", "cr", "cs", "cu", "cv", "cy", "da", "de", "dv", "dz", "ee", "el", "en", "eo",
      "es", "et", "eu", "fa", "ff", "fi", "fj", "fo", "fr", "fy", "ga", "gd", "gl", "gn", "gu", "gv", "ha", "he", "hi",
      "ho", "hr", "ht", "hu", "hy", "hz", "ia", "id", "ie", "ig", "ii", "ik", "io", "is", "it", "iu", "ja", "jv", "ka",
      "kg", "ki", "kj", "kk", "kl", "km", "kn", "ko", "kr", "ks", "ku", "kv", "kw", "ky", "la", "lb", "lg", "li", "ln",
      "lo", "lt", "lu", "lv", "mg", "mh", "mi", "mk", "ml", "mn", "mr", "ms", "mt", "my", "na", "nb", "nd", "ne", "ng",
      "nl", "nn", "no", "nr", "nv", "ny", "oc", "oj", "om", "or", "os", "pa", "pi", "pl", "ps", "pt", "qu", "rm", "rn",
      "ro", "ru", "rw", "sa", "sc", "sd", "se", "sg", "si", "sk", "sl", "sm", "sn", "so", "sq", "sr", "ss", "st", "su",
      "sv", "sw", "ta", "te", "tg", "th", "ti", "tk", "tl", "tn", "to", "tr", "ts", "tt", "tw", "ty", "ug", "uk", "ur",
      "uz", "ve", "vi", "vo", "wa", "wo", "xh", "yi", "yo", "za", "zh", "zu"};
  return codes;
}

bool all_letters(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
}

PageIdentity generic_name(const std::string& path) {
  PageIdentity identity;
  std::vector<std::string> kept;
  const auto take_language = [&](const std::string& tag) {
    if (identity.language.empty()) identity.language = tag.substr(0, 2);
  };
  auto parts = split(path, '/');
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    if (is_language_tag(parts[i])) {
      take_language(parts[i]);
    } else {
      kept.push_back(parts[i]);
    }
  }
  std::vector<std::string> name;
  auto pieces = split(parts.back(), '.');
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0 && i + 1 < pieces.size() && is_language_tag(pieces[i])) {
      take_language(pieces[i]);
    } else {
      name.push_back(pieces[i]);
    }
  }
  kept.push_back(join(name, "."));
  identity.page = join(kept, "/");
  return identity;
}

}  // namespace

bool is_language_tag(std::string_view text) {
  if (text.size() < 2 || !language_codes().contains(text.substr(0, 2))) return false;
  if (text.size() == 2) return true;
  if (text[2] != '-' && text[2] != '_') return false;
  const std::string_view region = text.substr(3);
  return (region.size() == 2 || region.size() == 4) && all_letters(region);
}

struct PageNamer::Pattern {
  std::regex regex;
};

PageNamer::PageNamer() = default;
PageNamer::~PageNamer() = default;
PageNamer::PageNamer(PageNamer&&) noexcept = default;
PageNamer& PageNamer::operator=(PageNamer&&) noexcept = default;

Result<PageNamer> PageNamer::create(const std::string& page_key) {
  PageNamer namer;
  if (page_key.empty()) return namer;
  try {
    namer.pattern_ = std::make_unique<Pattern>(Pattern{std::regex(page_key, std::regex::ECMAScript)});
  } catch (const std::regex_error& error) {
    return make_error(
        ErrorCode::invalid_input, format("page_key = \"{}\" is no regular expression: {}", page_key, error.what()),
        "write an ECMAScript expression whose groups name the page, for example \"([^/]+)/html/[^/]+/(.*)\"");
  }
  if (namer.pattern_->regex.mark_count() == 0) {
    return make_error(
        ErrorCode::invalid_input, format("page_key = \"{}\" has no group", page_key),
        "put the parts of the path that name the page in parentheses, for example \"([^/]+)/html/[^/]+/(.*)\"");
  }
  return namer;
}

PageIdentity PageNamer::name(const std::string& path) const {
  PageIdentity identity = generic_name(path);
  std::smatch match;
  if (!pattern_ || !std::regex_search(path, match, pattern_->regex)) return identity;
  std::vector<std::string> parts;
  for (std::size_t i = 1; i < match.size(); ++i) {
    if (match[i].matched) parts.push_back(match[i].str());
  }
  identity.page = join(parts, "/");
  return identity;
}

}  // namespace longhaul
