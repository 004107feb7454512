// Inputs of the kinds that other tools lost text of, in tests/cases: what is right stands in each folder's README.
#include <doctest/doctest.h>

#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/curate/curate_task.h"
#include "engine/curate/html/html_text.h"
#include "engine/curate/read/unpackers.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

const std::string field_reports = LONGHAUL_SOURCE_DIR "/tests/cases/";

CurateSettings field_settings() {
  CurateSettings settings;
  settings.heldout_bytes = 0;
  settings.threads = 1;
  settings.dedup.near_duplicates = false;
  settings.dedup.paragraphs = false;
  return settings;
}

struct FieldRun {
  CurateReport report;
  std::vector<Value> documents, rejected;
  std::string error;
};

std::vector<Value> field_lines(const std::string& path) {
  std::vector<Value> values;
  const auto text = read_file(path);
  if (!text.ok()) return values;
  for (const std::string& line : split(*text, '\n')) {
    if (!line.empty()) values.push_back(parse_json(line).value());
  }
  return values;
}

FieldRun field_run(const std::vector<std::string>& inputs, const CurateSettings& settings) {
  const testing::Scratch scratch;
  const std::string out = scratch.file("out");
  REQUIRE(make_directories(out).ok());
  FieldRun run;
  auto report = curate({inputs}, settings, out);
  if (report.ok()) run.report = std::move(report).value();
  if (!report.ok()) run.error = report.error().message();
  run.documents = field_lines(out + "/documents.jsonl");
  run.rejected = field_lines(out + "/rejected.jsonl");
  return run;
}

Value field_expectations(const std::string& folder) {
  return parse_json(read_file(field_reports + folder + "/expect.json").value()).value();
}

std::size_t field_count(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

// What is to be kept begins with KEPT, what is to go with GONE.
std::multiset<std::string> field_marks(const std::string& text, const std::string& mark) {
  std::multiset<std::string> marks;
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1))
    marks.insert(text.substr(at, text.find(' ', at) - at));
  return marks;
}

TEST_CASE("a section that reads as prose stays whatever its name is, and what is page furniture goes") {
  std::size_t wanted = 0, found = 0;
  for (const char* folder : {"section-names/given", "section-names/own"}) {
    const FieldRun run = field_run({field_reports + folder}, field_settings());
    CHECK(run.documents.size() == (folder == std::string("section-names/given") ? 11 : 14));
    for (const Value& document : run.documents) {
      const std::string name = document.get_string("source"), text = document.get_string("text");
      CAPTURE(name);
      const std::string html = read_file(field_reports + folder + "/" + name).value();
      CHECK(field_marks(text, "KEPT") == field_marks(html, "KEPT"));
      CHECK(field_marks(text, "GONE").empty());
      wanted += field_marks(html, "KEPT").size();
      found += field_marks(text, "KEPT").size();
    }
  }
  MESSAGE("paragraphs in sections with unlucky names: " << found << " of " << wanted);
  CHECK(wanted >= 80);
}

TEST_CASE("a formula stands in its sentence once, as LaTeX") {
  const auto check = [](const std::string& folder, const std::string& name, const std::string& latex) {
    CAPTURE(name);
    const std::string text = extract_main_text(read_file(field_reports + folder + name).value()).text;
    const std::string sentence = latex.starts_with("\\(") ? latex : "$" + latex + "$";
    CHECK(field_count(text, sentence) == 1);
    CHECK(field_count(text, "Intro0") == 1);
  };
  check("formulas/given/", "katex.html", "x^2");
  check("formulas/given/", "hidden-mathml.html", "\\pi r^{2}");
  const Value expected = field_expectations("formulas/own");
  CHECK(expected.size() >= 10);
  for (const ValueMember& member : expected.as_table()) check("formulas/own/", member.key, member.value.as_string());
  const std::string katex = extract_main_text(read_file(field_reports + "formulas/given/katex.html").value()).text;
  CHECK(katex.find("We square it: $x^2$ and we are done") != std::string::npos);
}

TEST_CASE("a broken record is counted and named, and the rest of its file is read") {
  CurateSettings settings = field_settings();
  settings.dedup.exact = false;  // cut.jsonl.gz holds lines of lines.jsonl
  const FieldRun given = field_run({field_reports + "broken-lines/given"}, settings);
  CHECK(given.error == "");
  CHECK(given.report.rejected == 7);
  std::size_t of_lines = 0, of_cut = 0;
  for (const Value& document : given.documents)
    ++(document.get_string("source").starts_with("lines.jsonl") ? of_lines : of_cut);
  CHECK(of_lines == 20);
  CHECK(of_cut == 12);
  std::set<std::string> places;
  for (const Value& r : given.rejected)
    places.insert(format("{}:{} {}", r.get_string("file"), r.get_integer("line"), r.get_string("reason")));
  CHECK(places == std::set<std::string>{"lines.jsonl:9 not_json", "lines.jsonl:10 not_json",
                                        "lines.jsonl:11 not_an_object", "lines.jsonl:12 no_text",
                                        "lines.jsonl:14 no_text", "lines.jsonl:15 no_text", "cut.jsonl.gz:13 cut"});
  CHECK(given.report.steps.front().step == "read");
  CHECK(given.report.steps.front().documents_in == 39);
  CHECK(given.report.steps.front().documents_out == 32);
}

TEST_CASE("files of every packing, charset and line end give their whole records") {
  const Value expected = field_expectations("broken-lines/own");
  CHECK(expected.size() >= 10);
  for (const ValueMember& member : expected.as_table()) {
    CAPTURE(member.key);
    const std::size_t dot = member.key.rfind('.');
    const bool built_in = is_packing_built_in(member.key.substr(dot));
    const FieldRun run = field_run({field_reports + "broken-lines/own/" + member.key}, field_settings());
    if (!built_in) {
      CHECK(run.error.find("needs a library") != std::string::npos);
      continue;
    }
    CHECK(static_cast<std::int64_t>(run.documents.size()) == member.value.get_integer("documents"));
    CHECK(static_cast<std::int64_t>(run.rejected.size()) == member.value.get_integer("rejected"));
  }
}

TEST_CASE("more broken records than the settings allow are an error that names the first") {
  CurateSettings settings = field_settings();
  settings.rejected_min = 6;
  const FieldRun run = field_run({field_reports + "broken-lines/given"}, settings);
  CHECK(run.error.find("7 of 39 records and files are broken, of which 6 may be") != std::string::npos);
  CHECK(run.error.find("cut.jsonl.gz:13") != std::string::npos);
  CHECK(run.rejected.size() == 7);
  CHECK(run.documents.empty());
  settings.rejected_share_max = 0.2;
  CHECK(field_run({field_reports + "broken-lines/given"}, settings).error == "");
}

TEST_CASE("a record that is far too long, and a file that unpacks without end, cost bounded memory") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("long.jsonl");
  std::string text = "{\"text\": \"" + std::string(5 << 20, 'x') + "\"}\n";
  text += read_file(field_reports + "broken-lines/given/lines.jsonl").value();
  REQUIRE(write_file_atomic(path, text).ok());
  CurateSettings settings = field_settings();
  settings.page_bytes_max.value = 1 << 20;
  const FieldRun run = field_run({path}, settings);
  CHECK(run.documents.size() == 20);
  REQUIRE(run.rejected.size() == 7);
  CHECK(run.rejected[0].get_string("reason") == "too_long");
  CHECK(run.rejected[0].get_integer("bytes") == (5 << 20) + 12);
  CHECK(run.rejected[0].get_string("start").size() == 80);
  settings.page_bytes_max.value = 1 << 10;  // one record of more than 256 times that ends the reading of its file
  const FieldRun endless = field_run({path, field_reports + "broken-lines/own/bom.jsonl"}, settings);
  CHECK(endless.documents.size() == 2);
  CHECK(endless.rejected.size() == 1);
}

TEST_CASE("columns of Parquet are refused by name") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("rows.parquet");
  REQUIRE(write_file_atomic(path, "PAR1").ok());
  CHECK(field_run({path}, field_settings()).error.find("write the file as JSON lines") != std::string::npos);
}

TEST_CASE("text of any script is judged by its own marks and words") {
  CurateSettings settings = field_settings();
  settings.languages = {"th"};
  const FieldRun thai = field_run({field_reports + "scripts/given"}, settings);
  CHECK(thai.error == "");
  CHECK(thai.documents.size() == 1);
  CHECK(thai.report.rules_left_out.at("th").contains("sentence_end_lines_min"));
  CHECK(thai.report.rules_left_out.at("th").contains("stop_words_min"));
  for (const char* name : {"lao.txt", "khmer.txt", "burmese.txt", "tibetan.txt", "chinese.txt", "japanese.txt",
                           "arabic.txt", "hindi.txt", "amharic.txt", "urdu.txt", "thai-line.txt", "mixed.txt"}) {
    CAPTURE(name);
    const FieldRun run = field_run({field_reports + "scripts/own/" + name}, field_settings());
    CHECK(run.error == "");
    CHECK(run.documents.size() == 1);
  }
}

TEST_CASE("tables and lists that differ in numbers only are not duplicates, unless digits are to be ignored") {
  CurateSettings settings = field_settings();
  settings.dedup.near_duplicates = true;
  CHECK(field_run({field_reports + "numbers/given"}, settings).documents.size() == 8);
  for (const char* name :
       {"minus", "decimals", "prices", "times", "scores", "versions", "coordinates", "budget", "doses", "dice"}) {
    CAPTURE(name);
    const std::string path = field_reports + "numbers/own/" + name;
    CHECK(field_run({path + "-0.txt", path + "-1.txt"}, settings).documents.size() == 2);
  }
  settings.dedup.ignore_digits = true;
  CHECK(field_run({field_reports + "numbers/given"}, settings).documents.size() == 1);
}

}  // namespace
}  // namespace longhaul
