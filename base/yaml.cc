#include "base/yaml.h"

#include <yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr int levels_max = 64;
constexpr std::size_t values_max = 100'000;

class YamlEvent {
 public:
  explicit YamlEvent(yaml_parser_t& parser) : fine_(yaml_parser_parse(&parser, &event_) != 0) {}
  ~YamlEvent() {
    if (fine_) yaml_event_delete(&event_);
  }
  YamlEvent(const YamlEvent&) = delete;
  YamlEvent& operator=(const YamlEvent&) = delete;
  bool fine() const { return fine_; }
  yaml_event_type_t type() const { return event_.type; }
  const yaml_event_t& operator*() const { return event_; }
  const yaml_event_t* operator->() const { return &event_; }

 private:
  yaml_event_t event_ = {};
  bool fine_;
};

const char* text_of(const yaml_char_t* text) {
  return text == nullptr ? "" : reinterpret_cast<const char*>(text);
}

bool is_one_of(const std::string& text, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return text == name; });
}

bool only(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

// 12:30 and 1:02:03.5, which YAML 1.1 counts in sixties.
bool is_base_60(std::string_view body) {
  const std::size_t colon = body.find(':');
  return colon != std::string_view::npos && colon > 0 && only(body, "0123456789_:.") && body.back() != ':';
}

// Digits without '_'; nothing where it is no whole number. `fits` is false where it is one beyond 64 bits.
std::optional<std::int64_t> whole_number(std::string_view text, bool& fits) {
  const bool negative = text.front() == '-';
  if (negative || text.front() == '+') text.remove_prefix(1);
  int base = 10;
  if (text.size() > 2 && (text.starts_with("0x") || text.starts_with("0b"))) {
    base = text[1] == 'x' ? 16 : 2;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text.front() == '0') {
    base = 8;
    text.remove_prefix(1);
  }
  const std::string_view digits = base == 16 ? "0123456789abcdefABCDEF_" : base == 8 ? "01234567_" : "0123456789_";
  if (!only(text, base == 2 ? "01_" : digits) || (base == 10 && text.front() == '_')) return std::nullopt;
  std::string plain(text);
  std::erase(plain, '_');
  if (plain.empty()) return std::nullopt;
  std::uint64_t value = 0;
  const auto read = std::from_chars(plain.data(), plain.data() + plain.size(), value, base);
  const auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  fits = read.ec == std::errc() && value <= most;
  return negative ? -static_cast<std::int64_t>(value) : static_cast<std::int64_t>(value);
}

// With a point, as YAML 1.1 asks; an exponent has a sign.
std::optional<double> broken_number(std::string_view text) {
  const bool negative = text.front() == '-';
  if (negative || text.front() == '+') text.remove_prefix(1);
  if (text == ".inf" || text == ".Inf" || text == ".INF")
    return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  const std::size_t e = text.find_first_of("eE");
  const std::string_view mantissa = text.substr(0, e);
  if (!only(mantissa, "0123456789_.") || std::count(mantissa.begin(), mantissa.end(), '.') != 1 || mantissa == ".")
    return std::nullopt;
  if (mantissa.front() == '_') return std::nullopt;
  if (e != std::string_view::npos) {
    const std::string_view exponent = text.substr(e + 1);
    if (exponent.size() < 2 || (exponent[0] != '-' && exponent[0] != '+') || !only(exponent.substr(1), "0123456789"))
      return std::nullopt;
  }
  std::string plain(text);
  std::erase(plain, '_');
  if (const std::size_t plus = plain.find('+'); plus != std::string::npos) plain.erase(plus, 1);
  double value = 0;
  std::from_chars(plain.data(), plain.data() + plain.size(), value);
  return negative ? -value : value;
}

class YamlReader {
 public:
  YamlReader(std::string_view text, const std::string& file_name, Diagnostics& diagnostics)
      : file_(file_name), diagnostics_(diagnostics) {
    yaml_parser_initialize(&parser_);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  ~YamlReader() { yaml_parser_delete(&parser_); }
  YamlReader(const YamlReader&) = delete;
  YamlReader& operator=(const YamlReader&) = delete;

  Value read() {
    Value root;
    int documents = 0;
    while (!stopped_) {
      const YamlEvent event(parser_);
      if (!event.fine()) {
        syntax_error();
        break;
      }
      if (event.type() == YAML_STREAM_END_EVENT) break;
      if (event.type() == YAML_STREAM_START_EVENT || event.type() == YAML_DOCUMENT_END_EVENT) continue;
      if (event.type() == YAML_DOCUMENT_START_EVENT) {
        if (documents++ == 0) continue;
        refuse(place(event->start_mark), "a second document begins here", "a file holds one");
        break;
      }
      root = node(*event, 0);
    }
    return root;
  }

 private:
  SourcePos place(const yaml_mark_t& mark) const {
    return {file_, static_cast<int>(mark.line) + 1, static_cast<int>(mark.column) + 1};
  }
  void refuse(const SourcePos& where, std::string what, std::string hint = {}) {
    diagnostics_.add(where, std::move(what), std::move(hint));
  }
  void stop(const SourcePos& where, std::string what, std::string hint = {}) {
    if (!stopped_) refuse(where, std::move(what), std::move(hint));
    stopped_ = true;
  }
  void syntax_error() {
    std::string what = parser_.problem == nullptr ? "no YAML" : parser_.problem;
    if (parser_.context != nullptr) what = format("{}: {}", parser_.context, what);
    yaml_mark_t mark = parser_.problem_mark;
    if (parser_.error == YAML_READER_ERROR) mark = parser_.mark;
    stop(place(mark), "no YAML: " + what);
  }
  void count(const SourcePos& where, std::size_t values) {
    counted_ += values;
    if (counted_ > values_max) stop(where, format("more than {} values, with what aliases repeat", values_max));
  }

  // The value that begins with `event`, with all that belongs to it.
  Value node(const yaml_event_t& event, int level) {
    const SourcePos where = place(event.start_mark);
    if (level > levels_max) stop(where, format("nested deeper than {} levels", levels_max));
    if (stopped_) return {};
    const std::size_t before = counted_;
    count(where, 1);
    Value value;
    std::string anchor;
    switch (event.type) {
      case YAML_ALIAS_EVENT: return alias(text_of(event.data.alias.anchor), where);
      case YAML_SCALAR_EVENT:
        anchor = text_of(event.data.scalar.anchor);
        value = scalar(event, where);
        break;
      case YAML_SEQUENCE_START_EVENT:
        anchor = text_of(event.data.sequence_start.anchor);
        value = sequence(level);
        check_tag(text_of(event.data.sequence_start.tag), "", where, value);
        break;
      case YAML_MAPPING_START_EVENT:
        anchor = text_of(event.data.mapping_start.anchor);
        value = mapping(level);
        check_tag(text_of(event.data.mapping_start.tag), "", where, value);
        break;
      default: stop(where, "no YAML: a value is expected"); return {};
    }
    value.pos = where;
    if (!anchor.empty()) anchors_.insert_or_assign(anchor, Anchored{value, counted_ - before});
    return value;
  }

  Value alias(const std::string& name, const SourcePos& where) {
    const auto found = anchors_.find(name);
    if (found == anchors_.end()) {
      refuse(where, "*" + name + " names nothing that is whole before it");
      return {};
    }
    count(where, found->second.values);
    if (stopped_) return {};
    return found->second.value;
  }

  void check_tag(const std::string& tag, const std::string& text, const SourcePos& where, Value& value) {
    if (tag.empty() || tag == "!") return;
    refuse(where, format("the tag {}{} is not read", tag, text.empty() ? "" : " (" + text + ")"),
           "write the value itself: files hold data, no calls of programs");
    value = {};
  }

  Value scalar(const yaml_event_t& event, const SourcePos& where) {
    const std::string text(text_of(event.data.scalar.value), event.data.scalar.length);
    Value value(text);
    const std::string tag = text_of(event.data.scalar.tag);
    if (tag == "tag:yaml.org,2002:str") return value;
    if (event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE && tag.empty()) return plain(text, where);
    check_tag(tag, text, where, value);
    return value;
  }

  Value plain(const std::string& text, const SourcePos& where) {
    if (is_one_of(text, {"", "~", "null", "Null", "NULL"})) return {};
    if (is_one_of(text, {"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) return true;
    if (is_one_of(text, {"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) return false;
    if (is_one_of(text, {".nan", ".NaN", ".NAN"})) return std::numeric_limits<double>::quiet_NaN();
    if (text == "+" || text == "-") return text;
    bool fits = true;
    if (const auto whole = whole_number(text, fits)) {
      if (fits) return *whole;
      refuse(where, text + " does not fit 64 bits", "quote it if it is a text");
      return {};
    }
    if (const auto broken = broken_number(text)) return *broken;
    if (is_base_60(text.front() == '-' || text.front() == '+' ? std::string_view(text).substr(1) : text)) {
      refuse(where, text + " is a number of base 60 in YAML 1.1", "quote it");
      return {};
    }
    return text;
  }

  Value sequence(int level) {
    Value made = Value::make_array();
    while (!stopped_) {
      const YamlEvent event(parser_);
      if (!event.fine()) {
        syntax_error();
        break;
      }
      if (event.type() == YAML_SEQUENCE_END_EVENT) break;
      made.push_back(node(*event, level + 1));
    }
    return made;
  }

  Value mapping(int level) {
    Value made = Value::make_table();
    while (!stopped_) {
      const YamlEvent key(parser_);
      if (!key.fine()) {
        syntax_error();
        break;
      }
      if (key.type() == YAML_MAPPING_END_EVENT) break;
      const SourcePos where = place(key->start_mark);
      if (key.type() != YAML_SCALAR_EVENT) {
        stop(where, "a key is no plain text", "keys are texts");
        break;
      }
      const std::string name(text_of(key->data.scalar.value), key->data.scalar.length);
      const YamlEvent begin(parser_);
      if (!begin.fine()) {
        syntax_error();
        break;
      }
      Value value = node(*begin, level + 1);
      if (name == "<<")
        refuse(where, "the merge key << is not read", "write the keys themselves");
      else if (made.find(name) != nullptr)
        refuse(where, "'" + name + "' is given twice");
      else
        made.as_table().push_back({name, std::move(value), where});
    }
    return made;
  }

  struct Anchored {
    Value value;
    std::size_t values = 0;
  };
  SharedText file_;
  Diagnostics& diagnostics_;
  yaml_parser_t parser_ = {};
  std::map<std::string, Anchored> anchors_;
  std::size_t counted_ = 0;
  bool stopped_ = false;
};

}  // namespace

Value parse_yaml(std::string_view text, const std::string& file_name, Diagnostics& diagnostics) {
  return YamlReader(text, file_name, diagnostics).read();
}

}  // namespace longhaul
