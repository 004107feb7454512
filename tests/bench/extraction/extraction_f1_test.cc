// Main-content extraction against 181 news pages with the true article text. Prints F1 beside the bar and beside the
// plain peer (all visible text of the page), both measured here.
// LONGHAUL_PRINT_PAGES=1 in the environment also prints precision and recall of every page, worst first;
// LONGHAUL_WRITE_TEXTS=FILE writes what was extracted as {page: text}, for compare_extractors.py.
#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/curate/html_text.h"
#include "tests/bench/extraction/shingle_score.h"

namespace longhaul {
namespace {

constexpr double f1_bar = 0.85;

std::string read_gzip(const std::string& path) {
  std::string text;
  gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE_MESSAGE(file != nullptr, path);
  char buffer[65536];
  for (int n = 0; (n = gzread(file, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  gzclose(file);
  return text;
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
  std::vector<std::string> pages;
  Value texts = Value::make_table();
  double seconds = 0, bytes = 0;
  for (const ValueMember& page : truth->as_table()) {
    const std::string html = read_gzip(folder + "/html/" + page.key + ".html.gz");
    const std::string body = page.value.get_string("articleBody");
    const auto start = std::chrono::steady_clock::now();
    const std::string found = extract_main_text(html).text;
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    bytes += static_cast<double>(html.size());
    texts.set(page.key, found);
    const ShingleScore score = shingle_score(body, found);
    ours.add(score);
    plain.add(shingle_score(body, extract_all_text(html).text));
    pages.push_back(format("{:.3f} p={:.3f} r={:.3f} {} {}", score.true_positive, score.precision(), score.recall(),
                           page.key.substr(0, 12), page.value.get_string("url")));
  }
  if (std::getenv("LONGHAUL_PRINT_PAGES")) {  // precision and recall of every page, worst first
    std::sort(pages.begin(), pages.end());
    for (const std::string& line : pages) std::printf("%s\n", line.c_str());
  }
  if (const char* file = std::getenv("LONGHAUL_WRITE_TEXTS")) REQUIRE(write_file_atomic(file, to_json(texts)).ok());
  std::printf("pages %zu, %.1f MB in %.2f s = %.1f MB/s\n", pages.size(), bytes / 1e6, seconds, bytes / 1e6 / seconds);
  std::printf("%-22s F1 %.3f  precision %.3f  recall %.3f\n", "longhaul", ours.f1(), ours.precision(), ours.recall());
  std::printf("%-22s F1 %.3f  precision %.3f  recall %.3f\n", "all visible text", plain.f1(), plain.precision(),
              plain.recall());
  std::printf("%-22s F1 %.3f\n", "bar", f1_bar);
  CHECK(ours.f1() >= f1_bar);
  CHECK(ours.f1() > plain.f1());
}

}  // namespace
}  // namespace longhaul
