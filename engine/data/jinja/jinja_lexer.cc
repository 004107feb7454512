#include "engine/data/jinja/jinja_lexer.h"

#include <algorithm>
#include <cstdint>

#include "base/text/text.h"
#include "engine/data/jinja/values/jinja_text.h"
#include "engine/data/tokenizer/utf8.h"

namespace longhaul {

Error jinja_error_at(const std::string& name, int line, std::string what, std::string hint) {
  Error error = make_error(ErrorCode::unsupported, std::move(what), std::move(hint));
  error.where = SourcePos{name, line, 0};
  return error;
}

namespace {

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& name, const JinjaSetup& setup) : name_(name), setup_(setup) {
    // Line ends become \n, and one at the very end is dropped.
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
      source_ += source[i] == '\r' ? '\n' : source[i];
    }
    if (!setup_.keep_trailing_newline && !source_.empty() && source_.back() == '\n') source_.pop_back();
  }

  Result<std::vector<JinjaToken>> read() {
    if (!is_valid_utf8(source_)) return jinja_error_at(name_, 1, "the template is not UTF-8");
    while (at_ < source_.size()) LH_CHECK(read_data());
    push(JinjaToken::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  Error wrong(std::string what, std::string hint = {}) const {
    return jinja_error_at(name_, line_, std::move(what), std::move(hint));
  }
  bool here(std::string_view text) const { return source_.compare(at_, text.size(), text) == 0; }
  void push(JinjaToken::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void skip(std::size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes), '\n'));
    at_ += bytes;
  }
  void skip_space() {
    while (at_ < source_.size()) {
      const CodePoint c = read_utf8(source_, at_);
      if (!is_python_space(c.value)) return;
      skip(c.length);
    }
  }
  // Behind "%}" and "#}": "-" takes all white space, "+" nothing, otherwise one line end goes.
  void after_block(char sign) {
    if (sign == '-')
      skip_space();
    else if (setup_.trim_blocks && sign != '+' && at_ < source_.size() && source_[at_] == '\n')
      skip(1);
    line_start_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  void push_data(std::string text, char sign, bool is_block) {
    if (sign == '-') {
      text = strip_text(text, false, true);
    } else if (setup_.lstrip_blocks && sign != '+' && is_block) {
      const std::size_t line = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
      if ((line > 0 || line_start_) && strip_text(std::string_view(text).substr(line), true, false).empty())
        text.resize(line);
    }
    if (!text.empty()) push(JinjaToken::Kind::data, std::move(text));
  }

  Status read_data() {
    std::size_t found = source_.find('{', at_);
    while (found != std::string::npos &&
           (found + 1 >= source_.size() || std::string_view("{%#").find(source_[found + 1]) == std::string_view::npos))
      found = source_.find('{', found + 1);
    if (found == std::string::npos) {
      push(JinjaToken::Kind::data, source_.substr(at_));
      skip(source_.size() - at_);
      return {};
    }
    const char kind = source_[found + 1];
    const char sign = found + 2 < source_.size() ? source_[found + 2] : ' ';
    std::string data = source_.substr(at_, found - at_);
    push_data(std::move(data), sign, kind != '{');
    skip(found - at_ + 2);
    if (sign == '-' || sign == '+') skip(1);
    if (kind == '#') return read_comment();
    if (kind == '%') {
      if (raw_follows()) return read_raw();
      push(JinjaToken::Kind::block_begin, "{%");
      return read_inside('%');
    }
    push(JinjaToken::Kind::print_begin, "{{");
    return read_inside('}');
  }

  Status read_comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string::npos) return wrong("a comment has no end");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    skip(end - at_ + 2);
    after_block(sign);
    return {};
  }

  // "raw" and the end of the block: then what follows is text up to endraw.
  bool raw_follows() {
    std::size_t at = at_;
    const auto spaces = [&] {
      while (at < source_.size() && is_python_space(static_cast<unsigned char>(source_[at]))) ++at;
    };
    spaces();
    if (source_.compare(at, 3, "raw") != 0) return false;
    at += 3;
    spaces();
    const bool strips = at < source_.size() && source_[at] == '-';
    if (strips) ++at;
    if (source_.compare(at, 2, "%}") != 0) return false;
    skip(at + 2 - at_);
    if (strips) skip_space();
    return true;
  }

  Status read_raw() {
    for (std::size_t found = source_.find("{%", at_); found != std::string::npos;
         found = source_.find("{%", found + 2)) {
      std::size_t at = found + 2;
      char before = ' ', behind = ' ';
      if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) before = source_[at++];
      while (at < source_.size() && is_python_space(static_cast<unsigned char>(source_[at]))) ++at;
      if (source_.compare(at, 6, "endraw") != 0) continue;
      at += 6;
      while (at < source_.size() && is_python_space(static_cast<unsigned char>(source_[at]))) ++at;
      if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) behind = source_[at++];
      if (source_.compare(at, 2, "%}") != 0) continue;
      line_start_ = false;
      push_data(source_.substr(at_, found - at_), before, true);
      skip(at + 2 - at_);
      after_block(behind);
      return {};
    }
    return wrong("raw has no endraw");
  }

  Status read_inside(char close) {
    int depth = 0;
    const std::string end = close == '%' ? "%}" : "}}";
    while (true) {
      skip_space();
      if (at_ >= source_.size()) return wrong(format("'{}' is missing", end));
      const char c = source_[at_];
      if (depth == 0) {
        const bool signed_end = (c == '-' || (c == '+' && close == '%')) && source_.compare(at_ + 1, 2, end) == 0;
        if (signed_end || here(end)) {
          push(close == '%' ? JinjaToken::Kind::block_end : JinjaToken::Kind::print_end, end);
          skip(signed_end ? 3 : 2);
          if (close == '%')
            after_block(signed_end ? c : ' ');
          else if (signed_end)
            skip_space();
          if (close != '%') line_start_ = at_ > 0 && source_[at_ - 1] == '\n';
          return {};
        }
      }
      if (is_name_start(c))
        read_name();
      else if (is_digit(c))
        LH_CHECK(read_number());
      else if (c == '"' || c == '\'')
        LH_CHECK(read_text(c));
      else
        LH_CHECK(read_sign(depth));
    }
  }

  void read_name() {
    std::size_t end = at_;
    while (end < source_.size() && (is_name_start(source_[end]) || is_digit(source_[end]))) ++end;
    push(JinjaToken::Kind::name, source_.substr(at_, end - at_));
    skip(end - at_);
  }

  Status read_number() {
    const auto digits = [&](std::size_t from) {
      while (from < source_.size() && is_digit(source_[from])) ++from;
      return from;
    };
    // "a.0.1" takes two items: behind a dot a number has no fraction.
    const bool behind_dot = at_ > 0 && source_[at_ - 1] == '.';
    std::size_t end = digits(at_);
    bool whole = true;
    const auto at = [&](std::size_t i) { return i < source_.size() ? source_[i] : ' '; };
    if (!behind_dot && at(end) == '.' && is_digit(at(end + 1))) whole = false, end = digits(end + 1);
    if (!behind_dot && (at(end) == 'e' || at(end) == 'E')) {
      const std::size_t first = at(end + 1) == '-' || at(end + 1) == '+' ? end + 2 : end + 1;
      if (is_digit(at(first))) whole = false, end = digits(first);
    }
    if (is_name_start(at(end))) return wrong("a number is written in a form that is not read", "write it in decimal");
    push(whole ? JinjaToken::Kind::integer : JinjaToken::Kind::number, source_.substr(at_, end - at_));
    skip(end - at_);
    return {};
  }

  Status read_text(char quote) {
    std::string out;
    std::size_t at = at_ + 1;
    for (; at < source_.size() && source_[at] != quote; ++at) {
      if (source_[at] != '\\') {
        out += source_[at];
        continue;
      }
      if (++at >= source_.size()) break;
      LH_CHECK(read_escape(at, out));
    }
    if (at >= source_.size()) return wrong("a text has no end");
    push(JinjaToken::Kind::text, std::move(out));
    skip(at + 1 - at_);
    return {};
  }

  // As Python's unicode-escape; `at` is at the letter behind the backslash and ends at the last one.
  Status read_escape(std::size_t& at, std::string& out) {
    static constexpr std::string_view from = "ntr\\'\"abfv", to = "\n\t\r\\'\"\a\b\f\v";
    const char c = source_[at];
    if (c == '\n') return {};
    if (const std::size_t known = from.find(c); known != std::string_view::npos) {
      out += to[known];
      return {};
    }
    const std::size_t wide = c == 'x' ? 2 : (c == 'u' ? 4 : (c == 'U' ? 8 : 0));
    if (c == 'N' || is_digit(c)) return wrong(format("the escape \\{} is not read", c), "write the character itself");
    if (wide == 0) {
      out += '\\';
      out += c;
      return {};
    }
    std::uint32_t value = 0;
    for (std::size_t i = 1; i <= wide; ++i) {
      const char digit = at + i < source_.size() ? source_[at + i] : ' ';
      const std::size_t which = std::string_view("0123456789abcdef").find(static_cast<char>(digit | 0x20));
      if (which == std::string_view::npos) return wrong(format("the escape \\{} has too few digits", c));
      value = value << 4 | static_cast<std::uint32_t>(which);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
      return wrong(format("the escape \\{} is not a character", c));
    append_utf8(out, value);
    at += wide;
    return {};
  }

  Status read_sign(int& depth) {
    for (const std::string_view sign : {"//", "**", "==", "!=", ">=", "<="})
      if (here(sign)) {
        push(JinjaToken::Kind::sign, std::string(sign));
        skip(2);
        return {};
      }
    const char c = source_[at_];
    if (std::string_view("+-/*%~[](){}><=.:|,").find(c) == std::string_view::npos)
      return wrong(format("'{}' is not expected", source_.substr(at_, read_utf8(source_, at_).length)));
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') {
      if (depth == 0) return wrong(format("'{}' closes nothing", c));
      --depth;
    }
    push(JinjaToken::Kind::sign, std::string(1, c));
    skip(1);
    return {};
  }

  const std::string& name_;
  const JinjaSetup setup_;
  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_start_ = true;  // nothing of its line stands before at_
  std::vector<JinjaToken> tokens_;
};

}  // namespace

Result<std::vector<JinjaToken>> jinja_tokens(std::string_view source, const std::string& name,
                                             const JinjaSetup& setup) {
  return Lexer(source, name, setup).read();
}

}  // namespace longhaul
