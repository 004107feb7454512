#include "engine/curate/rules/document_rules.h"

#include <doctest/doctest.h>

#include <set>

#include "base/text/text.h"
#include "engine/curate/rules/document_filters.h"

namespace longhaul {
namespace {

// Sentences that differ from each other.
std::string document_rules_prose(int sentences) {
  const char* const who[] = {"The baker",   "My neighbour", "A young engineer", "The old captain",
                             "Our teacher", "That doctor",  "One visitor"};
  const char* const what[] = {"mended", "painted",  "remembered", "sold", "described", "carried",
                              "forgot", "measured", "found",      "lost", "hid"};
  const char* const which[] = {"the wooden boat",        "a letter from abroad", "the bridge of stone",
                               "seven silver coins",     "a map of the island",  "the broken clock",
                               "his garden tools",       "an unfinished novel",  "the village records",
                               "a box with glass beads", "the last lantern",     "their winter clothes",
                               "the chapel organ"};
  std::string text;
  for (int i = 0; i < sentences; ++i) {
    text += format("{} {} {} and went to have a look at number {}.{}", who[i % 7], what[i % 11], which[i % 13],
                   i * 37 + 5, i % 3 == 2 ? "\n\n" : " ");
  }
  return trim(text);
}

std::string document_rules_reason(const std::string& text, const std::string& language = "en",
                                  const DocumentRuleSettings& settings = {}) {
  const auto verdict = broken_document_rule(text, language, settings);
  return verdict ? verdict->rule : "";
}

std::string document_rules_times(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

DocumentRuleSettings document_rules_without_ngrams() {
  DocumentRuleSettings settings;
  settings.top_ngrams_max.clear();
  settings.duplicate_ngrams_max.clear();
  return settings;
}

TEST_CASE("the table of filters names each once, and a filter judges without the others") {
  std::set<std::string> names;
  for (const DocumentFilter& filter : document_filters()) CHECK_MESSAGE(names.insert(filter.name).second, filter.name);
  const std::string text = "lorem ipsum";  // too short as well, which comes first in the table
  const MeasuredDocument measured = measure_document(text, "en", nullptr);
  const auto verdict = placeholder_filter(measured, {});
  REQUIRE(verdict.has_value());
  CHECK(verdict->rule == "lorem_ipsum");
  CHECK(document_rules_reason(text) == "words_min");
}

TEST_CASE("pages of short lines go where a limit is set, and letters of several bytes count once") {
  DocumentRuleSettings settings = document_rules_without_ngrams();
  const std::string menu = document_rules_times("Home and other things here.\nÀÉÎÕÜ àéîõü, à é î õ ü à é î.\n", 20) +
                           document_rules_prose(1) + "\n";
  CHECK(document_rules_reason(menu, "en", settings) != "short_lines_max");
  settings.short_lines_max = 0.67;
  CHECK(line_length_filter(measure_document(menu, "en", nullptr), settings)->rule == "short_lines_max");
  CHECK_FALSE(line_length_filter(measure_document(document_rules_prose(40), "en", nullptr), settings).has_value());
}

TEST_CASE("prose passes every rule") {
  DocumentRuleSettings settings;
  settings.duplicate_ngrams_max.clear();  // the made-up sentences share their end
  settings.top_ngrams_max.clear();
  CHECK(document_rules_reason(document_rules_prose(40), "en", settings) == "");
}

TEST_CASE("each rule names what it removes") {
  const DocumentRuleSettings plain = document_rules_without_ngrams();
  const std::string prose = document_rules_prose(20);
  CHECK(document_rules_reason("Only a few words.") == "words_min");
  CHECK(document_rules_reason("") == "words_min");
  CHECK(document_rules_reason(document_rules_times("1 2 3 4 5. ", 20), "en", plain) == "mean_word_length_min");
  CHECK(document_rules_reason(document_rules_times("internationalisationsbehoerde ", 30), "de", plain) ==
        "mean_word_length_max");
  CHECK(document_rules_reason(document_rules_times("1234 5678 words 9012. ", 20), "de", plain) ==
        "alphabetic_words_min");
  CHECK(document_rules_reason(prose + document_rules_times(" #tag", 200), "en", plain) == "hashes_per_word_max");
  CHECK(document_rules_reason(prose + document_rules_times(" well...", 80), "en", plain) == "ellipses_per_word_max");
  CHECK(document_rules_reason(document_rules_times("Buy cheap shoes now, hurry, last chance today only. ", 10), "en",
                              plain) == "stop_words_min");
  CHECK(document_rules_reason(document_rules_times("Buy cheap shoes now, hurry, last chance today only. ", 10), "nl",
                              plain) == "");
  CHECK(document_rules_reason(prose + "\nLorem ipsum dolor sit amet.", "en", plain) == "lorem_ipsum");
  CHECK(document_rules_reason(document_rules_times("- one of the things to have\n", 20), "en", plain) ==
        "bullet_lines_max");
  CHECK(document_rules_reason(document_rules_times("the story of a man with no end\n", 20), "en", plain) ==
        "sentence_end_lines_min");
  CHECK(document_rules_reason(prose + "\n\n" + document_rules_times("The same line of text again and again.\n", 30),
                              "en", plain) == "duplicate_lines_max");
}

TEST_CASE("repetition of words is found") {
  CHECK(document_rules_reason(document_rules_times("cheap shoes ", 40), "nl") == "sentence_end_lines_min");
  DocumentRuleSettings settings;
  settings.sentence_end_lines_min = 0;
  CHECK(document_rules_reason(document_rules_times("cheap shoes ", 40), "nl", settings) == "top_2_gram");
  settings.top_ngrams_max.clear();
  CHECK(document_rules_reason(document_rules_times("We sell the finest hand made leather boots in town. ", 12), "nl",
                              settings) == "duplicate_5_gram");
}

TEST_CASE("scripts without blanks are not judged by the length of their words") {
  // "This book describes how to install, how to configure and how to keep a computer in order; ..." in Chinese.
  const std::string chinese =
      "\xE6\x9C\xAC\xE4\xB9\xA6\xE4\xBB\x8B\xE7\xBB\x8D\xE5\xA6\x82\xE4\xBD\x95\xE5\xAE\x89\xE8\xA3\x85\xE7\xB3\xBB\xE7"
      "\xBB\x9F\xEF\xBC\x8C"
      "\xE9\x85\x8D\xE7\xBD\xAE\xE7\xBD\x91\xE7\xBB\x9C\xEF\xBC\x8C\xE7\xAE\xA1\xE7\x90\x86\xE7\x94\xA8\xE6\x88\xB7\xEF"
      "\xBC\x8C\xE4\xBB\xA5"
      "\xE5\x8F\x8A\xE4\xBF\x9D\xE6\x8A\xA4\xE6\x95\xB0\xE6\x8D\xAE\xE3\x80\x82\xE8\xAF\xBB\xE8\x80\x85\xE5\x8F\xAF\xE4"
      "\xBB\xA5\xE6\x8C\x89"
      "\xE7\xAB\xA0\xE8\x8A\x82\xE9\xA1\xBA\xE5\xBA\x8F\xE9\x98\x85\xE8\xAF\xBB\xE3\x80\x82";
  DocumentRuleSettings settings;
  settings.words_min = 15;  // 38 letters count as 19 words
  CHECK(document_rules_reason(chinese, "zh", settings) == "");
}

TEST_CASE("a rule can be switched off") {
  DocumentRuleSettings settings;
  settings.words_min = 0;
  settings.sentence_end_lines_min = 0;
  settings.stop_words_min = 0;
  CHECK(document_rules_reason("Only a few words", "en", settings) == "");
}

TEST_CASE("line rules remove notices and data, and keep code and headings") {
  std::vector<RemovedLines> removed;
  const std::string text = "1. Heading\n\nPlease enable JavaScript in your browser.\n\n$ apt install nets\n" +
                           std::string(1500, 'A') +
                           "\nJavaScript is a language that browsers run.\n\nThis site uses cookies.";
  CHECK(apply_line_rules(text, LineRuleSettings(), removed) ==
        "1. Heading\n\n$ apt install nets\nJavaScript is a language that browsers run.");
  REQUIRE(removed.size() == 2);
  CHECK(removed[0].rule == "notices");
  CHECK(removed[0].lines == 2);
  CHECK(removed[1].rule == "word_length_max");
  CHECK(removed[1].bytes == 1501);
  LineRuleSettings strict;
  strict.sentence_end = true;
  strict.words_min = 3;
  CHECK(apply_line_rules("A heading\nA sentence of words.\nNo.\n", strict, removed) == "A sentence of words.");
}

}  // namespace
}  // namespace longhaul
