#include "worker/protocol/wire/store_message.h"

#include <optional>
#include <utility>

#include "base/text/text.h"
#include "contracts/control/rendezvous_folder.h"

namespace longhaul {
namespace {

constexpr std::string_view hex_digits = "0123456789abcdef";

// A value is any bytes, and JSON holds text.
std::string value_to_hex(const std::string& bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += hex_digits[byte >> 4U];
    text += hex_digits[byte & 15U];
  }
  return text;
}

std::optional<std::string> value_from_hex(const std::string& text) {
  if (text.size() % 2 != 0 || text.size() > 2 * store_value_bytes_max) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const std::size_t high = hex_digits.find(text[i]), low = hex_digits.find(text[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    bytes += static_cast<char>(high << 4U | low);
  }
  return bytes;
}

Value entries_to_value(const std::vector<StoreEntry>& entries) {
  Value all = Value::make_array();
  for (const StoreEntry& entry : entries) {
    Value one = Value::make_array();
    one.push_back(entry.name);
    one.push_back(value_to_hex(entry.value));
    all.push_back(std::move(one));
  }
  return all;
}

Error wrong_entries(const std::string& what) {
  return make_error(ErrorCode::corrupt, "a message of entries " + what);
}

Result<std::string> entry_name_in(const Value& value) {
  if (!value.is_string() || !is_store_key(value.as_string())) return wrong_entries("has a name that is none");
  return value.as_string();
}

Result<std::vector<StoreEntry>> entries_in(const Value* value) {
  std::vector<StoreEntry> entries;
  if (!value) return entries;
  if (!value->is_array()) return wrong_entries("has no list of them");
  for (const Value& one : value->as_array()) {
    if (!one.is_array() || one.as_array().size() != 2 || !one.as_array()[1].is_string())
      return wrong_entries("has one without name or value");
    LH_TRY(std::string name, entry_name_in(one.as_array()[0]));
    auto bytes = value_from_hex(one.as_array()[1].as_string());
    if (!bytes) return wrong_entries(format("has {}, which is too long or no hexadecimal text", name));
    entries.push_back({std::move(name), std::move(*bytes)});
  }
  return entries;
}

// Of a name with its value, or of a name alone.
std::size_t bytes_as_text(const StoreEntry& entry) {
  return entry.name.size() + 2 * entry.value.size() + 8;
}

}  // namespace

Value store_message_to_value(const StoreMessage& message) {
  Value value = Value::make_table();
  value.set("launch", message.launch);
  if (!message.entries.empty()) value.set("words", entries_to_value(message.entries));
  if (!message.wanted.empty()) value.set("wanted", ValueArray(message.wanted.begin(), message.wanted.end()));
  if (!message.refused.empty()) value.set("refused", entries_to_value(message.refused));
  return value;
}

Result<StoreMessage> store_message_from_value(const Value& value) {
  StoreMessage message;
  message.launch = static_cast<int>(value.get_integer("launch", -1));
  if (message.launch < 0) return wrong_entries("lacks its launch");
  LH_TRY(message.entries, entries_in(value.find("words")));
  LH_TRY(message.refused, entries_in(value.find("refused")));
  const Value* wanted = value.find("wanted");
  if (!wanted) return message;
  if (!wanted->is_array()) return wrong_entries("has no list of what is wanted");
  for (const Value& one : wanted->as_array()) {
    LH_TRY(std::string name, entry_name_in(one));
    message.wanted.push_back(std::move(name));
  }
  return message;
}

std::vector<StoreMessage> split_store_message(const StoreMessage& message) {
  std::vector<StoreMessage> parts;
  std::size_t bytes = StoreMessage::text_bytes;
  const auto part_for = [&](std::size_t more) -> StoreMessage& {
    if (bytes + more > StoreMessage::text_bytes) {
      parts.push_back({message.launch, {}, {}, {}});
      bytes = 0;
    }
    bytes += more;
    return parts.back();
  };
  for (const StoreEntry& entry : message.entries) part_for(bytes_as_text(entry)).entries.push_back(entry);
  for (const std::string& name : message.wanted) part_for(name.size() + 8).wanted.push_back(name);
  for (const StoreEntry& entry : message.refused) part_for(bytes_as_text(entry)).refused.push_back(entry);
  return parts;
}

}  // namespace longhaul
