// What runs on several threads: no races (ThreadSanitizer), and the result of one thread.
#include <doctest/doctest.h>

#include <numeric>
#include <random>

#include "base/system/parallel_for.h"
#include "engine/curate/dedup/dedup.h"
#include "engine/curate/filter/language.h"
#include "engine/curate/html/html_text.h"

namespace longhaul {
namespace {

std::vector<std::string> dedup_threads_texts() {
  std::mt19937 random(5);
  std::vector<std::string> texts;
  for (int i = 0; i < 60; ++i) {
    std::string text = i % 3 == 2 ? texts.back() : "";
    for (int w = 0; w < 60; ++w) {
      for (int c = 0; c < 3; ++c) text += static_cast<char>('a' + random() % 26);
      text += w % 20 == 19 ? "\n\n" : w % 7 == 6 ? " \xC3\xA9" : " ";
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

TEST_CASE("every index is visited once") {
  std::vector<int> visits(1000, 0);
  parallel_for(visits.size(), 4, [&](std::size_t i) { ++visits[i]; });
  CHECK(std::accumulate(visits.begin(), visits.end(), 0) == 1000);
  CHECK(visits == std::vector<int>(1000, 1));
  parallel_for(0, 4, [&](std::size_t) { FAIL("nothing to do"); });
}

TEST_CASE("deduplication gives the same on one thread and on four") {
  const auto texts = dedup_threads_texts();
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const std::vector<std::string> languages(texts.size(), "en");
  DedupSettings settings;
  settings.similarity_min = 0.3;
  CHECK(find_exact_duplicates(views, 1) == find_exact_duplicates(views, 4));
  CHECK(find_near_duplicates(views, settings, 1) == find_near_duplicates(views, settings, 4));
  const auto one = remove_repeated_paragraphs(views, languages, settings, 1);
  const auto four = remove_repeated_paragraphs(views, languages, settings, 4);
  CHECK(one.texts == four.texts);
  CHECK(one.paragraphs_removed > 0);
  CHECK(one.paragraphs_removed == four.paragraphs_removed);
}

TEST_CASE("pages are extracted and languages recognised on several threads at once") {
  const std::string page = "<title>T</title><p>This is a sentence about the weather in the north of the country.</p>";
  std::vector<std::string> found(64);
  parallel_for(found.size(), 4, [&](std::size_t i) {
    const std::string text = extract_main_text(page).text;
    found[i] = detect_language(text).code + text;
  });
  CHECK(found == std::vector<std::string>(64, found[0]));
  CHECK(found[0] == "enThis is a sentence about the weather in the north of the country.");
}

}  // namespace
}  // namespace longhaul
