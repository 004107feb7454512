#include "engine/data/tokenizer/tokenizer.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/data/tokenizer/nfc.h"
#include "engine/data/tokenizer/tokenizer_file.h"
#include "engine/data/tokenizer/utf8.h"

namespace longhaul {

Result<Tokenizer> Tokenizer::load(const std::string& path) {
  LH_TRY(std::string text, read_file(path));
  return parse(std::move(text), path);
}

Result<Tokenizer> Tokenizer::parse(std::string text, const std::string& name) {
  return TokenizerFileReader(name).read(std::move(text));
}

Status Tokenizer::save(const std::string& path) const {
  return write_file_atomic(path, json_);
}

void Tokenizer::Finder::add(std::string content, std::int32_t id) {
  contents_.emplace_back(std::move(content), id);
}

void Tokenizer::Finder::finish() {
  const auto first = [](const auto& entry) { return static_cast<unsigned char>(entry.first[0]); };
  std::stable_sort(contents_.begin(), contents_.end(), [&](const auto& a, const auto& b) {
    if (first(a) != first(b)) return first(a) < first(b);
    return a.first.size() > b.first.size();
  });
  for (std::uint32_t i = 0; i < contents_.size(); ++i) {
    auto& range = by_first_byte_[first(contents_[i])];
    if (range.second == 0) range.first = i;
    range.second = i + 1;
  }
}

std::optional<Tokenizer::Finder::Hit> Tokenizer::Finder::find(std::string_view text, std::size_t from) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    const auto [begin, end] = by_first_byte_[static_cast<unsigned char>(text[at])];
    for (std::uint32_t i = begin; i < end; ++i) {
      const auto& [content, id] = contents_[i];
      if (text.compare(at, content.size(), content) == 0) return Hit{at, at + content.size(), id};
    }
  }
  return std::nullopt;
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text, bool allow_special) const {
  std::vector<std::int32_t> ids;
  std::vector<std::uint32_t> ends;
  Encoding encoding{nullptr, ends, ids, PatternBudget(text.size())};
  LH_CHECK(encode_raw(text, allow_special, encoding));
  return ids;
}

Status Tokenizer::encode(std::string_view text, bool allow_special, EncodeScratch& scratch,
                         std::vector<std::int32_t>& out) const {
  Encoding encoding{&scratch.cache, scratch.ends, out, PatternBudget(text.size())};
  return encode_raw(text, allow_special, encoding);
}

Status Tokenizer::encode_raw(std::string_view text, bool allow_special, Encoding& encoding) const {
  const Finder& finder = raw_[allow_special ? 1 : 0];
  std::size_t at = 0;
  while (!finder.empty() && at < text.size()) {
    const auto hit = finder.find(text, at);
    if (!hit) break;
    LH_CHECK(encode_between(text.substr(at, hit->begin - at), allow_special, encoding));
    encoding.out.push_back(hit->id);
    at = hit->end;
  }
  return encode_between(text.substr(at), allow_special, encoding);
}

// Between tokens of the raw text: normalize, where text is UTF-8, and look for the other kind of added tokens.
Status Tokenizer::encode_between(std::string_view text, bool allow_special, Encoding& encoding) const {
  std::string composed;
  if (nfc_ && is_valid_utf8(text)) {
    composed = compose_nfc(text);
    text = composed;
  }
  const Finder& finder = normalized_[allow_special ? 1 : 0];
  std::size_t at = 0;
  while (!finder.empty() && at < text.size()) {
    const auto hit = finder.find(text, at);
    if (!hit) break;
    LH_CHECK(encode_plain(text.substr(at, hit->begin - at), encoding));
    encoding.out.push_back(hit->id);
    at = hit->end;
  }
  return encode_plain(text.substr(at), encoding);
}

Status Tokenizer::encode_plain(std::string_view text, Encoding& encoding) const {
  std::string prefixed;
  if (prefix_space_ && !text.empty() && text[0] != ' ') {
    prefixed = ' ' + std::string(text);
    text = prefixed;
  }
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    LH_CHECK(pretokenizer_.split(text.substr(0, valid), encoding.budget, encoding.ends));
    std::uint32_t begin = 0;
    for (const std::uint32_t end : encoding.ends) {
      model_.encode_piece(text.substr(begin, end - begin), encoding.cache, encoding.out);
      begin = end;
    }
    text.remove_prefix(valid);
    // Bytes that are no UTF-8 are pieces of one byte each.
    while (!text.empty() && valid_utf8_prefix(text.substr(0, 4)) == 0) {
      model_.encode_piece(text.substr(0, 1), encoding.cache, encoding.out);
      text.remove_prefix(1);
    }
  }
  return {};
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string text;
  for (const std::int32_t id : ids) {
    if (skip_special && is_special(id)) continue;
    text += token_bytes(id);
  }
  return text;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return bytes_[static_cast<std::size_t>(id)];
}

std::optional<std::int32_t> Tokenizer::added_id(std::string_view content) const {
  for (const AddedToken& token : added_)
    if (token.content == content) return token.id;
  return std::nullopt;
}

Result<std::int32_t> Tokenizer::require_special(std::string_view content) const {
  const auto id = added_id(content);
  if (id && is_special(*id)) return *id;
  std::vector<std::string> known;
  for (const AddedToken& token : added_)
    if (token.special && known.size() < 8) known.push_back(token.content);
  return make_error(ErrorCode::invalid_input, format("the tokenizer has no special token '{}'", content),
                    known.empty() ? "train it with this token" : "its special tokens: " + join(known, " "));
}

bool Tokenizer::is_special(std::int32_t id) const {
  return id >= 0 && id < vocab_size() && special_[static_cast<std::size_t>(id)] != 0;
}

Status check_vocabulary(const Tokenizer& tokenizer, std::int64_t model_vocab_size, const std::string& folder) {
  if (tokenizer.vocab_size() <= model_vocab_size) return {};
  return make_error(
      ErrorCode::invalid_input,
      format("{}: the tokenizer has {} tokens, the model {}", folder, tokenizer.vocab_size(), model_vocab_size),
      "model and tokenizer.json do not belong together: take both from one place");
}

}  // namespace longhaul
