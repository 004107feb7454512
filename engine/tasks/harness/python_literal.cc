#include "engine/tasks/harness/python_literal.h"

#include <charconv>
#include <string>

#include "base/text/text.h"
#include "engine/data/tokenizer/utf8.h"

namespace longhaul {
namespace {

constexpr int literal_levels_max = 64;

class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  Result<Value> read() {
    LH_TRY(Value value, value_at(0));
    skip_space();
    if (at_ < text_.size()) return wrong("something follows the value");
    return value;
  }

 private:
  Error wrong(const std::string& what) const {
    return make_error(ErrorCode::invalid_input,
                      format("{} at byte {} of {}", what, at_, std::string(text_.substr(0, 200))));
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || (text_[at_] >= '\t' && text_[at_] <= '\r'))) ++at_;
  }
  bool take(std::string_view what) {
    if (text_.substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }
  bool take_sign(char sign) {
    skip_space();
    return take(std::string_view(&sign, 1));
  }

  Result<Value> value_at(int level) {
    if (level > literal_levels_max) return wrong("nested too deep");
    skip_space();
    if (at_ >= text_.size()) return wrong("a value is missing");
    const char c = text_[at_];
    if (c == '[' || c == '(') return list(c == '[' ? ']' : ')', level);
    if (c == '{') return table(level);
    if (c == '"' || c == '\'') return texts();
    if (take("None")) return Value();
    if (take("True")) return Value(true);
    if (take("False")) return Value(false);
    return number();
  }

  Result<Value> list(char end, int level) {
    ++at_;
    Value made = Value::make_array();
    bool comma = false;
    while (!take_sign(end)) {
      if (made.size() > 0 && !comma) return wrong("',' is missing");
      LH_TRY(Value value, value_at(level + 1));
      made.push_back(std::move(value));
      comma = take_sign(',');
    }
    // (x) is x, (x,) a tuple.
    if (end == ')' && made.size() == 1 && !comma) return Value(made.as_array().front());
    return made;
  }

  Result<Value> table(int level) {
    ++at_;
    Value made = Value::make_table();
    bool comma = true;
    while (!take_sign('}')) {
      if (!comma) return wrong("',' is missing");
      LH_TRY(const Value key, value_at(level + 1));
      if (!key.is_string()) return wrong("a key is no text");
      if (!take_sign(':')) return wrong("':' is missing");
      LH_TRY(Value value, value_at(level + 1));
      made.set(key.as_string(), std::move(value));
      comma = take_sign(',');
    }
    return made;
  }

  // Texts beside each other are one.
  Result<Value> texts() {
    std::string whole;
    while (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      const std::string_view triple = text_[at_] == '"' ? "\"\"\"" : "'''";
      const std::string_view quote = text_.substr(at_, 3) == triple ? triple : triple.substr(0, 1);
      at_ += quote.size();
      while (!take(quote)) {
        if (at_ >= text_.size() || (quote.size() == 1 && text_[at_] == '\n')) return wrong("a text has no end");
        if (text_[at_] == '\\')
          LH_CHECK(escape(whole));
        else
          whole += text_[at_++];
      }
      skip_space();
    }
    return Value(std::move(whole));
  }

  Status escape(std::string& out) {
    static constexpr std::string_view from = "ntr\\'\"abfv", to = "\n\t\r\\'\"\a\b\f\v";
    if (++at_ >= text_.size()) return wrong("a text has no end");
    const char c = text_[at_++];
    if (c == '\n') return {};
    if (const std::size_t known = from.find(c); known != std::string_view::npos) {
      out += to[known];
      return {};
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      if (c == 'N' || (c >= '0' && c <= '7')) return wrong("an escape of this kind is not read");
      out += '\\', out += c;
      return {};
    }
    std::uint32_t value = 0;
    const std::string_view written = text_.substr(at_, digits);
    const auto read = std::from_chars(written.data(), written.data() + written.size(), value, 16);
    if (written.size() != digits || read.ptr != written.data() + digits || value > 0x10FFFF ||
        (value >= 0xD800 && value < 0xE000))
      return wrong("an escape is no character");
    append_utf8(out, value);
    at_ += digits;
    return {};
  }

  Result<Value> number() {
    std::size_t end = at_;
    while (end < text_.size() && std::string_view("+-.0123456789eE_").find(text_[end]) != std::string_view::npos) ++end;
    std::string written(text_.substr(at_, end - at_));
    std::erase(written, '_');
    if (!written.empty() && written.front() == '+') written.erase(0, 1);
    const char* const first = written.data();
    const char* const last = first + written.size();
    std::int64_t whole = 0;
    double broken = 0;
    Value made;
    if (const auto read = std::from_chars(first, last, whole); read.ec == std::errc() && read.ptr == last)
      made = Value(whole);
    else if (const auto other = std::from_chars(first, last, broken); other.ec == std::errc() && other.ptr == last)
      made = Value(broken);
    else
      return wrong("no value that Python writes");
    at_ = end;
    return made;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<Value> python_literal(std::string_view text) {
  return LiteralReader(text).read();
}

}  // namespace longhaul
