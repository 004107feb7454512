#include "engine/curate/heldout_pages.h"

#include <doctest/doctest.h>

#include "base/text/text.h"

namespace longhaul {
namespace {

std::map<std::string, std::int64_t> pages_of(int count, std::int64_t bytes) {
  std::map<std::string, std::int64_t> pages;
  for (int i = 0; i < count; ++i) pages[format("p{}", i)] = bytes;
  return pages;
}

TEST_CASE("where no key is written a tenth of a small corpus is held out, and 600,000 bytes of a large one") {
  const CurateSettings settings;
  for (const auto& [count, bytes, most] : {std::tuple{27, 25'000LL, 75'000LL}, std::tuple{400, 2'000LL, 82'000LL},
                                           std::tuple{2000, 10'000LL, 610'000LL}}) {
    CAPTURE(count);
    const HeldoutChoice choice = choose_heldout_pages(pages_of(count, bytes), settings);
    CHECK(choice.all == count * bytes);
    CHECK(choice.taken >= std::min<std::int64_t>(heldout_bytes_most, choice.all / 10));
    CHECK(choice.taken <= most);
    CHECK(choice.key.empty());
    CHECK(choice.note.empty());
  }
}

TEST_CASE(
    "something is always left to train on where no key is written, and of a single page its end is held out and it is "
    "said") {
  const CurateSettings settings;
  for (int count = 1; count <= 6; ++count) {
    CAPTURE(count);
    const HeldoutChoice choice = choose_heldout_pages(pages_of(count, 30'000), settings);
    CHECK(choice.pages.size() == (count > 1 ? 1u : 0u));
    CHECK(choice.cut_page == (count == 1 ? "p0" : ""));
    CHECK(choice.cut_bytes == (count == 1 ? 3'000 : 0));
    CHECK((choice.note.find("are held out, a text like the one that is trained on") != std::string::npos) ==
          (count == 1));
  }
  auto uneven = pages_of(3, 1'000);
  uneven["huge"] = 1'000'000;
  const HeldoutChoice choice = choose_heldout_pages(uneven, settings);
  CHECK(!choice.pages.contains("huge"));
  CHECK(choice.taken == 3'000);
  CHECK(choose_heldout_pages({}, settings).pages.empty());
  CHECK(choose_heldout_pages({}, settings).cut_page.empty());
  CHECK(choose_heldout_pages(pages_of(1, 1'000), settings).cut_bytes == heldout_end_least);
  CHECK(choose_heldout_pages(pages_of(1, 100), settings).cut_bytes == 50);
}

TEST_CASE("a written key is done to the letter, and the note names the one that acted") {
  const auto pages = pages_of(10, 50'000);
  CurateSettings settings;
  settings.heldout_bytes = 600'000;
  HeldoutChoice choice = choose_heldout_pages(pages, settings);
  CHECK(choice.pages.size() == 10);
  CHECK(starts_with(choice.note, "heldout_bytes = 600000 holds out 488.3 KiB of 488.3 KiB"));
  settings.heldout_bytes = 0;
  CHECK(choose_heldout_pages(pages, settings).pages.empty());
  CHECK(choose_heldout_pages(pages, settings).note.empty());  // nothing is what was asked for
  CHECK(choose_heldout_pages(pages_of(1, 50'000), settings).cut_page.empty());
  settings.heldout_fraction = 0.7;
  choice = choose_heldout_pages(pages, settings);
  CHECK(choice.pages.size() == 7);
  CHECK(starts_with(choice.note, "heldout_fraction = 0.7 holds out"));
  settings.heldout_bytes = 400'000;
  choice = choose_heldout_pages(pages, settings);
  CHECK(choice.pages.size() == 8);
  CHECK(choice.key == "heldout_bytes = 400000");
  settings = {};
  settings.heldout_fraction = 0.02;  // alone it decides, though it is less than what the other key would be
  choice = choose_heldout_pages(pages, settings);
  CHECK(choice.pages.size() == 1);
  CHECK(choice.key == "heldout_fraction = 0.02");
}

TEST_CASE("a page is divided at a paragraph, a line, a word or a character, and never in its first half") {
  CHECK(begin_of_heldout_end("one two three\n\nfour five", 9) == 15);
  CHECK(begin_of_heldout_end("one two three four five\nsix seven", 5) == 24);
  CHECK(begin_of_heldout_end("one two three four", 3) == 14);
  CHECK(begin_of_heldout_end("one\n\ntwo three four five six", 5) == 20);  // the paragraph begins too early
  const std::string chinese = "\u6cb3\u6d41\u7ecf\u8fc7\u53e4\u57ce";
  CHECK(begin_of_heldout_end(chinese, 4) == 15);
  CHECK(begin_of_heldout_end(chinese, 1000) == 9);
  CHECK(begin_of_heldout_end("", 10) == 0);
  CHECK(begin_of_heldout_end("a", 10) == 1);
}

}  // namespace
}  // namespace longhaul
