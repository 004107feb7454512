#include "engine/curate/curate_task.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <map>
#include <random>
#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/curate/extract/clean_text.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

// A scratch folder with an input and an output side.
class CurateScratch {
 public:
  CurateScratch() {
    REQUIRE(make_directories(in()).ok());
    REQUIRE(make_directories(out()).ok());
  }
  std::string in() const { return scratch_.file("in"); }
  std::string out() const { return scratch_.file("out"); }
  void put(const std::string& path, const std::string& text) const {
    REQUIRE(make_directories(parent_path(in() + "/" + path)).ok());
    REQUIRE(write_file_atomic(in() + "/" + path, text).ok());
  }
  Result<CurateReport> run(const CurateSettings& settings) const { return curate({{in()}}, settings, out()); }
  std::string text(const std::string& name) const { return read_file(out() + "/" + name).value(); }
  std::vector<Value> lines(const std::string& name) const {
    std::vector<Value> values;
    for (const std::string& line : split(text(name), '\n')) {
      if (!line.empty()) values.push_back(parse_json(line).value());
    }
    return values;
  }

 private:
  testing::Scratch scratch_;
};

const WaterfallStep& curate_step(const CurateReport& report, const std::string& name) {
  for (const WaterfallStep& step : report.steps) {
    if (step.step == name) return step;
  }
  FAIL("no step " << name);
  return report.steps.front();
}

// English prose whose sentences are all different, from a seed.
std::string curate_prose(std::uint32_t seed, int sentences) {
  static const char* const words[] = {"boat",   "harbour", "letter", "river",   "winter", "bread",   "stone",  "garden",
                                      "music",  "paper",   "engine", "window",  "story",  "teacher", "market", "apple",
                                      "silver", "bridge",  "cloud",  "lantern", "map",    "coat",    "island", "clock"};
  std::mt19937 random(seed);
  const auto word = [&] { return words[random() % std::size(words)]; };
  std::string text;
  for (int i = 0; i < sentences; ++i) {
    text += format("{}The {} of the {} and a {} came to the {} with the {} that we have seen near the {}.",
                   i == 0       ? ""
                   : i % 3 == 0 ? "\n\n"
                                : " ",
                   word(), word(), word(), word(), word(), word());
  }
  return text;
}

std::string curate_page(const std::string& prose) {
  std::string body;
  for (const std::string& paragraph : split(replace_all(prose, "\n\n", "\x01"), '\x01'))
    body += "<p>" + paragraph + "</p>\n";
  return "<html><head><title>Page</title></head><body><ul class='nav'><li><a href='x'>Home</a></li></ul><div>" + body +
         "</div></body></html>";
}

CurateSettings curate_plain_settings() {
  CurateSettings settings;
  settings.heldout_bytes = 0;
  settings.threads = 2;
  settings.document_rules.duplicate_ngrams_max.clear();  // the made-up prose repeats phrases
  settings.document_rules.top_ngrams_max.clear();
  return settings;
}

TEST_CASE("pages of several types become a corpus with a waterfall that adds up") {
  const CurateScratch scratch;
  scratch.put("en/a.html", curate_page(curate_prose(1, 12)));
  scratch.put("en/copy.html", curate_page(curate_prose(1, 12)));
  scratch.put("notes.txt", curate_prose(2, 12));
  scratch.put("short.md", "Too short.");
  scratch.put("empty.html", "");
  scratch.put("more.jsonl",
              "{\"text\": " + to_json(Value(curate_prose(3, 12))) + ", \"title\": \"Three\"}\n\n{\"text\": \"\"}\n");
  scratch.put("picture.png", "not a document");
  const auto report = scratch.run(curate_plain_settings());
  REQUIRE_MESSAGE(report.ok(), report.error().message());
  CHECK(report->files == 6);
  CHECK(report->documents == 3);
  const auto documents = scratch.lines("documents.jsonl");
  REQUIRE(documents.size() == 3);
  CHECK(documents[0].get_string("source") == "en/a.html");
  CHECK(documents[0].get_string("page") == "a.html");
  CHECK(documents[0].get_string("title") == "Page");
  CHECK(documents[0].get_string("language") == "en");
  CHECK(documents[0].get_string("text") == curate_prose(1, 12));
  CHECK(documents[1].get_string("source") == "more.jsonl#1");
  CHECK(documents[1].get_string("title") == "Three");

  std::map<std::string, std::string> reasons;
  for (const Value& line : scratch.lines("removed.jsonl"))
    reasons[line.get_string("source")] = line.get_string("step") + "/" + line.get_string("reason");
  CHECK(reasons == std::map<std::string, std::string>{{"en/copy.html", "exact_duplicates/same_text"},
                                                      {"short.md", "language/unknown"},
                                                      {"empty.html", "clean/empty"},
                                                      {"more.jsonl#3", "clean/empty"}});
  std::int64_t documents_before = report->steps.front().documents_in, bytes_before = report->steps.front().bytes_in;
  for (const WaterfallStep& step : report->steps) {
    CAPTURE(step.step);
    CHECK(step.documents_in == documents_before);
    CHECK(step.bytes_in == bytes_before);
    std::int64_t removed = 0;
    for (const WaterfallReason& reason : step.reasons) removed += reason.documents;
    CHECK(step.documents_in - step.documents_out == removed);
    documents_before = step.documents_out;
    bytes_before = step.bytes_out;
  }
  CHECK(documents_before == 3);
  CHECK(parse_json(scratch.text("waterfall.json"))->size() == report->steps.size());
  CHECK(parse_json(scratch.text("languages.json"))->as_array()[0].get_string("language") == "en");
}

TEST_CASE("the files are the same with one thread and with four") {
  const CurateScratch scratch;
  for (std::uint32_t i = 0; i < 30; ++i)
    scratch.put(format("p{}.html", i), curate_page(curate_prose(i % 20, 10) + "\n\n" + curate_prose(i, 4)));
  CurateSettings settings = curate_plain_settings();
  settings.heldout_fraction = 0.2;
  std::map<int, std::string> results;
  for (const int threads : {1, 4}) {
    settings.threads = threads;
    const auto report = scratch.run(settings);
    REQUIRE(report.ok());
    results[threads] = scratch.text("documents.jsonl") + scratch.text("heldout.jsonl") + scratch.text("removed.jsonl");
  }
  CHECK(results[1] == results[4]);
}

std::set<std::string> curate_paragraphs(const std::vector<Value>& documents) {
  std::set<std::string> keys;
  for (const Value& document : documents) {
    for (const std::string& line : split(document.get_string("text"), '\n')) {
      if (line.size() >= 40) keys.insert(comparison_key(line));
    }
  }
  return keys;
}

TEST_CASE("held-out pages are held out in all languages, and no paragraph of theirs is trained on") {
  const CurateScratch scratch;
  for (std::uint32_t i = 0; i < 40; ++i) {
    // The same page thrice; the second half of each page also stands on another page.
    const std::string shared = curate_prose(1000 + i / 2, 3);
    scratch.put(format("en/p{}.html", i), curate_page(curate_prose(3 * i, 8) + "\n\n" + shared));
    scratch.put(format("en-GB/p{}.html", i), curate_page(curate_prose(3 * i + 1, 8) + "\n\n" + shared));
    scratch.put(format("x/en-US/p{}.en.html", i), curate_page(curate_prose(3 * i + 2, 8)));
  }
  for (const bool paragraphs : {true, false}) {
    CAPTURE(paragraphs);
    CurateSettings settings = curate_plain_settings();
    settings.heldout_fraction = 0.15;
    settings.dedup.paragraphs = paragraphs;
    const auto report = scratch.run(settings);
    REQUIRE_MESSAGE(report.ok(), report.error().message());
    CHECK(report->heldout_bytes >= 0.12 * static_cast<double>(report->heldout_bytes + report->bytes));
    CHECK(report->heldout_bytes <= 0.25 * static_cast<double>(report->heldout_bytes + report->bytes));
    std::set<std::string> training_pages;
    for (const Value& document : scratch.lines("documents.jsonl")) training_pages.insert(document.get_string("page"));
    for (const Value& document : scratch.lines("heldout.jsonl"))
      CHECK_FALSE(training_pages.contains(document.get_string("page")));
    const auto training = curate_paragraphs(scratch.lines("documents.jsonl"));
    const auto heldout = curate_paragraphs(scratch.lines("heldout.jsonl"));
    CHECK(heldout.size() > 10);
    for (const std::string& key : heldout) CHECK_FALSE(training.contains(key));
  }
}

TEST_CASE("what joins into a held-out paragraph once a held-out line is gone from between is not trained on either") {
  // Whichever of the two pages is held out, the other one has its line amid two short ones of its next paragraph.
  const auto line = [](const char* whose) {
    return format("The {} letter of the harbour came with the winter boat.", whose);
  };
  const auto page = [&](int prose, const char* own, const char* other, const std::string& first_of_other,
                        const std::string& second_of_other, const std::string& first, const std::string& second) {
    return curate_prose(static_cast<std::uint32_t>(prose), 12) + "\n\n" + first_of_other + "\n" + line(other) + "\n" +
           second_of_other + "\n\n" + line(own) + "\n\n" + first + "\n" + second;
  };
  const std::string s1 = "A lamp and a boat on the water", s2 = "the coat of an old teacher";
  const std::string t1 = "A map of the garden with a wall", t2 = "the clock in the silver room";
  const CurateScratch scratch;
  scratch.put("x.txt", page(71, "first", "second", s1, s2, t1, t2));
  scratch.put("y.txt", page(72, "second", "first", t1, t2, s1, s2));
  CurateSettings settings = curate_plain_settings();
  settings.heldout_fraction = 0.3;
  settings.dedup.paragraphs = false;
  const auto report = scratch.run(settings);
  REQUIRE_MESSAGE(report.ok(), report.error().message());
  REQUIRE(report->heldout_documents == 1);
  const auto kept = scratch.lines("documents.jsonl");
  REQUIRE(kept.size() == 1);
  const std::string text = kept[0].get_string("text");
  const bool first_is_kept = text.find(curate_prose(71, 1)) == 0;
  CHECK(first_is_kept != (text.find(curate_prose(72, 1)) == 0));
  const std::vector<std::string> joined = first_is_kept ? std::vector{s1, s2} : std::vector{t1, t2};
  for (const std::string& gone : {line("first"), line("second"), joined[0], joined[1]}) {
    CAPTURE(gone);
    CHECK(text.find(gone) == std::string::npos);
  }
}

TEST_CASE("an English passage left in a translation stays with the English page") {
  const CurateScratch scratch;
  const std::string english = curate_prose(5, 6);
  const std::string spanish =
      "Este libro describe la instalaci\xC3\xB3n del sistema y la configuraci\xC3\xB3n de la red de una empresa "
      "peque\xC3\xB1"
      "a. Cada cap\xC3\xADtulo trata un tema "
      "distinto y termina con ejemplos que el lector puede repetir en su propio ordenador.\n\nLos autores agradecen la "
      "ayuda de muchas personas que han "
      "le\xC3\xAD"
      "do los borradores y han corregido los errores de las primeras versiones de este texto tan largo.";
  scratch.put("ca/page.html", curate_page(english));  // not translated at all
  scratch.put("en/page.html", curate_page(english));
  scratch.put("es/page.html", curate_page(spanish + "\n\n" + english));  // half translated
  CurateSettings settings = curate_plain_settings();
  settings.document_share_min = 0;
  REQUIRE(scratch.run(settings).ok());
  const auto documents = scratch.lines("documents.jsonl");
  REQUIRE(documents.size() == 2);
  CHECK(documents[0].get_string("source") == "en/page.html");
  CHECK(documents[0].get_string("text") == english);
  CHECK(documents[1].get_string("source") == "es/page.html");
  CHECK(documents[1].get_string("text") == spanish);
}

TEST_CASE("inputs that cannot be read are reported all together, and nothing is written") {
  const CurateScratch scratch;
  scratch.put("good.html", curate_page(curate_prose(1, 12)));
  scratch.put("broken.txt.gz", std::string("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03garbage", 17));
  scratch.put("data.bin", "");
  const auto report = curate({{scratch.in(), scratch.in() + "/absent.html", scratch.in() + "/data.bin",
                               scratch.in() + "/*.htm", scratch.in() + "/broken.txt.gz"}},
                             curate_plain_settings(), scratch.out());
  REQUIRE_FALSE(report.ok());
  const std::string message = report.error().message();
  CAPTURE(message);
  for (const char* part : {"broken.txt.gz", "absent.html", "data.bin", "*.htm", "4 errors"}) {
    CAPTURE(part);
    CHECK(message.find(part) != std::string::npos);
  }
  CHECK_FALSE(file_exists(scratch.out() + "/documents.jsonl"));
}

TEST_CASE("a file of a folder that cannot be read is left out and counted") {
  const CurateScratch scratch;
  scratch.put("good.html", curate_page(curate_prose(1, 12)));
  scratch.put("broken.txt.gz", std::string("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03garbage", 17));
  const auto report = scratch.run(curate_plain_settings());
  REQUIRE(report.ok());
  CHECK(report->documents == 1);
  CHECK(report->unreadable_files == 1);
  CHECK(report->first_unreadable.find("broken.txt.gz") != std::string::npos);
  const WaterfallStep& read = report->steps.front();
  CHECK(read.documents_in == 2);
  REQUIRE(read.reasons.size() == 1);
  CHECK(read.reasons[0].reason == "unreadable");
  const auto removed = scratch.lines("removed.jsonl");
  REQUIRE(removed.size() == 1);
  CHECK(removed[0].get_string("source") == "broken.txt.gz");
}

TEST_CASE("an empty corpus is an error with its biggest cause and a remedy") {
  const CurateScratch scratch;
  scratch.put("a.txt", "This is a sentence that is much too short to be kept in any corpus.");
  scratch.put("b.txt", "And this is another one, which is not very much longer than the first.");
  scratch.put("c.html", "");
  const auto report = scratch.run(curate_plain_settings());
  REQUIRE_FALSE(report.ok());
  CHECK(report.error().what == "no document is left of 3: step document_rules removed 2, 2 of them for words_min");
  CHECK(report.error().hint.find("document_rules.words_min") != std::string::npos);
  CHECK(parse_json(scratch.text("waterfall.json")).ok());
  CHECK(scratch.lines("removed.jsonl").size() == 3);
  CHECK_FALSE(file_exists(scratch.out() + "/documents.jsonl"));
}

TEST_CASE("a small corpus keeps most of its text for training by default, and a key that takes all is named") {
  const CurateScratch scratch;
  for (std::uint32_t i = 0; i < 20; ++i) scratch.put(format("p{}.html", i), curate_page(curate_prose(500 + i, 30)));
  CurateSettings settings = curate_plain_settings();
  settings.heldout_bytes = CurateSettings{}.heldout_bytes;
  const auto report = scratch.run(settings);
  REQUIRE_MESSAGE(report.ok(), report.error().message());
  CHECK(report->heldout_documents >= 2);
  CHECK(report->heldout_documents <= 3);
  CHECK(report->documents >= 17);
  CHECK(report->heldout_note.empty());
  settings.heldout_bytes = 600'000;
  const auto all = scratch.run(settings);
  REQUIRE_FALSE(all.ok());
  CHECK(all.error().what.find("of them for held_out") != std::string::npos);
  CHECK(all.error().hint == "lower heldout_bytes = 600000, or give more pages");
}

TEST_CASE("of a corpus of one page the end is held out, is nowhere in what is trained on, and it is said") {
  const CurateScratch scratch;
  scratch.put("only.html", curate_page(curate_prose(500, 30)));
  CurateSettings settings = curate_plain_settings();
  settings.heldout_bytes = CurateSettings{}.heldout_bytes;
  const auto report = scratch.run(settings);
  REQUIRE_MESSAGE(report.ok(), report.error().message());
  CHECK(report->documents == 1);
  CHECK(report->heldout_documents == 1);
  CHECK(report->heldout_bytes >= report->bytes / 10);
  CHECK(report->heldout_bytes < report->bytes / 2);
  CHECK(report->heldout_note.find("only.html") != std::string::npos);
  const auto kept = scratch.lines("documents.jsonl"), held = scratch.lines("heldout.jsonl");
  REQUIRE(kept.size() == 1);
  REQUIRE(held.size() == 1);
  CHECK(held[0].get_string("source") == "only.html#end");
  const std::string end = held[0].get_string("text");
  CHECK(kept[0].get_string("text").find(end.substr(0, 60)) == std::string::npos);
}

TEST_CASE("random bytes, monstrous nesting and too large pages are removed or read, never fatal") {
  const CurateScratch scratch;
  std::mt19937 random(1);
  std::string noise;
  for (int i = 0; i < 100'000; ++i) noise += static_cast<char>(random() & 0xFF);
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<div>";
  scratch.put("good.html", curate_page(curate_prose(1, 12)));
  scratch.put("noise.html", noise);
  scratch.put("noise.txt", noise);
  scratch.put("deep.html", deep + curate_page(curate_prose(2, 12)));
  scratch.put("large.html", std::string(3 << 20, 'x'));
  CurateSettings settings = curate_plain_settings();
  settings.page_bytes_max.value = 2 << 20;
  const auto report = scratch.run(settings);
  REQUIRE_MESSAGE(report.ok(), report.error().message());
  CHECK(report->documents == 2);
  CHECK(curate_step(*report, "extract").reasons[0].reason == "too_large");
}

TEST_CASE("gzip files are read, languages chosen, settings checked") {
  const CurateScratch scratch;
  const std::string page = curate_page(curate_prose(4, 12));
  gzFile file = gzopen((scratch.in() + "/a.html.gz").c_str(), "wb");
  gzwrite(file, page.data(), static_cast<unsigned>(page.size()));
  gzclose(file);
  CurateSettings settings = curate_plain_settings();
  settings.languages = {"en"};
  CHECK(scratch.run(settings)->documents == 1);
  settings.languages = {"fr"};
  const auto none = scratch.run(settings);
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().hint.find("`languages`") != std::string::npos);
  settings.heldout_fraction = 1.5;
  CHECK_FALSE(scratch.run(settings).ok());
}

TEST_CASE("progress reports steps and counts") {
  const CurateScratch scratch;
  for (std::uint32_t i = 0; i < 5; ++i) scratch.put(format("p{}.txt", i), curate_prose(i, 12));
  std::set<std::string> steps;
  std::int64_t read = 0;
  const auto report = curate({{scratch.in()}}, curate_plain_settings(), scratch.out(), [&](const CurateProgress& p) {
    steps.insert(p.step);
    if (p.step == "read") {
      CHECK(p.done == ++read);
      CHECK(p.total == 5);
    }
  });
  REQUIRE(report.ok());
  CHECK(read == 5);
  CHECK(steps.contains("near_duplicates"));
}

}  // namespace
}  // namespace longhaul
