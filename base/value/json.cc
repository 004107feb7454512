#include "base/value/json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "base/value/json_limits.h"

namespace longhaul {
namespace {

using Json = nlohmann::ordered_json;

// A parser's own text may quote a stranger's whole.
constexpr std::size_t problem_bytes_max = 200;

// A member of a table among those whose keys are compared.
struct HashedMember {
  std::uint64_t hash = 0;
  std::uint32_t index = 0;
};
static_assert(sizeof(HashedMember) == json_member_extra_bytes);

// Builds the Value directly from parser events: no second tree, arrays and tables of just the size they will have, and
// a depth limit before the stack is at risk. `children`: of a JsonOutline.
class Builder {
 public:
  static constexpr int max_depth = 512;
  explicit Builder(const std::vector<std::uint32_t>& children) : children_(children) {}
  bool null() { return put(Value()); }
  bool boolean(bool b) { return put(Value(b)); }
  bool number_integer(std::int64_t i) { return put(Value(static_cast<long long>(i))); }
  bool number_unsigned(std::uint64_t u) {
    if (u > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return put(Value(static_cast<double>(u)));
    return put(Value(static_cast<long long>(u)));
  }
  bool number_float(double d, const std::string&) { return put(Value(d)); }
  bool string(std::string& s) { return put(Value(std::move(s))); }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Value::make_table()); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(Value::make_array()); }
  bool end_array() { return close(); }
  bool key(std::string& k) {
    keys_.back() = std::move(k);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& exception) {
    offset = position;
    problem = cut(exception.what());
    return false;
  }
  static std::string cut(const std::string& text) {
    return text.size() <= problem_bytes_max ? text : repair_utf8(text.substr(0, problem_bytes_max)) + "...";
  }

  std::optional<std::size_t> offset;  // of a syntax error
  std::string problem;
  Value root;

 private:
  bool put(Value value) {
    if (stack_.empty()) {
      root = std::move(value);
    } else if (stack_.back().is_array()) {
      stack_.back().push_back(std::move(value));
    } else {
      stack_.back().as_table().push_back(ValueMember{std::move(keys_.back()), std::move(value), {}});
    }
    return true;
  }
  bool open(Value container) {
    if (static_cast<int>(stack_.size()) >= max_depth) {
      problem = "nested deeper than 512 levels";
      return false;
    }
    if (opened_ < children_.size()) {
      const std::size_t children = children_[opened_++];
      if (container.is_table())
        container.as_table().reserve(children);
      else
        container.as_array().reserve(children);
    }
    stack_.push_back(std::move(container));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    Value done = std::move(stack_.back());
    stack_.pop_back();
    keys_.pop_back();
    if (done.is_table()) drop_earlier_duplicates(done.as_table());
    return put(std::move(done));
  }
  // In n log n however the keys repeat, and whatever their hashes: those only spare the look at the keys.
  static void drop_earlier_duplicates(ValueTable& table) {
    if (table.size() < 2) return;
    std::vector<HashedMember> order(table.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = {xxh3_64(table[i].key), i};
    std::sort(order.begin(), order.end(), [&](const HashedMember& a, const HashedMember& b) {
      if (a.hash != b.hash) return a.hash < b.hash;
      const int way = table[a.index].key.compare(table[b.index].key);
      return way != 0 ? way < 0 : a.index < b.index;
    });
    std::vector<bool> doomed;  // by place in the table; empty: none
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      if (order[i].hash != order[i + 1].hash || table[order[i].index].key != table[order[i + 1].index].key) continue;
      doomed.resize(table.size());
      doomed[order[i].index] = true;
    }
    if (doomed.empty()) return;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (doomed[i]) continue;
      if (kept != i) table[kept] = std::move(table[i]);
      ++kept;
    }
    table.erase(table.begin() + static_cast<std::ptrdiff_t>(kept), table.end());
  }

  const std::vector<std::uint32_t>& children_;
  std::size_t opened_ = 0;
  std::vector<Value> stack_;
  std::vector<std::string> keys_;
};

Error refused(const std::string& name, const std::string& what) {
  Error error = make_error(ErrorCode::corrupt, what);
  error.where = SourcePos{name, 0, 0};
  return error;
}

// What has nothing to escape goes as it is: most strings are names.
bool is_plain(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
}

void append_string(std::string& out, const std::string& text) {
  if (is_plain(text)) {
    out += '"';
    out += text;
    out += '"';
    return;
  }
  out += Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append(std::string& out, const Value& value, int indent, int depth) {
  const auto newline = [&](int level) {
    if (indent < 0) return;
    out += '\n';
    out.append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(level), ' ');
  };
  switch (value.kind()) {
    case Value::Kind::null: out += "null"; return;
    case Value::Kind::boolean: out += value.as_bool() ? "true" : "false"; return;
    case Value::Kind::integer: out += std::to_string(value.as_integer()); return;
    case Value::Kind::number: out += std::isfinite(value.as_number()) ? Json(value.as_number()).dump() : "null"; return;
    case Value::Kind::string: append_string(out, value.as_string()); return;
    case Value::Kind::array: {
      out += '[';
      bool first = true;
      for (const Value& element : value.as_array()) {
        if (!first) out += ',';
        first = false;
        newline(depth + 1);
        append(out, element, indent, depth + 1);
      }
      if (!first) newline(depth);
      out += ']';
      return;
    }
    case Value::Kind::table: {
      out += '{';
      bool first = true;
      for (const ValueMember& member : value.as_table()) {
        if (!first) out += ',';
        first = false;
        newline(depth + 1);
        append_string(out, member.key);
        out += indent < 0 ? ":" : ": ";
        append(out, member.value, indent, depth + 1);
      }
      if (!first) newline(depth);
      out += '}';
      return;
    }
  }
}

}  // namespace

Result<Value> parse_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
  const JsonOutline outline = outline_of_json(text);
  if (outline.values > limits.values_max)
    return refused(name, format("JSON of {} values; at most {} are taken here", outline.values, limits.values_max));
  if (outline.bytes > limits.bytes_max)
    return refused(
        name, format("JSON that would take {} of memory ({} of text); at most {} are taken here",
                     human_bytes(static_cast<double>(outline.bytes)), human_bytes(static_cast<double>(text.size())),
                     human_bytes(static_cast<double>(limits.bytes_max))));
  Builder builder(outline.children);
  bool parsed = false;
  try {
    parsed = Json::sax_parse(text.begin(), text.end(), &builder);
  } catch (const std::exception& exception) {
    builder.problem = Builder::cut(exception.what());
  }
  if (parsed) return std::move(builder.root);
  const std::string place = builder.offset ? " at byte " + std::to_string(*builder.offset) : "";
  return refused(name, "not valid JSON" + place + ": " + builder.problem);
}

Result<Value> parse_json(std::string_view text, const std::string& name) {
  return parse_json(text, name, default_json_limits(text.size()));
}

std::string to_json(const Value& value) {
  std::string out;
  append(out, value, -1, 0);
  return out;
}

std::string to_json_pretty(const Value& value) {
  std::string out;
  append(out, value, 2, 0);
  out += '\n';
  return out;
}

}  // namespace longhaul
