#include "engine/curate/corpus_files.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

CurateDocument document_in(const char* language, std::size_t bytes) {
  CurateDocument document;
  document.language = language;
  document.text = std::string(bytes, 'x');
  return document;
}

TEST_CASE("languages are counted over training and held-out documents, most bytes first") {
  const std::vector<CurateDocument> training = {document_in("ca", 10), document_in("es", 30), document_in("en", 30)};
  const std::vector<CurateDocument> heldout = {document_in("ca", 5), document_in("eu", 1)};
  const std::vector<LanguageShare> shares = language_shares(training, heldout);
  REQUIRE(shares.size() == 4);
  CHECK(shares[0].language == "en");  // of as many bytes as "es": by name
  CHECK(shares[1].language == "es");
  CHECK(shares[2].language == "ca");
  CHECK(shares[2].documents == 2);
  CHECK(shares[2].bytes == 15);
  CHECK(shares[2].heldout_documents == 1);
  CHECK(shares[2].heldout_bytes == 5);
  CHECK(shares[3].language == "eu");
  CHECK(shares[3].heldout_bytes == 1);
  CHECK(text_bytes(training) == 70);
}

TEST_CASE("a document's line has what is known of it, and no key for what is not") {
  CurateDocument document = document_in("ca", 2);
  document.id = "00ff", document.source = "a.html", document.page = "a", document.title = "T";
  CHECK(document_lines({document}) ==
        R"({"id":"00ff","source":"a.html","page":"a","language":"ca","title":"T","text":"xx"})"
        "\n");
  document.author = "A", document.url = "http://a";
  CHECK(document_lines({document}) ==
        R"({"id":"00ff","source":"a.html","page":"a","language":"ca","title":"T","author":"A","url":"http://a",)"
        R"("text":"xx"})"
        "\n");
  CHECK(document_lines({}) == "");
}

TEST_CASE("a rejected record is reported with its line, if it has one, and how it begins") {
  RejectedRecord record;
  record.file = "a.jsonl", record.line = 3, record.reason = "syntax", record.detail = "no object", record.bytes = 4;
  record.start = "[1,2";
  CHECK(rejected_text(record) == "a.jsonl:3: syntax: no object ([1,2)");
  CHECK(rejected_lines({record}) ==
        R"({"file":"a.jsonl","line":3,"reason":"syntax","detail":"no object","bytes":4,"start":"[1,2"})"
        "\n");
  record.line = 0, record.start = "";
  CHECK(rejected_text(record) == "a.jsonl: syntax: no object");
}

}  // namespace
}  // namespace longhaul
