#include "engine/data/tokenizer/pretokenizer.h"

#include "base/text/text.h"
#include "engine/data/tokenizer/utf8.h"

namespace longhaul {

const std::string& pattern_text(PretokenizerPattern pattern) {
  // Constants; their text is part of the tokenizer.json format.
  static const std::string gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  static const std::string llama3 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
      R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
  static const std::string o200k =
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
      R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
      R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  switch (pattern) {
    case PretokenizerPattern::gpt2: return gpt2;
    case PretokenizerPattern::llama3: return llama3;
    case PretokenizerPattern::o200k: return o200k;
  }
  return gpt2;
}

const char* to_string(PretokenizerPattern pattern) {
  switch (pattern) {
    case PretokenizerPattern::gpt2: return "gpt2";
    case PretokenizerPattern::llama3: return "llama3";
    case PretokenizerPattern::o200k: return "o200k";
  }
  return "gpt2";
}

Result<PretokenizerPattern> parse_pretokenizer_pattern(std::string_view name) {
  for (const auto pattern : {PretokenizerPattern::gpt2, PretokenizerPattern::llama3, PretokenizerPattern::o200k})
    if (name == to_string(pattern)) return pattern;
  return make_error(ErrorCode::invalid_input, format("unknown pre-tokenizer pattern '{}'", name),
                    "use gpt2, llama3 or o200k");
}

namespace {

// The hand-written matchers read the text once, left to right, by code point class. Each `end_of_*` function is one
// alternative of the pattern; the order in which they are tried is the order in the pattern.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text), classes_(code_point_classes().data()) {}

  std::size_t size() const { return text_.size(); }
  unsigned char byte(std::size_t at) const { return static_cast<unsigned char>(text_[at]); }

  struct Unit {
    std::uint8_t classes;
    std::uint8_t length;
  };
  Unit unit(std::size_t at) const {
    const unsigned char c = byte(at);
    if (c < 0x80) return {classes_[c], 1};
    const CodePoint point = read_utf8(text_, at);
    return {classes_[point.value], static_cast<std::uint8_t>(point.length)};
  }
  bool is(std::size_t at, std::uint8_t wanted) const { return at < size() && (unit(at).classes & wanted) != 0; }
  bool is_other(std::size_t at) const { return at < size() && unit(at).classes == 0; }
  bool is_newline(std::size_t at) const { return at < size() && (byte(at) == '\n' || byte(at) == '\r'); }

  std::size_t skip(std::size_t at, std::uint8_t wanted) const {
    while (at < size()) {
      const Unit u = unit(at);
      if (!(u.classes & wanted)) break;
      at += u.length;
    }
    return at;
  }
  std::size_t skip_other(std::size_t at) const {
    while (at < size()) {
      const Unit u = unit(at);
      if (u.classes != 0) break;
      at += u.length;
    }
    return at;
  }
  std::size_t skip_newlines(std::size_t at) const {
    while (is_newline(at)) ++at;
    return at;
  }

  // 's 't 're 've 'm 'll 'd behind an apostrophe at `at`; `at` itself if there is none. With `any_case`, the long s
  // (U+017F) folds to s as well.
  std::size_t end_of_contraction(std::size_t at, bool any_case) const {
    const auto letter = [&](std::size_t i) -> char {
      if (i >= size()) return '\0';
      const char c = text_[i];
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    };
    const char a = letter(at + 1), b = letter(at + 2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return at + 2;
    if ((a == 'r' || a == 'v') && b == 'e') return at + 3;
    if (a == 'l' && b == 'l') return at + 3;
    if (any_case && at + 2 < size() && byte(at + 1) == 0xC5 && byte(at + 2) == 0xBF) return at + 3;
    return at;
  }

  // \s+(?!\S)|\s+ : the run without its last code point, unless the text ends there or the run is that code point.
  std::size_t end_of_space(std::size_t at, std::size_t run_end) const {
    if (run_end == size()) return run_end;
    std::size_t last = run_end - 1;
    while ((byte(last) & 0xC0) == 0x80) --last;
    return last > at ? last : run_end;
  }

 private:
  std::string_view text_;
  const std::uint8_t* classes_;
};

std::size_t gpt2_piece(const Scanner& scan, std::size_t at) {
  if (scan.byte(at) == '\'')
    if (const std::size_t end = scan.end_of_contraction(at, false); end > at) return end;
  const std::size_t core = scan.byte(at) == ' ' ? at + 1 : at;
  if (core < scan.size()) {
    const Scanner::Unit u = scan.unit(core);
    if (u.classes & class_letter) return scan.skip(core + u.length, class_letter);
    if (u.classes & class_number) return scan.skip(core + u.length, class_number);
    if (u.classes == 0) return scan.skip_other(core + u.length);
  }
  return scan.end_of_space(at, scan.skip(at, class_space));
}

std::size_t llama3_piece(const Scanner& scan, std::size_t at) {
  if (scan.byte(at) == '\'')
    if (const std::size_t end = scan.end_of_contraction(at, true); end > at) return end;
  const Scanner::Unit first = scan.unit(at);
  // [^\r\n\p{L}\p{N}]?\p{L}+
  if (first.classes & class_letter) return scan.skip(at + first.length, class_letter);
  if (!(first.classes & class_number) && !scan.is_newline(at) && scan.is(at + first.length, class_letter))
    return scan.skip(at + first.length, class_letter);
  // \p{N}{1,3}
  if (first.classes & class_number) {
    std::size_t end = at + first.length;
    for (int more = 0; more < 2 && scan.is(end, class_number); ++more) end += scan.unit(end).length;
    return end;
  }
  //  ?[^\s\p{L}\p{N}]+[\r\n]*
  const std::size_t core = scan.byte(at) == ' ' ? at + 1 : at;
  if (scan.is_other(core)) return scan.skip_newlines(scan.skip_other(core));
  // \s*[\r\n]+ : up to the last newline of the run
  const std::size_t run_end = scan.skip(at, class_space);
  std::size_t last = run_end;
  while (last > at && !scan.is_newline(last - 1)) --last;
  if (last > at) return last;
  return scan.end_of_space(at, run_end);
}

}  // namespace

Result<Pretokenizer> Pretokenizer::create(const std::vector<std::string>& patterns, bool hand_written) {
  Pretokenizer made;
  for (const std::string& pattern : patterns) {
    Step step;
    if (hand_written && pattern == pattern_text(PretokenizerPattern::gpt2)) step.known = PretokenizerPattern::gpt2;
    if (hand_written && pattern == pattern_text(PretokenizerPattern::llama3)) step.known = PretokenizerPattern::llama3;
    if (!step.known) {
      LH_TRY(auto regex, PatternRegex::compile(pattern));
      step.regex.emplace(std::move(regex));
    }
    made.steps_.push_back(std::move(step));
  }
  return made;
}

Status Pretokenizer::split_step(const Step& step, std::string_view text, PatternBudget& budget,
                                std::vector<std::uint32_t>& ends) {
  if (!step.known) return step.regex->split(text, budget, ends);
  const Scanner scan(text);
  const auto piece = *step.known == PretokenizerPattern::gpt2 ? gpt2_piece : llama3_piece;
  for (std::size_t at = 0; at < text.size();) {
    at = piece(scan, at);
    ends.push_back(static_cast<std::uint32_t>(at));
  }
  return {};
}

Status Pretokenizer::split(std::string_view text, PatternBudget& budget, std::vector<std::uint32_t>& ends) const {
  ends.clear();
  if (text.empty()) return {};
  if (steps_.empty()) {
    ends.push_back(static_cast<std::uint32_t>(text.size()));
    return {};
  }
  LH_CHECK(split_step(steps_.front(), text, budget, ends));
  std::vector<std::uint32_t> inner, refined;
  for (std::size_t i = 1; i < steps_.size(); ++i) {
    refined.clear();
    std::uint32_t begin = 0;
    for (const std::uint32_t end : ends) {
      inner.clear();
      LH_CHECK(split_step(steps_[i], text.substr(begin, end - begin), budget, inner));
      for (const std::uint32_t e : inner) refined.push_back(begin + e);
      begin = end;
    }
    ends.swap(refined);
  }
  return {};
}

}  // namespace longhaul
