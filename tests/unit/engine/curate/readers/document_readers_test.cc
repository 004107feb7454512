// The table of readers: what is read is what messages say, and no file belongs to two of them.
#include "engine/curate/readers/document_readers.h"

#include <doctest/doctest.h>

#include <set>

#include "base/files/files.h"
#include "tests/support/scratch.h"

using namespace longhaul;

TEST_CASE("document readers: every ending belongs to one reader, and only what is refused has none to read it") {
  std::set<std::string> endings;
  for (const DocumentReader& reader : document_readers()) {
    CHECK_MESSAGE((reader.read == nullptr) == (*reader.type.refusal != '\0'), reader.type.name);
    CHECK(&reader_of(reader.type) == &reader);
    for (const char* ending : reader.type.endings) CHECK_MESSAGE(endings.insert(ending).second, ending);
  }
}

TEST_CASE("document readers: a file of no type is refused with the endings of all that are read") {
  const testing::Scratch scratch;
  const std::string path = join_path(scratch.path(), "picture.png");
  REQUIRE(write_file_atomic(path, "x").ok());
  Diagnostics problems;
  CHECK(find_inputs({path}, document_types(), problems).files.empty());
  REQUIRE(problems.size() == 1);
  const std::string hint = problems.errors()[0].hint;
  CHECK(hint ==
        "documents are .html .htm .xhtml .txt .text .md .jsonl .ndjson .json, each also with .gz .bz2 .xz .zst");
}

TEST_CASE("document readers: records become documents with their lines, a page is one document") {
  const testing::Scratch scratch;
  const std::string records = join_path(scratch.path(), "r.jsonl"), page = join_path(scratch.path(), "p.txt");
  REQUIRE(write_file_atomic(records, "{\"text\": \"one\"}\n\nbroken\n{\"text\": \"two\", \"url\": \"u\"}\n").ok());
  REQUIRE(write_file_atomic(page, "three").ok());
  Diagnostics problems;
  const FoundInputs inputs = find_inputs({records, page}, document_types(), problems);
  REQUIRE(inputs.files.size() == 2);
  std::vector<std::string> found, rejected;
  const auto document = [&](FoundDocument one) { found.push_back(std::to_string(one.record) + one.origin + one.text); };
  const auto record = [&](RejectedRecord one) { rejected.push_back(one.reason); };
  const CurateSettings settings;
  for (const InputFile& file : inputs.files)
    CHECK(reader_of(*file.type).read({file, settings, nullptr, document, record}).ok());
  CHECK(std::set<std::string>(found.begin(), found.end()) == std::set<std::string>{"1one", "4utwo", "0three"});
  CHECK(rejected == std::vector<std::string>{"not_json"});
}

TEST_CASE("document readers: a text of more words than a document may have is several documents of one page") {
  const testing::Scratch scratch;
  const std::string book = join_path(scratch.path(), "book.txt");
  REQUIRE(write_file_atomic(book, "one two three\n\nfour five six\n\nseven").ok());
  Diagnostics problems;
  const FoundInputs inputs = find_inputs({book}, document_types(), problems);
  REQUIRE(inputs.files.size() == 1);
  std::vector<FoundDocument> found;
  const auto document = [&](FoundDocument one) { found.push_back(std::move(one)); };
  const auto record = [](const RejectedRecord&) {};
  CurateSettings settings;
  settings.document_rules.words_max = 6;
  const InputFile& file = inputs.files[0];
  REQUIRE(reader_of(*file.type).read({file, settings, nullptr, document, record}).ok());
  REQUIRE(found.size() == 3);
  CHECK(found[0].text == "one two three");
  CHECK(found[2].text == "seven");
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].record == static_cast<std::int64_t>(i) + 1);
    CHECK(found[i].origin == file.source);
    bytes += found[i].bytes;
  }
  CHECK(bytes == 35);
  found.clear();
  settings.document_rules.words_max = 7;
  REQUIRE(reader_of(*file.type).read({file, settings, nullptr, document, record}).ok());
  REQUIRE(found.size() == 1);
  CHECK(found[0].record == 0);
}
