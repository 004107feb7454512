#include "worker/protocol/wire/store_message.h"

#include <optional>
#include <utility>

#include "base/text/text.h"
#include "contracts/control/rendezvous_folder.h"

namespace longhaul {
namespace {

constexpr std::string_view hex_digits = "0123456789abcdef";

// A word is any bytes, and JSON holds text.
std::string word_to_hex(const std::string& bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += hex_digits[byte >> 4U];
    text += hex_digits[byte & 15U];
  }
  return text;
}

std::optional<std::string> word_from_hex(const std::string& text) {
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

Value words_to_value(const std::vector<StoreEntry>& words) {
  Value all = Value::make_array();
  for (const StoreEntry& word : words) {
    Value one = Value::make_array();
    one.push_back(word.name);
    one.push_back(word_to_hex(word.word));
    all.push_back(std::move(one));
  }
  return all;
}

Error wrong_words(const std::string& what) {
  return make_error(ErrorCode::corrupt, "a message of words " + what);
}

Result<std::string> word_name_in(const Value& value) {
  if (!value.is_string() || !is_store_key(value.as_string())) return wrong_words("has a name that is none");
  return value.as_string();
}

Result<std::vector<StoreEntry>> words_in(const Value* value) {
  std::vector<StoreEntry> words;
  if (!value) return words;
  if (!value->is_array()) return wrong_words("has no list of them");
  for (const Value& one : value->as_array()) {
    if (!one.is_array() || one.as_array().size() != 2 || !one.as_array()[1].is_string())
      return wrong_words("has one without name or word");
    LH_TRY(std::string name, word_name_in(one.as_array()[0]));
    auto word = word_from_hex(one.as_array()[1].as_string());
    if (!word) return wrong_words(format("has {}, which is too long or no hexadecimal text", name));
    words.push_back({std::move(name), std::move(*word)});
  }
  return words;
}

// Of a name with its word, or of a name alone.
std::size_t bytes_as_text(const StoreEntry& word) {
  return word.name.size() + 2 * word.word.size() + 8;
}

}  // namespace

Value store_message_to_value(const StoreMessage& message) {
  Value value = Value::make_table();
  value.set("launch", message.launch);
  if (!message.words.empty()) value.set("words", words_to_value(message.words));
  if (!message.wanted.empty()) value.set("wanted", ValueArray(message.wanted.begin(), message.wanted.end()));
  if (!message.refused.empty()) value.set("refused", words_to_value(message.refused));
  return value;
}

Result<StoreMessage> store_message_from_value(const Value& value) {
  StoreMessage message;
  message.launch = static_cast<int>(value.get_integer("launch", -1));
  if (message.launch < 0) return wrong_words("lacks its launch");
  LH_TRY(message.words, words_in(value.find("words")));
  LH_TRY(message.refused, words_in(value.find("refused")));
  const Value* wanted = value.find("wanted");
  if (!wanted) return message;
  if (!wanted->is_array()) return wrong_words("has no list of what is wanted");
  for (const Value& one : wanted->as_array()) {
    LH_TRY(std::string name, word_name_in(one));
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
  for (const StoreEntry& word : message.words) part_for(bytes_as_text(word)).words.push_back(word);
  for (const std::string& name : message.wanted) part_for(name.size() + 8).wanted.push_back(name);
  for (const StoreEntry& word : message.refused) part_for(bytes_as_text(word)).refused.push_back(word);
  return parts;
}

}  // namespace longhaul
