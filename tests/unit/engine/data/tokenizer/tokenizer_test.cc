// Ids equal the reference's (tests/parity/golden), nothing is lost, and damaged or foreign files are refused by name.
#include "engine/data/tokenizer/tokenizer.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/data/tokenizer/bpe_trainer.h"
#include "tests/support/random_text.h"

using namespace longhaul;

namespace {

Value tokenizer_golden(const std::string& name) {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/" + name;
  return parse_json(read_file(path).value(), path).value();
}
std::vector<std::int32_t> ids_of(const Value& list) {
  std::vector<std::int32_t> ids;
  for (const Value& id : list.as_array()) ids.push_back(static_cast<std::int32_t>(id.as_integer()));
  return ids;
}
void check_tokenizer_cases(const Tokenizer& tokenizer, const Value& cases) {
  EncodeScratch scratch;
  REQUIRE(cases.size() > 50);
  for (const Value& row : cases.as_array()) {
    const std::string text = row.get_string("text");
    CAPTURE(text);
    const std::vector<std::int32_t> plain = ids_of(*row.find("ids"));
    const Value* special = row.find("ids_special");
    CHECK(tokenizer.encode(text).value() == plain);
    CHECK(tokenizer.encode(text, true).value() == (special ? ids_of(*special) : plain));
    for (int again = 0; again < 2; ++again) {  // the second time from the cache
      std::vector<std::int32_t> ids;
      REQUIRE(tokenizer.encode(text, false, scratch, ids).ok());
      CHECK(ids == plain);
    }
    CHECK(tokenizer.decode(plain) == text);
  }
}
Result<Tokenizer> with_change(const char* path, Value value) {
  Value root = *tokenizer_golden("reference_tokenizer.json").find("tokenizer");
  Value* at = &root;
  const std::vector<std::string> keys = split(path, '.');
  for (std::size_t i = 0; i + 1 < keys.size(); ++i) at = at->find(keys[i]);
  at->set(keys.back(), std::move(value));
  return Tokenizer::parse(to_json(root), "changed.json");
}
Value typed(const char* type) {
  Value value = Value::make_table();
  value.set("type", type);
  return value;
}

}  // namespace

TEST_CASE("ids equal the reference's for a file that the reference wrote") {
  const Value golden = tokenizer_golden("tokenizers.json");
  const Value file = tokenizer_golden("reference_tokenizer.json");
  const Tokenizer tokenizer = Tokenizer::parse(to_json(*file.find("tokenizer"))).value();
  for (const Value& run : golden.find("runs")->as_array())
    if (run.get_string("pattern") == "llama3") {
      CHECK(tokenizer.vocab_size() == run.get_integer("vocab_size"));
      check_tokenizer_cases(tokenizer, *run.find("cases"));
    }
}

TEST_CASE("merges may be written as 'a b'") {
  Value root = *tokenizer_golden("reference_tokenizer.json").find("tokenizer");
  const std::string text = "The ship leaves at nine, 1234 船は九時に出る。";
  const auto expected = Tokenizer::parse(to_json(root)).value().encode(text).value();
  for (Value& merge : root.find("model")->find("merges")->as_array())
    merge = Value(merge.as_array()[0].as_string() + " " + merge.as_array()[1].as_string());
  CHECK(Tokenizer::parse(to_json(root)).value().encode(text).value() == expected);
}

TEST_CASE("ignore_merges takes words that are tokens whole, as the reference does") {
  const Value golden = tokenizer_golden("ignore_merges.json");
  check_tokenizer_cases(Tokenizer::parse(to_json(*golden.find("tokenizer"))).value(), *golden.find("cases"));
}

TEST_CASE("decode undoes encode on random UTF-8 and on arbitrary bytes") {
  const Value file = tokenizer_golden("reference_tokenizer.json");
  const Tokenizer tokenizer = Tokenizer::parse(to_json(*file.find("tokenizer"))).value();
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    PhiloxSequence draw(seed);
    const std::string text = random_utf8(draw, draw.next_below(200));
    CHECK(tokenizer.decode(tokenizer.encode(text).value()) == text);
    CHECK(tokenizer.decode(tokenizer.encode(text, true).value()) == text);
    const std::string bytes = random_bytes(draw, draw.next_below(60)) + text + random_bytes(draw, 5);
    CHECK(tokenizer.decode(tokenizer.encode(bytes).value()) == bytes);
  }
}

TEST_CASE("a very long word takes no quadratic time and decodes to itself") {
  const Value file = tokenizer_golden("reference_tokenizer.json");
  const Tokenizer tokenizer = Tokenizer::parse(to_json(*file.find("tokenizer"))).value();
  std::string word;
  for (unsigned i = 0; i < 300000; ++i) word += "thea"[i * (i / 3) % 4];
  CHECK(tokenizer.decode(tokenizer.encode(word).value()) == word);
  const std::string spaces(500000, ' ');
  CHECK(tokenizer.decode(tokenizer.encode(spaces + "x").value()) == spaces + "x");
}

TEST_CASE("long words merge as short ones do") {
  // The two merge loops (linear search, heap) must agree: a piece of 81 bytes takes the heap, its halves do not.
  const BpeMerge merges[] = {{'a', 'b', 256}, {'b', 'a', 257}, {256, 256, 258}, {'a', 'a', 259}, {259, 'b', 260}};
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
  for (const BpeMerge& m : merges) tokens.push_back(tokens[m.left] + tokens[m.right]);
  const BpeModel model = BpeModel::create(tokens, {std::begin(merges), std::end(merges)}, false).value();
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    PhiloxSequence draw(seed);
    std::string word;
    while (word.size() < 40) word += draw.next_below(2) ? 'a' : 'b';
    // '.' merges with nothing, so the ids of a joined word are those of its parts.
    std::vector<std::int32_t> apart, joined;
    for (int part = 0; part < 3; ++part) model.encode_piece(part == 1 ? "." : word, nullptr, apart);
    model.encode_piece(word + "." + word, nullptr, joined);
    CHECK(joined == apart);
  }
}

TEST_CASE("special tokens are text unless allowed; token bytes and lookups") {
  const Value file = tokenizer_golden("reference_tokenizer.json");
  const Tokenizer tokenizer = Tokenizer::parse(to_json(*file.find("tokenizer"))).value();
  const std::int32_t end = tokenizer.require_special("<|end|>").value();
  CHECK(tokenizer.encode("<|end|>", true).value() == std::vector<std::int32_t>{end});
  CHECK(tokenizer.encode("<|end|>").value().size() > 1);
  CHECK(tokenizer.is_special(end));
  CHECK(tokenizer.token_bytes(end) == "<|end|>");
  CHECK(tokenizer.token_bytes(-1).empty());
  CHECK(tokenizer.token_bytes(tokenizer.vocab_size()).empty());
  const std::int32_t row[] = {end, tokenizer.encode("A").value()[0], 1 << 30};
  CHECK(tokenizer.decode(row) == "<|end|>A");
  CHECK(tokenizer.decode(row, true) == "A");
  const auto missing = tokenizer.require_special("<|nothing|>");
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().message().find("<|nothing|>") != std::string::npos);
  CHECK(missing.error().hint.find("<|end|>") != std::string::npos);
  Value plain = *file.find("tokenizer");  // with tokens that were added and are not special
  for (Value& token : plain.find("added_tokens")->as_array()) token.set("special", false);
  CHECK(Tokenizer::parse(to_json(plain)).value().require_special("<|end|>").error().hint == "train it with this token");
}

TEST_CASE("what is not byte-level BPE is refused by field") {
  const auto refused = [](const Result<Tokenizer>& result, const char* field) {
    CAPTURE(field);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().code == ErrorCode::unsupported);
    CHECK(result.error().message().find(field) != std::string::npos);
    REQUIRE(result.error().where);
    CHECK(result.error().where->file.str().find("changed.json") != std::string::npos);
    CHECK(result.error().where->line == 0);  // the field says where
  };
  refused(with_change("normalizer", typed("Lowercase")), "normalizer.type");
  refused(with_change("pre_tokenizer", typed("Metaspace")), "pre_tokenizer.type");
  refused(with_change("pre_tokenizer", Value()), "pre_tokenizer");
  refused(with_change("decoder", typed("Metaspace")), "decoder.type");
  refused(with_change("model.type", "Unigram"), "model.type");
  refused(with_change("model.byte_fallback", true), "model.byte_fallback");
  refused(with_change("model.dropout", 0.1), "model.dropout");
  refused(with_change("model.end_of_word_suffix", "</w>"), "model.end_of_word_suffix");
}

TEST_CASE("damaged tokenizer files are errors, never crashes") {
  for (const char* text :
       {"", "null", "[]", "3", "{", "{}", R"({"pre_tokenizer":{"type":"ByteLevel"}})",
        R"({"pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})",
        R"({"pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":1e300},"merges":[]}})",
        R"({"pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":99999999999},"merges":[]}})",
        R"({"pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}})",
        R"({"pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})",
        R"({"pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}})",
        R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":3}})",
        R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"}})"}) {
    CAPTURE(text);
    CHECK_FALSE(Tokenizer::parse(text).ok());
  }
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    PhiloxSequence draw(seed);
    CHECK_FALSE(Tokenizer::parse(random_bytes(draw, draw.next_below(200))).ok());
  }
  const std::string whole = to_json(*tokenizer_golden("reference_tokenizer.json").find("tokenizer"));
  for (std::size_t cut = 0; cut < whole.size(); cut += 97) CHECK_FALSE(Tokenizer::parse(whole.substr(0, cut)).ok());
  // One byte changed: either refused or usable, nothing else.
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    PhiloxSequence draw(seed);
    std::string changed = whole;
    changed[draw.next_below(changed.size())] = static_cast<char>(draw.next_below(128));
    const auto parsed = Tokenizer::parse(changed);
    if (!parsed.ok()) continue;
    const auto ids = parsed->encode("The ship, 1234.");
    CHECK((!ids.ok() || ids->size() > 0));
  }
}

TEST_CASE("NFC is applied where the file asks for it") {
  const auto tokenizer = with_change("normalizer", typed("NFC"));
#if defined(LONGHAUL_HAVE_CURATE)
  REQUIRE(tokenizer.ok());
  CHECK(tokenizer->encode("e\xCC\x81").value() == tokenizer->encode("\xC3\xA9").value());
  CHECK(tokenizer->decode(tokenizer->encode("e\xCC\x81").value()) == "\xC3\xA9");
#else
  REQUIRE_FALSE(tokenizer.ok());
  CHECK(tokenizer.error().message().find("ICU") != std::string::npos);
#endif
}

TEST_CASE("a tokenizer is saved as it was read") {
  const std::string text = to_json_pretty(*tokenizer_golden("reference_tokenizer.json").find("tokenizer"));
  const Tokenizer tokenizer = Tokenizer::parse(text).value();
  const std::string path = (std::filesystem::temp_directory_path() / "longhaul_tokenizer_test.json").string();
  REQUIRE(tokenizer.save(path).ok());
  CHECK(read_file(path).value() == text);
  CHECK(Tokenizer::load(path).ok());
  std::filesystem::remove(path);
  CHECK_FALSE(Tokenizer::load(path).ok());
}
