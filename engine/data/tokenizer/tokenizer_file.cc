#include "engine/data/tokenizer/tokenizer_file.h"

#include <algorithm>

#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/data/tokenizer/nfc.h"

namespace longhaul {
namespace {

constexpr std::int64_t token_ids_max = 16'000'000;  // far above any vocabulary; keeps a damaged file from eating memory

bool absent(const Value* value) {
  return !value || value->is_null();
}
bool is_set(const Value& table, std::string_view key) {
  const Value* value = table.find(key);
  if (absent(value)) return false;
  if (value->is_bool()) return value->as_bool();
  if (value->is_string()) return !value->as_string().empty();
  if (value->is_number()) return value->as_number() != 0;
  return true;
}
std::string type_of(const Value& table) {
  return table.get_string("type", "(none)");
}

}  // namespace

Error TokenizerFileReader::refuse(std::string_view field, std::string_view what, std::string hint) const {
  Error error = make_error(ErrorCode::unsupported, format("{}: {}", field, what), std::move(hint));
  error.where = SourcePos{name_, 0, 0};
  return error;
}
Error TokenizerFileReader::damaged(std::string_view field, std::string_view what) const {
  Error error = make_error(ErrorCode::corrupt, format("{}: {}", field, what));
  error.where = SourcePos{name_, 0, 0};
  return error;
}

Result<Tokenizer> TokenizerFileReader::read(std::string text) {
  LH_TRY(const Value root, parse_json(text, name_));
  if (!root.is_table()) return damaged("(root)", format("is {} instead of an object", root.kind_name()));
  LH_CHECK(read_normalizer(root.find("normalizer"), "normalizer"));
  LH_CHECK(read_pretokenizer(root.find("pre_tokenizer"), "pre_tokenizer"));
  if (!byte_level_)
    return refuse("pre_tokenizer", "has no ByteLevel step", "only byte-level BPE tokenizers are understood");
  LH_CHECK(read_decoder(root.find("decoder")));
  LH_CHECK(read_model(root.find("model")));
  LH_CHECK(read_added_tokens(root.find("added_tokens")));
  LH_CHECK(assemble());
  made_.json_ = std::move(text);
  return std::move(made_);
}

Status TokenizerFileReader::read_normalizer(const Value* normalizer, const std::string& field) {
  if (absent(normalizer)) return {};
  const std::string type = type_of(*normalizer);
  if (type == "Sequence") {
    const Value* parts = normalizer->find("normalizers");
    if (!parts || !parts->is_array()) return damaged(field + ".normalizers", "is not a list");
    for (std::size_t i = 0; i < parts->size(); ++i)
      LH_CHECK(read_normalizer(&parts->as_array()[i], format("{}.normalizers[{}]", field, i)));
    return {};
  }
  if (type != "NFC") return refuse(field + ".type", format("'{}' is not supported", type), "NFC or null is");
  LH_CHECK(require_nfc().with_context(name_ + ": " + field));
  made_.nfc_ = true;
  return {};
}

Status TokenizerFileReader::read_pretokenizer(const Value* pretokenizer, const std::string& field) {
  if (absent(pretokenizer)) return {};
  if (byte_level_) return refuse(field, "comes after ByteLevel, which must be the last step");
  const std::string type = type_of(*pretokenizer);
  if (type == "Sequence") {
    const Value* parts = pretokenizer->find("pretokenizers");
    if (!parts || !parts->is_array()) return damaged(field + ".pretokenizers", "is not a list");
    for (std::size_t i = 0; i < parts->size(); ++i)
      LH_CHECK(read_pretokenizer(&parts->as_array()[i], format("{}.pretokenizers[{}]", field, i)));
    return {};
  }
  if (type == "Split") return read_split(*pretokenizer, field);
  if (type != "ByteLevel")
    return refuse(field + ".type", format("'{}' is not supported", type), "ByteLevel, Split and Sequence are");
  byte_level_ = true;
  made_.prefix_space_ = pretokenizer->get_bool("add_prefix_space", true);
  if (made_.prefix_space_ && !patterns_.empty())
    return refuse(field + ".add_prefix_space", "true behind a Split is not supported");
  if (pretokenizer->get_bool("use_regex", true)) patterns_.push_back(pattern_text(PretokenizerPattern::gpt2));
  return {};
}

Status TokenizerFileReader::read_split(const Value& split, const std::string& field) {
  const Value* pattern = split.find("pattern");
  const Value* regex = pattern ? pattern->find("Regex") : nullptr;
  if (!regex || !regex->is_string()) return refuse(field + ".pattern", "is not {\"Regex\": ...}");
  const std::string behavior = split.get_string("behavior", "(none)");
  if (behavior != "Isolated")
    return refuse(field + ".behavior", format("'{}' is not supported", behavior), "Isolated is");
  if (split.get_bool("invert")) return refuse(field + ".invert", "true is not supported");
  patterns_.push_back(regex->as_string());
  return {};
}

Status TokenizerFileReader::read_decoder(const Value* decoder) const {
  if (absent(decoder)) return {};
  const std::string type = type_of(*decoder);
  if (type != "ByteLevel") return refuse("decoder.type", format("'{}' is not supported", type), "ByteLevel or null is");
  return {};
}

Status TokenizerFileReader::read_model(const Value* model) {
  if (absent(model) || !model->is_table()) return damaged("model", "is missing");
  const std::string type = model->get_string("type", model->find("merges") ? "BPE" : "(none)");
  if (type != "BPE") return refuse("model.type", format("'{}' is not supported", type), "byte-level BPE is");
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"})
    if (is_set(*model, key)) return refuse(format("model.{}", key), "is set, which is not supported");
  ignore_merges_ = model->get_bool("ignore_merges");
  const Value* vocabulary = model->find("vocab");
  if (!vocabulary || !vocabulary->is_table()) return damaged("model.vocab", "is missing or not an object");
  LH_CHECK(read_vocabulary(*vocabulary));
  const Value* merges = model->find("merges");
  if (!merges || !merges->is_array()) return damaged("model.merges", "is missing or not a list");
  return read_merges(*merges);
}

Status TokenizerFileReader::read_vocabulary(const Value& vocabulary) {
  std::int64_t largest = -1;
  for (const ValueMember& member : vocabulary.as_table()) {
    if (!member.value.is_integer() || member.value.as_integer() < 0 || member.value.as_integer() >= token_ids_max)
      return damaged("model.vocab", format("the id of '{}' is not a sensible number", member.key));
    largest = std::max(largest, member.value.as_integer());
  }
  tokens_.resize(static_cast<std::size_t>(largest + 1));
  made_.bytes_.resize(tokens_.size());
  by_text_.reserve(vocabulary.size());
  for (const ValueMember& member : vocabulary.as_table()) {
    const auto id = static_cast<std::size_t>(member.value.as_integer());
    if (!made_.bytes_[id].empty()) return damaged("model.vocab", format("id {} belongs to two tokens", id));
    // A token with characters outside the byte alphabet stands for itself and is never the result of merging bytes.
    std::optional<std::string> raw = from_byte_alphabet(member.key);
    if (raw) tokens_[id] = *raw;
    made_.bytes_[id] = raw ? std::move(*raw) : member.key;
    by_text_.emplace_back(member.key, static_cast<std::int32_t>(id));
  }
  std::sort(by_text_.begin(), by_text_.end());
  return {};
}

Status TokenizerFileReader::read_merges(const Value& merges) {
  const auto id_of = [&](std::string_view text) -> std::int32_t {
    const auto at = std::lower_bound(by_text_.begin(), by_text_.end(), text,
                                     [](const auto& entry, std::string_view wanted) { return entry.first < wanted; });
    return at != by_text_.end() && at->first == text ? at->second : -1;
  };
  merges_.reserve(merges.size());
  std::string joined;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const Value& merge = merges.as_array()[i];
    const std::string field = format("model.merges[{}]", i);
    std::string_view left, right;
    if (merge.is_string()) {
      const std::string_view text = merge.as_string();
      const std::size_t space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
        return damaged(field, "is not two tokens with a space between");
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge.as_array()[0].is_string() &&
               merge.as_array()[1].is_string()) {
      left = merge.as_array()[0].as_string();
      right = merge.as_array()[1].as_string();
    } else {
      return damaged(field, "is neither \"a b\" nor [\"a\", \"b\"]");
    }
    joined.assign(left).append(right);
    const std::int32_t ids[3] = {id_of(left), id_of(right), id_of(joined)};
    const std::string_view texts[3] = {left, right, joined};
    for (int k = 0; k < 3; ++k)
      if (ids[k] < 0) return damaged(field, format("'{}' is not in the vocabulary", texts[k]));
    merges_.push_back(
        {static_cast<std::uint32_t>(ids[0]), static_cast<std::uint32_t>(ids[1]), static_cast<std::uint32_t>(ids[2])});
  }
  return {};
}

Status TokenizerFileReader::read_added_tokens(const Value* added) {
  if (absent(added)) return {};
  if (!added->is_array()) return damaged("added_tokens", "is not a list");
  for (std::size_t i = 0; i < added->size(); ++i) {
    const Value& token = added->as_array()[i];
    const std::string field = format("added_tokens[{}]", i);
    const Value* id = token.find("id");
    const Value* content = token.find("content");
    if (!id || !id->is_integer() || id->as_integer() < 0 || id->as_integer() >= token_ids_max)
      return damaged(field + ".id", "is missing or not a sensible number");
    if (!content || !content->is_string() || content->as_string().empty())
      return damaged(field + ".content", "is missing or empty");
    for (const char* key : {"single_word", "lstrip", "rstrip"})
      if (token.get_bool(key)) return refuse(format("{}.{}", field, key), "true is not supported");
    made_.added_.push_back({static_cast<std::int32_t>(id->as_integer()), content->as_string(),
                            token.get_bool("special"), token.get_bool("normalized")});
  }
  std::sort(made_.added_.begin(), made_.added_.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  for (std::size_t i = 1; i < made_.added_.size(); ++i)
    if (made_.added_[i].id == made_.added_[i - 1].id)
      return damaged("added_tokens", format("id {} comes twice", made_.added_[i].id));
  return {};
}

Status TokenizerFileReader::assemble() {
  if (!made_.added_.empty())
    made_.bytes_.resize(std::max(made_.bytes_.size(), static_cast<std::size_t>(made_.added_.back().id) + 1));
  made_.special_.assign(made_.bytes_.size(), 0);
  for (const AddedToken& token : made_.added_) {
    const auto id = static_cast<std::size_t>(token.id);
    made_.bytes_[id] = token.content;
    made_.special_[id] = token.special ? 1 : 0;
    auto& finders = token.normalized ? made_.normalized_ : made_.raw_;
    if (!token.special) finders[0].add(token.content, token.id);
    finders[1].add(token.content, token.id);
  }
  for (auto* finders : {made_.raw_, made_.normalized_})
    for (int i = 0; i < 2; ++i) finders[i].finish();
  LH_TRY(made_.pretokenizer_, Pretokenizer::create(patterns_));
  Result<BpeModel> model = BpeModel::create(std::move(tokens_), merges_, ignore_merges_);
  if (!model.ok()) return refuse("model.vocab", model.error().what, model.error().hint);
  made_.model_ = std::move(model).value();
  return {};
}

}  // namespace longhaul
