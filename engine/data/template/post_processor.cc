#include "engine/data/template/post_processor.h"

#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

Error refused(const std::string& name, std::string what, std::string hint = {}) {
  return make_error(ErrorCode::unsupported, format("{}: post_processor: {}", name, what), std::move(hint));
}

// ["[CLS]", 101]
Result<std::int32_t> id_of_pair(const Value& processor, const char* key, const std::string& name) {
  const Value* pair = processor.find(key);
  if (!pair || !pair->is_array() || pair->size() != 2 || !pair->as_array()[1].is_integer())
    return refused(name, format("{} is not a token and its id", key));
  return static_cast<std::int32_t>(pair->as_array()[1].as_integer());
}

}  // namespace

Result<PostProcessor> PostProcessor::create(const Tokenizer& tokenizer, const std::string& name) {
  LH_TRY(const Value root, parse_json(tokenizer.json(), name));
  PostProcessor made;
  const Value* processor = root.find("post_processor");
  if (!processor || processor->is_null()) return made;
  LH_CHECK(made.read(*processor, name));
  for (const auto* ids : {&made.before_, &made.behind_})
    for (const std::int32_t id : *ids)
      if (id < 0 || id >= tokenizer.vocab_size())
        return refused(name, format("adds the token {}, which there is not", id));
  return made;
}

Status PostProcessor::read(const Value& processor, const std::string& name) {
  const std::string type = processor.get_string("type", "(none)");
  if (type == "ByteLevel") return {};
  // The library hands what the first has made to the second as a pair of texts.
  if (type != "Sequence" && !(before_.empty() && behind_.empty()))
    return refused(name, "a sequence in which a second one adds tokens is not supported");
  if (type == "TemplateProcessing") return read_template(processor, name);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    LH_TRY(const std::int32_t begin, id_of_pair(processor, "cls", name));
    LH_TRY(const std::int32_t end, id_of_pair(processor, "sep", name));
    before_.insert(before_.begin(), begin);
    behind_.push_back(end);
    return {};
  }
  const Value* parts = processor.find("processors");
  if (type != "Sequence" || !parts || !parts->is_array())
    return refused(name, format("'{}' is not supported", type),
                   "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel and Sequence are");
  for (const Value& part : parts->as_array()) LH_CHECK(read(part, name));
  return {};
}

Status PostProcessor::read_template(const Value& processor, const std::string& name) {
  const Value *pieces = processor.find("single"), *tokens = processor.find("special_tokens");
  if (!pieces || !pieces->is_array() || !tokens || !tokens->is_table())
    return refused(name, "the template has no pieces, or no special tokens");
  std::vector<std::int32_t> before, behind;
  bool seen = false;
  for (const Value& piece : pieces->as_array()) {
    if (piece.find("Sequence")) {
      if (seen) return refused(name, "the template repeats the text");
      seen = true;
      continue;
    }
    const Value* special = piece.find("SpecialToken");
    const Value* token = special ? tokens->find(special->get_string("id")) : nullptr;
    const Value* ids = token ? token->find("ids") : nullptr;
    if (!ids || !ids->is_array()) return refused(name, "a piece of the template is no special token of it");
    for (const Value& id : ids->as_array()) {
      if (!id.is_integer()) return refused(name, "an id of the template is not a whole number");
      (seen ? behind : before).push_back(static_cast<std::int32_t>(id.as_integer()));
    }
  }
  if (!seen) return refused(name, "the template leaves the text out");
  before_.insert(before_.begin(), before.begin(), before.end());
  behind_.insert(behind_.end(), behind.begin(), behind.end());
  return {};
}

std::vector<std::int32_t> PostProcessor::around(std::vector<std::int32_t> ids) const {
  ids.insert(ids.begin(), before_.begin(), before_.end());
  ids.insert(ids.end(), behind_.begin(), behind_.end());
  return ids;
}

}  // namespace longhaul
