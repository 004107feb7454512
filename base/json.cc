#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

namespace longhaul {
namespace {

using Json = nlohmann::ordered_json;

// Builds the Value directly from parser events: no second tree, and a depth limit before the stack is at risk.
class Builder {
 public:
  static constexpr int max_depth = 512;
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
    problem = exception.what();
    return false;
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
      stack_.back().as_table().push_back(ValueMember{keys_.back(), std::move(value), {}});
    }
    return true;
  }
  bool open(Value container) {
    if (static_cast<int>(stack_.size()) >= max_depth) {
      problem = "nested deeper than 512 levels";
      return false;
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
  static void drop_earlier_duplicates(ValueTable& table) {
    if (table.size() < 2) return;
    std::vector<std::pair<std::string_view, std::size_t>> order;
    order.reserve(table.size());
    for (std::size_t i = 0; i < table.size(); ++i) order.emplace_back(table[i].key, i);
    std::sort(order.begin(), order.end());
    std::vector<std::size_t> doomed;
    for (std::size_t i = 0; i + 1 < order.size(); ++i)
      if (order[i].first == order[i + 1].first) doomed.push_back(order[i].second);
    std::sort(doomed.rbegin(), doomed.rend());
    for (std::size_t i : doomed) table.erase(table.begin() + static_cast<std::ptrdiff_t>(i));
  }

  std::vector<Value> stack_;
  std::vector<std::string> keys_;
};

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

Result<Value> parse_json(std::string_view text, const std::string& name) {
  Builder builder;
  bool parsed = false;
  try {
    parsed = Json::sax_parse(text.begin(), text.end(), &builder);
  } catch (const std::exception& exception) {
    builder.problem = exception.what();
  }
  if (!parsed) {
    const std::string place = builder.offset ? " at byte " + std::to_string(*builder.offset) : "";
    Error error = make_error(ErrorCode::corrupt, "not valid JSON" + place + ": " + builder.problem);
    error.where = SourcePos{name, 0, 0};
    return error;
  }
  return std::move(builder.root);
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
