// Vocabulary and merges equal the reference trainer's on the golden texts; counting in shares changes nothing.
#include "engine/data/tokenizer/bpe_trainer.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/value/json.h"
#include "tests/support/random_text.h"

using namespace longhaul;

namespace {

Value trainer_golden() {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/tokenizers.json";
  return parse_json(read_file(path).value(), path).value();
}
std::vector<std::string> texts_of(const Value& list) {
  std::vector<std::string> texts;
  for (const Value& text : list.as_array()) texts.push_back(text.as_string());
  return texts;
}

// Counted in shares, as threads do it, and added up.
WordCounts count_words(std::span<const std::string_view> documents, PretokenizerPattern pattern, int shares) {
  const Pretokenizer pretokenizer = Pretokenizer::create({pattern_text(pattern)}).value();
  const std::size_t each = documents.size() / static_cast<std::size_t>(shares) + 1;
  WordCounts all;
  for (std::size_t begin = 0; begin < documents.size(); begin += each) {
    WordCounts share;
    for (std::size_t i = begin; i < std::min(documents.size(), begin + each); ++i)
      share.add(documents[i], pretokenizer);
    all.add(share);
  }
  return all;
}

}  // namespace

TEST_CASE("vocabulary, merges and ids equal the reference's") {
  const Value golden = trainer_golden();
  const std::vector<std::string> texts = texts_of(*golden.find("training_texts"));
  const std::vector<std::string_view> documents(texts.begin(), texts.end());
  REQUIRE(golden.find("runs")->size() == 3);
  for (const Value& run : golden.find("runs")->as_array()) {
    CAPTURE(run.get_string("pattern"));
    BpeTrainerSettings settings;
    settings.vocabulary = run.get_integer("vocabulary");
    settings.min_frequency = run.get_integer("min_frequency");
    settings.pattern = parse_pretokenizer_pattern(run.get_string("pattern")).value();
    settings.special_tokens = texts_of(*golden.find("special_tokens"));
    std::string first;
    for (const int shares : {1, 2, 5}) {
      const WordCounts words = count_words(documents, settings.pattern, shares);
      const Tokenizer tokenizer = train_bpe(words, settings).value();
      if (first.empty()) first = tokenizer.json();
      CHECK(tokenizer.json() == first);
    }
    const Value file = parse_json(first).value();
    CHECK(*file.find("model")->find("merges") == *run.find("merges"));
    const Tokenizer tokenizer = Tokenizer::parse(first).value();
    CHECK(tokenizer.vocab_size() == run.get_integer("vocab_size"));
    for (const Value& row : run.find("cases")->as_array()) {
      std::vector<std::int32_t> expected;
      for (const Value& id : row.find("ids")->as_array())
        expected.push_back(static_cast<std::int32_t>(id.as_integer()));
      CAPTURE(row.get_string("text"));
      CHECK(tokenizer.encode(row.get_string("text")).value() == expected);
    }
  }
}

TEST_CASE("special tokens come first, then the bytes") {
  const std::string_view documents[] = {"banana bandana"};
  BpeTrainerSettings settings;
  settings.vocabulary = 300;
  settings.special_tokens = {"<|a|>", "<|b|>"};
  const Tokenizer tokenizer = train_bpe(count_words(documents, settings.pattern, 1), settings).value();
  CHECK(tokenizer.token_bytes(0) == "<|a|>");
  CHECK(tokenizer.token_bytes(2) == "!");
  CHECK(tokenizer.token_bytes(258) == "an");  // the most frequent pair
  CHECK(tokenizer.vocab_size() < 300);        // nothing is left to merge
}

TEST_CASE("what cannot be trained is refused") {
  const std::string_view documents[] = {"banana"};
  BpeTrainerSettings settings;
  const WordCounts words = count_words(documents, settings.pattern, 1);
  settings.vocabulary = 256;
  settings.special_tokens = {"<|a|>"};
  REQUIRE_FALSE(train_bpe(words, settings).ok());
  CHECK(train_bpe(words, settings).error().message().find("257") != std::string::npos);
  settings.vocabulary = 300;
  settings.special_tokens = {"<|a|>", "<|a|>"};
  CHECK_FALSE(train_bpe(words, settings).ok());
  settings.special_tokens = {"x"};
  CHECK_FALSE(train_bpe(words, settings).ok());
  settings.special_tokens.clear();
  CHECK(train_bpe(count_words({}, settings.pattern, 2), settings).error().code == ErrorCode::invalid_input);
}

TEST_CASE("counting is the same for any number of shares") {
  std::vector<std::string> texts;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    PhiloxSequence draw(seed);
    texts.push_back(random_utf8(draw, draw.next_below(400)));
  }
  const std::vector<std::string_view> documents(texts.begin(), texts.end());
  BpeTrainerSettings settings;
  settings.vocabulary = 1000;
  std::string first;
  for (const int shares : {1, 2, 3, 16, 100}) {
    const auto words = count_words(documents, settings.pattern, shares);
    const std::string json = train_bpe(words, settings).value().json();
    if (first.empty()) first = json;
    CHECK(json == first);
  }
}
