#include "engine/data/patterns/answer_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/text/text.h"

namespace longhaul {

namespace {

constexpr std::uint32_t search_steps_max = 1'000'000, search_memory_max_kib = 64 << 10;

std::string pattern_problem(int error) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct AnswerPattern::Code {
  std::string pattern;
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;
  std::uint32_t groups = 0;
  ~Code() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
};

AnswerPattern::AnswerPattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
AnswerPattern::~AnswerPattern() = default;
AnswerPattern::AnswerPattern(AnswerPattern&&) noexcept = default;
AnswerPattern& AnswerPattern::operator=(AnswerPattern&&) noexcept = default;

Result<AnswerPattern> AnswerPattern::compile(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto made = std::make_unique<Code>();
  made->pattern = pattern;
  made->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (made->code == nullptr)
    return make_error(ErrorCode::invalid_input,
                      format("{} at offset {} of {}", pattern_problem(error), offset, pattern),
                      "a regular expression as PCRE2 has them");
  made->limits = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(made->limits, search_steps_max);
  pcre2_set_heap_limit(made->limits, search_memory_max_kib);
  pcre2_pattern_info(made->code, PCRE2_INFO_CAPTURECOUNT, &made->groups);
  return AnswerPattern(std::move(made));
}

bool AnswerPattern::has_group() const {
  return code_->groups > 0;
}

Result<std::optional<std::string>> AnswerPattern::find(std::string_view text) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create_from_pattern(code_->code, nullptr), pcre2_match_data_free);
  const int found = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, match.get(),
                                code_->limits);
  const bool no_text = found <= PCRE2_ERROR_UTF8_ERR1 && found >= PCRE2_ERROR_UTF8_ERR21;
  if (found == PCRE2_ERROR_NOMATCH || no_text) return std::optional<std::string>();
  if (found < 0)
    return make_error(ErrorCode::unsupported, format("{} with {}", pattern_problem(found), code_->pattern));
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
  const std::size_t at = has_group() ? 2 : 0;
  if (at > 0 && (found < 2 || ends[at] == PCRE2_UNSET)) return std::optional<std::string>(std::string());
  return std::optional<std::string>(text.substr(ends[at], ends[at + 1] - ends[at]));
}

template <class Found>
Status AnswerPattern::search(std::string_view text, const Found& found) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create_from_pattern(code_->code, nullptr), pcre2_match_data_free);
  std::uint32_t options = 0;
  for (PCRE2_SIZE at = 0; at <= text.size();) {
    const int result = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, options,
                                   match.get(), code_->limits);
    if (result == PCRE2_ERROR_NOMATCH) {
      if (options == 0) return {};
      // Behind an empty match there is no other one at the same place: on by a character.
      do ++at;
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
      options = 0;
      continue;
    }
    if (result < 0)
      return make_error(ErrorCode::unsupported, format("{} with {}", pattern_problem(result), code_->pattern));
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
    found(ends, result);
    at = ends[1];
    options = ends[0] == ends[1] ? PCRE2_NOTEMPTY_ATSTART | PCRE2_ANCHORED : 0;
  }
  return {};
}

Result<std::vector<std::vector<std::string>>> AnswerPattern::find_all(std::string_view text) const {
  std::vector<std::vector<std::string>> all;
  LH_CHECK(search(text, [&](const PCRE2_SIZE* ends, int pairs) {
    std::vector<std::string> groups;
    for (std::uint32_t i = code_->groups > 0 ? 1 : 0; i <= code_->groups; ++i) {
      const bool set = static_cast<int>(i) < pairs && ends[2 * i] != PCRE2_UNSET;
      groups.emplace_back(set ? text.substr(ends[2 * i], ends[2 * i + 1] - ends[2 * i]) : std::string_view());
    }
    all.push_back(std::move(groups));
  }));
  return all;
}

Result<std::vector<std::string>> AnswerPattern::split(std::string_view text) const {
  std::vector<std::string> pieces;
  std::size_t from = 0;
  LH_CHECK(search(text, [&](const PCRE2_SIZE* ends, int) {
    pieces.emplace_back(text.substr(from, ends[0] - from));
    from = ends[1];
  }));
  pieces.emplace_back(text.substr(from));
  return pieces;
}

Result<std::string> AnswerPattern::without(std::string_view text) const {
  std::string kept;
  std::size_t from = 0;
  LH_CHECK(search(text, [&](const PCRE2_SIZE* ends, int) {
    kept += text.substr(from, ends[0] - from);
    from = ends[1];
  }));
  return kept += text.substr(from);
}

}  // namespace longhaul
