// A curated folder becomes a vocabulary and token files; held-out text never shapes the vocabulary.
#include "engine/data/tokenize_task.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/data/files/indexed_dataset.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "tests/support/random_text.h"

using namespace longhaul;

namespace {

struct CorpusFolder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / format("longhaul_tokenize_test_{}", ::getpid());
  CorpusFolder() {
    for (const char* name : {"corpus", "out", "out2"}) std::filesystem::create_directories(path / name);
  }
  ~CorpusFolder() { std::filesystem::remove_all(path); }
  std::string at(const std::string& name) const { return (path / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    REQUIRE(write_file_atomic(at(name), text).ok());
  }
};

std::string document_row(const std::string& text, const std::string& language) {
  Value row = Value::make_table();
  row.set("id", "x");
  row.set("page", "p");
  row.set("language", language);
  row.set("text", text);
  return to_json(row) + "\n";
}

TokenizeSettings small_settings() {
  TokenizeSettings settings;
  settings.vocabulary = 400;
  return settings;
}

}  // namespace

TEST_CASE("documents become tokens that decode to them, the same for any number of threads") {
  const CorpusFolder folder;
  std::vector<std::string> texts;
  std::string rows;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    PhiloxSequence draw(seed);
    texts.push_back("The ship leaves at nine. " + random_utf8(draw, draw.next_below(60)));
    rows += document_row(texts.back(), seed % 3 ? "en" : "it");
  }
  folder.write("corpus/documents.jsonl", rows);
  folder.write("corpus/heldout.jsonl", document_row("zqzqzqzqzqzqzq", "en") + document_row("Zwei", "de"));
  const TokenizeInputs inputs{folder.at("corpus"), ""};
  double last_fraction = -1;
  const Value stats = tokenize_corpus(inputs, small_settings(), folder.at("out"), 3, [&](std::string_view, double f) {
                        last_fraction = f;
                      }).value();
  CHECK(last_fraction == 1.0);
  REQUIRE(tokenize_corpus(inputs, small_settings(), folder.at("out2"), 1).ok());
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "train.bin", "train.idx", "heldout.bin",
                           "heldout.idx", "heldout.txt", "stats.json"}) {
    CAPTURE(name);
    CHECK(read_file(folder.at(std::string("out/") + name)).value() ==
          read_file(folder.at(std::string("out2/") + name)).value());
  }
  const Tokenizer tokenizer = Tokenizer::load(folder.at("out/tokenizer.json")).value();
  CHECK(tokenizer.vocab_size() == 400);
  const auto train = IndexedDataset::open(folder.at("out/train")).value();
  REQUIRE(train.documents() == 200);
  std::int64_t bytes = 0;
  for (std::int64_t d = 0; d < 200; ++d) {
    CHECK(tokenizer.decode(train.read_document(d)) == texts[static_cast<std::size_t>(d)] + "<|endoftext|>");
    bytes += static_cast<std::int64_t>(texts[static_cast<std::size_t>(d)].size());
  }
  const Value& totals = *stats.find("train");
  CHECK(totals.get_integer("text_bytes") == bytes);
  CHECK(totals.get_integer("tokens") == train.tokens() - 200);
  CHECK(totals.find("languages")->find("it")->get_integer("documents") == 66);
  CHECK(read_file(folder.at("out/heldout.txt")).value() == "zqzqzqzqzqzqzq\nZwei\n");
  // "zq" is frequent in the held-out text alone: it must not be a token.
  CHECK(tokenizer.encode("zqzqzqzqzqzqzq").value().size() == 14);
}

TEST_CASE("trust: a pattern that costs too much on a document ends the stage, which names the document") {
  const CorpusFolder folder;
  folder.write("corpus/documents.jsonl", document_row("The ship leaves at nine.", "en"));
  REQUIRE(tokenize_corpus({folder.at("corpus"), ""}, small_settings(), folder.at("out"), 1).ok());
  Value tokenizer = parse_json(read_file(folder.at("out/tokenizer.json")).value(), "tokenizer.json").value();
  Value& split = tokenizer.find("pre_tokenizer")->find("pretokenizers")->as_array()[0];
  split.find("pattern")->set("Regex", "(?:a?){14}b|.");
  folder.write("out/tokenizer.json", to_json(tokenizer));
  folder.write("corpus/documents.jsonl",
               document_row("short", "en") + document_row(std::string(100'000, 'a'), "en") + document_row("b", "en"));
  const auto refused = tokenize_corpus({folder.at("corpus"), folder.at("out")}, small_settings(), folder.at("out2"), 2);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::unsupported);
  CHECK(refused.error().what.find("documents.jsonl, document 2: pattern '(?:a?){14}b|.'") != std::string::npos);
  CHECK_FALSE(file_exists(folder.at("out2/train.idx")));
}

TEST_CASE("an existing tokenizer is used as it is") {
  const CorpusFolder folder;
  folder.write("corpus/documents.jsonl", document_row("The ship leaves at nine. The ship leaves at ten.", "en"));
  REQUIRE(tokenize_corpus({folder.at("corpus"), ""}, small_settings(), folder.at("out"), 1).ok());
  folder.write("corpus/documents.jsonl", document_row("Something else altogether", "en"));
  REQUIRE(tokenize_corpus({folder.at("corpus"), folder.at("out")}, small_settings(), folder.at("out2"), 1).ok());
  CHECK(read_file(folder.at("out/tokenizer.json")).value() == read_file(folder.at("out2/tokenizer.json")).value());
  TokenizeSettings other = small_settings();
  other.end_of_text = "<|eos|>";
  const auto refused = tokenize_corpus({folder.at("corpus"), folder.at("out")}, other, folder.at("out2"), 1);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message().find("<|eos|>") != std::string::npos);
}

TEST_CASE("nothing to tokenize, and lines that are no documents") {
  const CorpusFolder folder;
  const TokenizeInputs inputs{folder.at("corpus"), ""};
  CHECK(tokenize_corpus(inputs, small_settings(), folder.at("out"), 1).error().code == ErrorCode::not_found);
  folder.write("corpus/documents.jsonl", "");
  const auto empty = tokenize_corpus(inputs, small_settings(), folder.at("out"), 1);
  REQUIRE_FALSE(empty.ok());
  CHECK(empty.error().code == ErrorCode::invalid_input);
  CHECK(empty.error().message().find("documents.jsonl") != std::string::npos);
  folder.write("corpus/documents.jsonl", document_row("fine", "en") + "oops\n{\"text\": 3}\n{\"title\": \"x\"}\n");
  const auto bad = tokenize_corpus(inputs, small_settings(), folder.at("out"), 2);
  REQUIRE_FALSE(bad.ok());
  for (const char* part : {"documents.jsonl:2", "documents.jsonl:3", "documents.jsonl:4", "3 errors"}) {
    CAPTURE(part);
    CHECK(bad.error().message().find(part) != std::string::npos);
  }
  TokenizeSettings wrong = small_settings();
  wrong.vocabulary = 100;
  folder.write("corpus/documents.jsonl", document_row("fine", "en"));
  CHECK_FALSE(tokenize_corpus(inputs, wrong, folder.at("out"), 1).ok());
}
