#include "engine/align/reward_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/text/text.h"

namespace longhaul {

namespace {

constexpr std::uint32_t match_steps_max = 1'000'000, match_memory_max_kib = 64 << 10;

std::string pcre2_text(int error) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct RewardPattern::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;
  std::uint32_t groups = 0;
  ~Code() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
};

RewardPattern::RewardPattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
RewardPattern::~RewardPattern() = default;

Result<std::shared_ptr<const RewardPattern>> RewardPattern::compile(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto made = std::make_unique<Code>();
  made->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (made->code == nullptr)
    return make_error(ErrorCode::invalid_input,
                      format("reward.pattern: {} at offset {} of {}", pcre2_text(error), offset, pattern),
                      "a regular expression as PCRE2 has them");
  made->limits = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(made->limits, match_steps_max);
  pcre2_set_heap_limit(made->limits, match_memory_max_kib);
  pcre2_pattern_info(made->code, PCRE2_INFO_CAPTURECOUNT, &made->groups);
  return std::shared_ptr<const RewardPattern>(new RewardPattern(std::move(made)));
}

bool RewardPattern::has_group() const {
  return code_->groups > 0;
}

Result<std::optional<std::string>> RewardPattern::find(std::string_view text) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create_from_pattern(code_->code, nullptr), pcre2_match_data_free);
  const int found = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, match.get(),
                                code_->limits);
  const bool no_text = found <= PCRE2_ERROR_UTF8_ERR1 && found >= PCRE2_ERROR_UTF8_ERR21;
  if (found == PCRE2_ERROR_NOMATCH || no_text) return std::optional<std::string>();
  if (found < 0) return make_error(ErrorCode::unsupported, "reward.pattern: " + pcre2_text(found));
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
  const std::size_t at = has_group() ? 2 : 0;
  if (at > 0 && (found < 2 || ends[at] == PCRE2_UNSET)) return std::optional<std::string>(std::string());
  return std::optional<std::string>(text.substr(ends[at], ends[at + 1] - ends[at]));
}

}  // namespace longhaul
