#include "engine/data/tokenizer/pattern_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <span>

#include "base/text/text.h"
#include "base/text/visible_text.h"
#include "engine/data/tokenizer/unicode_additions.h"
#include "engine/data/tokenizer/utf8.h"

namespace longhaul {
namespace {

constexpr CodePointRange white_space_ranges[] = {{0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                                 {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                                 {0x205F, 0x205F}, {0x3000, 0x3000}};

std::string ranges_text(std::span<const CodePointRange> ranges) {
  std::string text;
  for (const CodePointRange& r : ranges)
    if (r.first <= r.last) text += format("\\x{{{:X}}}-\\x{{{:X}}}", r.first, r.last);
  return text;
}

std::span<const CodePointRange> additions(std::string_view name) {
  if (name == "L") return added_L;
  if (name == "Lu") return added_Lu;
  if (name == "Ll") return added_Ll;
  if (name == "Lt") return added_Lt;
  if (name == "Lm") return added_Lm;
  if (name == "Lo") return added_Lo;
  if (name == "M") return added_M;
  if (name == "N") return added_N;
  return {};
}

// What stands for the escape at pattern[at] inside a character class, and how many bytes it took; "" = leave as it is.
struct Escape {
  std::string members;
  bool negated = false;
  std::size_t length = 0;
};
Escape read_escape(std::string_view pattern, std::size_t at) {
  const char kind = at + 1 < pattern.size() ? pattern[at + 1] : '\0';
  if (kind == 's' || kind == 'S') return {ranges_text(white_space_ranges), kind == 'S', 2};
  if ((kind == 'p' || kind == 'P') && at + 2 < pattern.size() && pattern[at + 2] == '{') {
    const std::size_t close = pattern.find('}', at);
    if (close != std::string_view::npos) {
      const std::string_view name = pattern.substr(at + 3, close - at - 3);
      const auto added = additions(name);
      if (!added.empty()) return {format("\\p{{{}}}", name) + ranges_text(added), kind == 'P', close + 1 - at};
    }
  }
  return {{}, false, 2};
}

// Rewrites \s, \S and the named properties so that they mean what the reference means.
Result<std::string> with_reference_unicode(const std::string& pattern) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size();) {
    const char c = pattern[i];
    if (c == '\\') {
      if (pattern.substr(i, 2) == "\\K")
        return make_error(ErrorCode::unsupported,
                          format("pattern '{}': \\K moves the beginning of a match", visible_line(pattern)),
                          "write what stands before it as a lookbehind, (?<=...)");
      const Escape escape = read_escape(pattern, i);
      if (escape.members.empty()) {
        out += pattern.substr(i, escape.length);
      } else if (!in_class) {
        out += (escape.negated ? "[^" : "[") + escape.members + "]";
      } else if (!escape.negated) {
        out += escape.members;
      } else {
        return make_error(
            ErrorCode::unsupported,
            format("pattern '{}': {} inside a character class", pattern, pattern.substr(i, escape.length)),
            "write the class without a negated escape");
      }
      i += escape.length;
      continue;
    }
    if (c == '[' && !in_class)
      in_class = true;
    else if (c == ']' && in_class)
      in_class = false;
    out += c;
    ++i;
  }
  return out;
}

// The limits of one position are far above what the budget of a text allows (match, depth) or a text needs (heap).
constexpr std::uint32_t match_limit = 100'000'000, depth_limit = 1'000'000, heap_limit_kib = 64 << 10;
constexpr std::size_t jit_stack_bytes_max = 1 << 20;

// What PCRE2 works with beside the pattern; one per thread, because making it costs more than most matches.
class MatchSpace {
 public:
  MatchSpace()
      : context_(pcre2_match_context_create(nullptr)),
        data_(pcre2_match_data_create(1, nullptr)),
        stack_(pcre2_jit_stack_create(32 << 10, jit_stack_bytes_max, nullptr)) {
    LH_ASSERT(context_ && data_, "no memory for a match");
    pcre2_set_match_limit(context_, match_limit);
    pcre2_set_depth_limit(context_, depth_limit);
    pcre2_set_heap_limit(context_, heap_limit_kib);
    if (stack_) pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
  ~MatchSpace() {
    pcre2_match_data_free(data_);
    pcre2_match_context_free(context_);
    pcre2_jit_stack_free(stack_);
  }
  MatchSpace(const MatchSpace&) = delete;
  MatchSpace& operator=(const MatchSpace&) = delete;
  pcre2_match_context* context() { return context_; }
  pcre2_match_data* data() { return data_; }

 private:
  pcre2_match_context* context_;
  pcre2_match_data* data_;
  pcre2_jit_stack* stack_;  // may be null: no JIT on this machine
};

constexpr int budget_is_spent = -10'000;  // none of PCRE2's own numbers

struct StepCount {
  PatternBudget& budget;
  PCRE2_SIZE last;  // where the text was read last
};

// Called by PCRE2 before every item of the pattern.
int count_step(pcre2_callout_block* block, void* step_count) {
  auto& count = *static_cast<StepCount*>(step_count);
  const PCRE2_SIZE now = block->current_position;
  const std::uint64_t cost = 1 + (now > count.last ? now - count.last : count.last - now);
  count.last = now;
  if (count.budget.steps_left < cost) return budget_is_spent;
  count.budget.steps_left -= cost;
  return 0;
}

std::string message_of(int pcre2_error) {
  if (pcre2_error == budget_is_spent) return "takes too many steps";
  PCRE2_UCHAR message[256] = {};
  pcre2_get_error_message(pcre2_error, message, sizeof message);
  return std::string("fails (") + reinterpret_cast<const char*>(message) + ")";
}

Error split_error(const std::string& pattern, const std::string& what, std::string_view text, std::size_t at) {
  std::size_t end = std::min(at + 40, text.size());
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return make_error(ErrorCode::unsupported,
                    format("pattern '{}' of the tokenizer {} at byte {} of {}: '{}'", visible_line(pattern), what, at,
                           text.size(), visible_line(text.substr(at, end - at))),
                    "use another tokenizer, or leave this text out");
}

}  // namespace

struct PatternRegex::Code {
  std::string pattern;  // as it was written
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

PatternRegex::PatternRegex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
PatternRegex::~PatternRegex() = default;
PatternRegex::PatternRegex(PatternRegex&&) noexcept = default;
PatternRegex& PatternRegex::operator=(PatternRegex&&) noexcept = default;

Result<PatternRegex> PatternRegex::compile(const std::string& pattern) {
  if (pattern.size() > pattern_bytes_max)
    return make_error(ErrorCode::unsupported,
                      format("a pattern of {} bytes; at most {} are read", pattern.size(), pattern_bytes_max));
  LH_TRY(const std::string rewritten, with_reference_unicode(pattern));
  int error_code = 0;
  PCRE2_SIZE error_offset = 0;
  auto code = std::make_unique<Code>();
  code->pattern = pattern;
  constexpr std::uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT;
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(), options, &error_code,
                             &error_offset, nullptr);
  if (!code->code) {
    PCRE2_UCHAR message[256] = {};
    pcre2_get_error_message(error_code, message, sizeof message);
    return make_error(ErrorCode::unsupported, format("pattern '{}' cannot be used: {}", visible_line(pattern),
                                                     reinterpret_cast<const char*>(message)));
  }
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);  // without JIT on this machine: interpreted, same matches
  return PatternRegex(std::move(code));
}

Status PatternRegex::split(std::string_view text, PatternBudget& budget, std::vector<std::uint32_t>& ends) const {
  static thread_local MatchSpace space;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  StepCount steps{budget, 0};
  pcre2_set_callout(space.context(), count_step, &steps);
  std::size_t at = 0;     // where the search goes on
  std::size_t taken = 0;  // end of the last piece
  while (at < text.size()) {
    // An empty match would make no progress, so it is asked to be non-empty.
    constexpr std::uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    steps.last = at;
    int found = pcre2_match(code_->code, subject, text.size(), at, options, space.data(), space.context());
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
      found = pcre2_match(code_->code, subject, text.size(), at, options | PCRE2_NO_JIT, space.data(), space.context());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) return split_error(code_->pattern, message_of(found), text, at);
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(space.data());
    if (range[0] < taken || range[1] <= range[0]) return split_error(code_->pattern, "makes no progress", text, at);
    if (range[0] > taken) ends.push_back(static_cast<std::uint32_t>(range[0]));
    ends.push_back(static_cast<std::uint32_t>(range[1]));
    at = taken = range[1];
  }
  if (taken < text.size()) ends.push_back(static_cast<std::uint32_t>(text.size()));
  return {};
}

namespace {

std::vector<std::uint8_t> build_classes() {
  std::string all;
  std::vector<std::uint32_t> point_at;  // byte offset -> code point
  for (std::uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    append_utf8(all, c);
    point_at.resize(all.size(), c);
  }
  std::vector<std::uint8_t> classes(0x110000, 0);
  const auto mark = [&](const char* pattern, std::uint8_t bit) {
    Result<PatternRegex> regex = PatternRegex::compile(pattern);
    LH_ASSERT(regex.ok(), pattern);
    std::vector<std::uint32_t> ends;
    PatternBudget budget(all.size());
    const Status done = regex->split(all, budget, ends);
    LH_ASSERT(done.ok(), pattern);
    // U+0000 is in none of the classes, so pieces alternate: outside, inside, outside, ...
    for (std::size_t i = 1; i < ends.size(); i += 2)
      for (std::uint32_t b = ends[i - 1]; b < ends[i]; ++b) classes[point_at[b]] |= bit;
  };
  mark("\\p{L}+", class_letter);
  mark("\\p{N}+", class_number);
  mark("\\s+", class_space);
  return classes;
}

}  // namespace

const std::vector<std::uint8_t>& code_point_classes() {
  static const std::vector<std::uint8_t> classes = build_classes();  // constant once built
  return classes;
}

}  // namespace longhaul
