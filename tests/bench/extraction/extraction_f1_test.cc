// Main-content extraction against 181 news pages with the true article text. Prints F1 beside the bar and beside the
// plain peer (all visible text of the page), both measured here; precision and recall for each kind of page; and both
// halves of the pages: rules were found on the one, and the other was looked at as a sum only.
// LONGHAUL_PRINT_PAGES=1 in the environment also prints precision and recall of every page, worst first;
// LONGHAUL_WRITE_TEXTS=FILE writes what was extracted as {page: text}, for compare_extractors.py.
#include <doctest/doctest.h>
#include <time.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/curate/html/html_text.h"
#include "tests/bench/extraction/shingle_score.h"

namespace longhaul {
namespace {

constexpr double f1_bar = 0.97;

std::string read_gzip(const std::string& path) {
  std::string text;
  gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE_MESSAGE(file != nullptr, path);
  char buffer[65536];
  for (int n = 0; (n = gzread(file, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  gzclose(file);
  return text;
}

// Processor time of this thread: a busy machine changes it little.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// What kinds a page belongs to, by its text and its mark-up; "half:" by a hash of its name.
std::vector<std::string> kinds_of(const ValueMember& page, const std::string& html, std::size_t all_bytes) {
  const std::string body = page.value.get_string("articleBody");
  std::size_t wide = 0;
  for (const char c : body) wide += static_cast<unsigned char>(c) >= 0xE0;
  const auto has = [&](const char* tag) { return html.find(tag) != std::string::npos; };
  return {xxh3_64(page.key) % 2 == 0 ? "half: designed on" : "half: held back",
          body.size() < 1500   ? "text: below 1,500 bytes"
          : body.size() < 5000 ? "text: to 5,000 bytes"
                               : "text: longer",
          4 * body.size() < all_bytes ? "page: text below a quarter" : "page: text a quarter or more",
          has("<article") ? "mark-up: <article>" : "mark-up: without <article>",
          10 * wide > body.size() ? "script: three bytes a letter" : "script: shorter"};
}

TEST_CASE("main-content extraction agrees with the true article text") {
  const std::string folder = LONGHAUL_SHARED_DATA "/html";
  if (!file_exists(folder + "/ground-truth.json")) {
    std::puts("skipped: no shared data");
    std::fflush(stdout);
    std::_Exit(77);  // what CTest takes for skipped
  }
  auto text = read_file(folder + "/ground-truth.json");
  REQUIRE(text.ok());
  auto truth = parse_json(*text, "ground-truth.json");
  REQUIRE(truth.ok());
  ShingleMean ours, plain;
  std::map<std::string, ShingleMean> kinds;
  std::map<std::string, int> kind_pages;
  std::vector<std::string> pages;
  Value texts = Value::make_table();
  double seconds = 0, processor_seconds = 0, bytes = 0;
  for (const ValueMember& page : truth->as_table()) {
    const std::string html = read_gzip(folder + "/html/" + page.key + ".html.gz");
    const std::string body = page.value.get_string("articleBody");
    const auto start = std::chrono::steady_clock::now();
    const double processor_start = thread_seconds();
    const std::string found = extract_main_text(html).text;
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    processor_seconds += thread_seconds() - processor_start;
    bytes += static_cast<double>(html.size());
    texts.set(page.key, found);
    const ShingleScore score = shingle_score(body, found);
    ours.add(score);
    const std::string all = extract_all_text(html).text;
    plain.add(shingle_score(body, all));
    for (const std::string& kind : kinds_of(page, html, all.size())) {
      kinds[kind].add(score);
      ++kind_pages[kind];
    }
    pages.push_back(format("{:.3f} p={:.3f} r={:.3f} {} {}", score.true_positive, score.precision(), score.recall(),
                           page.key.substr(0, 12), page.value.get_string("url")));
  }
  if (std::getenv("LONGHAUL_PRINT_PAGES")) {  // precision and recall of every page, worst first
    std::sort(pages.begin(), pages.end());
    for (const std::string& line : pages) std::printf("%s\n", line.c_str());
  }
  if (const char* file = std::getenv("LONGHAUL_WRITE_TEXTS")) REQUIRE(write_file_atomic(file, to_json(texts)).ok());
  const auto count = static_cast<double>(pages.size());
  std::printf("pages %zu, %.1f MB in %.2f s = %.1f MB/s, %.0f pages/s; %.1f MB/s of processor time\n", pages.size(),
              bytes / 1e6, seconds, bytes / 1e6 / seconds, count / seconds, bytes / 1e6 / processor_seconds);
  for (const auto& [kind, mean] : kinds) {
    std::printf("%-32s %4d pages  F1 %.3f  precision %.3f  recall %.3f\n", kind.c_str(), kind_pages[kind], mean.f1(),
                mean.precision(), mean.recall());
  }
  std::printf("%-22s F1 %.3f  precision %.3f  recall %.3f\n", "longhaul", ours.f1(), ours.precision(), ours.recall());
  std::printf("%-22s F1 %.3f  precision %.3f  recall %.3f\n", "all visible text", plain.f1(), plain.precision(),
              plain.recall());
  std::printf("%-22s F1 %.3f\n", "bar", f1_bar);
  CHECK(ours.f1() >= f1_bar);
  CHECK(ours.f1() > plain.f1());
}

}  // namespace
}  // namespace longhaul
