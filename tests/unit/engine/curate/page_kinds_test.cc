// Pages of several kinds, in tests/cases/pages: KEPT is content, GONE is not. Precision and recall are printed.
#include <doctest/doctest.h>

#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/curate/curate_task.h"
#include "engine/curate/html/html_edges.h"
#include "engine/curate/html/html_text.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

const std::string page_cases = LONGHAUL_SOURCE_DIR "/tests/cases/pages";

std::set<std::string> page_marks(const std::string& text, const std::string& mark) {
  std::set<std::string> marks;
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    std::size_t end = at + mark.size();
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    marks.insert(text.substr(at, end - at));
  }
  return marks;
}

TEST_CASE("the content of pages of every kind stays, and their furniture goes") {
  std::size_t pages = 0;
  const auto names = list_tree(page_cases);
  REQUIRE(names.ok());
  for (const std::string& name : *names) {
    if (!ends_with(name, ".html") || starts_with(name, "site/")) continue;
    CAPTURE(name);
    const std::string html = read_file(page_cases + "/" + name).value();
    const std::string text = extract_main_text(html).text;
    const auto wanted = page_marks(html, "KEPT"), found = page_marks(text, "KEPT"), wrong = page_marks(text, "GONE");
    const auto hits = static_cast<double>(found.size());
    MESSAGE(format("{}: precision {:.2f}, recall {:.2f}", name, hits / (hits + static_cast<double>(wrong.size())),
                   hits / static_cast<double>(wanted.size())));
    CHECK(found == wanted);
    CHECK(wrong.empty());
    ++pages;
  }
  CHECK(pages >= 14);
}

TEST_CASE("what half of the pages of a site have in common is not of the page, and is counted") {
  const auto run = [](bool repetition, CurateReport& report) {
    const testing::Scratch scratch;
    CurateSettings settings;
    settings.heldout_bytes = 0;
    settings.threads = 2;
    settings.dedup.near_duplicates = settings.dedup.paragraphs = false;
    settings.site_repetition = repetition;
    auto made = curate({{page_cases + "/site"}}, settings, scratch.path());
    REQUIRE(made.ok());
    report = std::move(made).value();
    return read_file(scratch.file("documents.jsonl")).value();
  };
  CurateReport with, without;
  const std::string text = run(true, with), all = run(false, without);
  CHECK(page_marks(text, "KEPT").size() == 15);
  CHECK(page_marks(text, "GONE").empty());
  CHECK(text.find("Example of a record") != std::string::npos);  // a heading, on all of them
  CHECK(page_marks(all, "GONE").size() == 2);
  std::int64_t counted = 0;
  for (const WaterfallReason& reason : with.steps[1].reasons)
    counted += reason.reason == "repeated_on_site" ? reason.bytes : 0;
  CHECK(counted > 5 * 150);
}

TEST_CASE("copies and versions of one page say nothing about a site") {
  const std::string prose = "<p>The society keeps the records of the coast and lends them to everybody who asks.</p>";
  const auto page = [&](const std::string& own) { return page_blocks(prose + own); };
  const auto own = [](int i) {
    return format("<p>Page number {} tells of another ship, and of the men on it.</p>", i);
  };
  CHECK(repeated_blocks({page(own(1)), page(own(2)), page(own(3))}).empty());
  CHECK(repeated_blocks({page(own(1)), page(own(1)), page(own(1)), page(own(2)), page(own(3))}).empty());
  const RepeatedBlocks repeated = repeated_blocks({page(own(1)), page(own(2)), page(own(3)), page(own(4))});
  CHECK(repeated.size() == 1);
  CHECK(extract_main_text(prose + own(5) + own(6), {}, &repeated).text.find("society") == std::string::npos);
  CHECK(extract_main_text(prose + own(5), {}, &repeated).text.find("society") != std::string::npos);
}

TEST_CASE("labels are a word or two outside of paragraphs, headings and lists") {
  const auto label = [](const char* html) { return is_label(page_blocks(html).at(0)); };
  CHECK(label("<div>Text size</div>"));
  for (const char* other : {"<p>Text size</p>", "<h2>Text size</h2>", "<ul><li>Text size</li></ul>", "<div>Yes.</div>",
                            "<div>#include</div>", "<div>3 of 4</div>", "<pre>make</pre>",
                            "<div>What is longer than a word or two is none</div>"}) {
    CAPTURE(other);
    CHECK(!label(other));
  }
}

}  // namespace
}  // namespace longhaul
