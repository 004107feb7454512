#include "engine/curate/dedup/dedup.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "base/text/text.h"

namespace longhaul {
namespace {

// One of 17,576 words, all letters.
std::string dedup_word(std::mt19937& random) {
  std::string word;
  for (int i = 0; i < 3; ++i) word += static_cast<char>('a' + random() % 26);
  return word;
}

// A text of random words, so two of them share no shingle.
std::string dedup_random_text(std::mt19937& random, int words) {
  std::string text;
  for (int i = 0; i < words; ++i) text += (i == 0 ? "" : " ") + dedup_word(random);
  return text;
}

// The same with a share of its words replaced.
std::string dedup_disturbed(std::mt19937& random, const std::string& text, double share) {
  std::string result;
  for (const std::string& word : split(text, ' ')) {
    const bool change = static_cast<double>(random() % 10000) < share * 10000;
    result += (result.empty() ? "" : " ") + (change ? dedup_word(random) : word);
  }
  return result;
}

std::vector<std::string_view> dedup_views(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

TEST_CASE("exact duplicates: the first stays, case and punctuation do not count") {
  const std::vector<std::string> texts = {"One text.", "Another text", "one TEXT", "Another, text!", "A third"};
  CHECK(find_exact_duplicates(dedup_views(texts), 2) == std::vector<std::size_t>{0, 1, 0, 1, 4});
}

TEST_CASE("a signature estimates the Jaccard similarity of the shingles") {
  std::mt19937 random(7);
  DedupSettings settings;
  settings.bands = 64;
  const std::string a = dedup_random_text(random, 2000);
  const auto half = split(a, ' ');
  std::string b;
  for (std::size_t i = 0; i < 1000; ++i) b += half[i] + " ";
  b += dedup_random_text(random, 1000);
  // 996 of 2 x 1,996 - 996 shingles are shared.
  const double truth = 996.0 / (2 * 1996 - 996);
  CHECK(signature_similarity(minhash_signature(a, settings), minhash_signature(b, settings)) ==
        doctest::Approx(truth).epsilon(0.2));
  CHECK(signature_similarity(minhash_signature(a, settings), minhash_signature(a, settings)) == 1);
}

TEST_CASE("planted near-duplicates are found, others kept") {
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<std::string> texts;
    const std::size_t originals = 60;
    for (std::size_t i = 0; i < originals; ++i) texts.push_back(dedup_random_text(random, 300));
    // One word in a hundred changed leaves a similarity of about 0.9; one in six, of about 0.25.
    for (std::size_t i = 0; i < originals; ++i) texts.push_back(dedup_disturbed(random, texts[i], 0.01));
    for (std::size_t i = 0; i < originals; ++i) texts.push_back(dedup_disturbed(random, texts[i], 0.17));
    const auto kept = find_near_duplicates(dedup_views(texts), DedupSettings(), 2);
    int found = 0, wrong = 0;
    for (std::size_t i = 0; i < originals; ++i) {
      CHECK(kept[i] == i);
      found += kept[originals + i] == i;
      wrong += kept[2 * originals + i] != 2 * originals + i;
    }
    CHECK(found >= 58);
    CHECK(wrong == 0);
  }
}

TEST_CASE("whether two texts that share a band are near-duplicates is decided by similarity_min") {
  DedupSettings settings;
  settings.bands = 112, settings.rows = 1;  // every pair with one equal entry is looked at
  const std::uint32_t seed = 4;
  CAPTURE(seed);
  std::mt19937 random(seed);
  int above = 0, below = 0;
  for (const double share : {0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.12}) {
    const std::string text = dedup_random_text(random, 400), other = dedup_disturbed(random, text, share);
    const double similarity =
        signature_similarity(minhash_signature(text, settings), minhash_signature(other, settings));
    CAPTURE(similarity);
    for (const double least : {0.5, 0.6, 0.7, 0.8, 0.9}) {
      settings.similarity_min = least;
      const bool similar = similarity >= least;
      (similar ? above : below) += 1;
      CHECK(find_near_duplicates({text, other}, settings, 1)[1] == (similar ? 0 : 1));
    }
    settings.similarity_min = similarity;  // exactly as similar as asked for
    CHECK(find_near_duplicates({text, other}, settings, 1)[1] == 0);
  }
  CHECK(above >= 5);
  CHECK(below >= 5);
}

TEST_CASE("two texts are compared where every row of a band is equal, and nowhere else") {
  DedupSettings settings;
  settings.bands = 1, settings.rows = 2, settings.similarity_min = 0;  // whoever is compared is similar
  const std::uint32_t seed = 6;
  CAPTURE(seed);
  std::mt19937 random(seed);
  int both = 0, first = 0, second = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string text = dedup_random_text(random, 60), other = dedup_disturbed(random, text, 0.08);
    const MinHashSignature a = minhash_signature(text, settings), b = minhash_signature(other, settings);
    REQUIRE(a.size() == 2);
    const bool in_first = a[0] == b[0], in_second = a[1] == b[1];
    CHECK((find_near_duplicates({text, other}, settings, 1)[1] == 0) == (in_first && in_second));
    both += in_first && in_second, first += in_first && !in_second, second += !in_first && in_second;
  }
  CHECK(both >= 5);
  CHECK(first >= 5);
  CHECK(second >= 5);
}

TEST_CASE("pages that differ in their digits alone are near-duplicates where digits are ignored") {
  const std::uint32_t seed = 5;
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::string one, other;
  for (int i = 0; i < 60; ++i) {
    const std::string words = dedup_random_text(random, 3);
    one += words + format(" {} ", 1000 + i), other += words + format(" {} ", 8000 - i);
  }
  DedupSettings settings;
  CHECK(find_near_duplicates({one, other}, settings, 1)[1] == 1);
  settings.ignore_digits = true;
  CHECK(find_near_duplicates({one, other}, settings, 1)[1] == 0);
}

TEST_CASE("a number below zero is another word than the number, with either minus, but not where digits are ignored") {
  DedupSettings settings;
  const auto signature = [&](std::string_view text) { return minhash_signature(text, settings); };
  const std::string_view below = "at -5 today we went outside";
  CHECK(signature(below) != signature("at 5 today we went outside"));
  CHECK(signature(below) == signature("at \xE2\x88\x92"
                                      "5 today we went outside"));
  CHECK(signature("-5 was read") != signature("5 was read"));
  CHECK(signature("-5 was read") == signature("\xE2\x88\x92"
                                              "5 was read"));
  CHECK(signature("on pages 1-5 of it") == signature("on pages 1 5 of it"));
  settings.ignore_digits = true;
  CHECK(signature(below) == signature("at 5 today we went outside"));
}

TEST_CASE("Chinese and Japanese near-duplicates are found as well") {
  std::mt19937 random(3);
  std::string text;
  for (int i = 0; i < 400; ++i) {
    const std::uint32_t c = 0x4E00 + random() % 3000;
    text += static_cast<char>(0xE0 | (c >> 12));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  }
  const std::string near = text.substr(0, 900) + "\xE4\xB8\xAD" + text.substr(903);
  const std::string other = text.substr(0, 300);
  CHECK(find_near_duplicates({text, near, other}, DedupSettings(), 1) == std::vector<std::size_t>{0, 0, 2});
}

TEST_CASE("the clusters do not depend on threads, nor on the order of the documents") {
  std::mt19937 random(11);
  std::vector<std::string> texts;
  for (int i = 0; i < 40; ++i) texts.push_back(dedup_random_text(random, 200));
  for (int i = 0; i < 40; ++i) texts.push_back(dedup_disturbed(random, texts[static_cast<std::size_t>(i)], 0.01));
  const auto one = find_near_duplicates(dedup_views(texts), DedupSettings(), 1);
  CHECK(find_near_duplicates(dedup_views(texts), DedupSettings(), 4) == one);

  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  std::vector<std::string_view> shuffled;
  for (const std::size_t i : order) shuffled.push_back(texts[i]);
  const auto other = find_near_duplicates(shuffled, DedupSettings(), 2);
  // Same partition: the members of each cluster as original indices.
  std::map<std::size_t, std::set<std::size_t>> clusters_one, clusters_other;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    clusters_one[one[i]].insert(i);
    clusters_other[other[i]].insert(order[i]);
  }
  std::set<std::set<std::size_t>> a, b;
  for (auto& [k, v] : clusters_one) a.insert(v);
  for (auto& [k, v] : clusters_other) b.insert(v);
  CHECK(a == b);
  for (std::size_t i = 0; i < other.size(); ++i) CHECK(other[i] <= i);  // the first one stays
}

TEST_CASE("a repeated paragraph stays where its language is at home") {
  const std::string english = "This paragraph has been left in English by the translators of the book.";
  const std::string german = "Dieser Absatz steht nur im deutschen Buch und wird deshalb auch nur dort behalten.";
  const std::string dutch = "Deze alinea staat alleen in het Nederlandse boek en moet daarom daar blijven staan.";
  const std::vector<std::string> texts = {german + "\n\n" + english, dutch + "\n\n" + english,
                                          english + "\n\nA heading", english};
  const auto result = remove_repeated_paragraphs(dedup_views(texts), {"de", "nl", "en", "en"}, DedupSettings(), 2);
  CHECK(result.texts == std::vector<std::string>{german, dutch, english + "\n\nA heading", ""});
  CHECK(result.paragraphs_removed == 3);
}

TEST_CASE("short paragraphs may repeat, long lines inside other paragraphs may not") {
  const std::string line = "- the list item that appears in two different lists of this corpus";
  const std::vector<std::string> texts = {"See also:\n\n" + line + "\n- first", "See also:\n\n- second\n" + line};
  const auto result = remove_repeated_paragraphs(dedup_views(texts), {"en", "en"}, DedupSettings(), 1);
  CHECK(result.texts == std::vector<std::string>{"See also:\n\n" + line + "\n- first", "See also:\n\n- second"});
}

TEST_CASE("a wide letter counts as two columns") {
  std::string chinese;
  for (int i = 0; i < 20; ++i) chinese += "\xE4\xB8\xAD";
  const auto result = remove_repeated_paragraphs({chinese, chinese}, {"zh", "zh"}, DedupSettings(), 1);
  CHECK(result.texts == std::vector<std::string>{chinese, ""});
}

TEST_CASE("no paragraph or line of the forbidden texts is left") {
  const std::string secret = "The answer that must never be seen in training is forty-two, or so.";
  const std::vector<std::string> texts = {"A start\n\n" + secret + "\n\nAn end",
                                          "One line\n" + secret + "\nanother line"};
  const auto result = remove_paragraphs_of(
      dedup_views(texts), {"the answer that must NEVER be seen in training is forty two or so"}, 40, 2);
  CHECK(result.texts == std::vector<std::string>{"A start\n\nAn end", "One line\nanother line"});
}

}  // namespace
}  // namespace longhaul
