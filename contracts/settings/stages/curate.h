// Settings of the stage kind `curate`: pages in, clean deduplicated documents out. The defaults are meant for any
// language and for technical text too; where they differ from the published value, that value stands beside.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contracts/schema/field_table.h"

namespace longhaul {

// Rules a whole document must pass. Shares are 0..1; a limit at its end (0 for a minimum, 1 for a maximum) switches it
// off. Letters of Han and kana count as half a word each; Thai, Lao, Khmer and Burmese are divided by ICU's
// dictionaries.
struct DocumentRuleSettings {
  double words_min = 20;               // Gopher: 50
  double words_max = 100'000;          // Gopher
  double mean_word_length_min = 2;     // letters; Gopher: 3. Not asked of scripts without blanks
  double mean_word_length_max = 14;    // Gopher: 10; FineWeb-2 up to 14
  double hashes_per_word_max = 0.1;    // "#"; Gopher
  double ellipses_per_word_max = 0.1;  // Gopher
  double bullet_lines_max = 0.95;      // lines that start with a bullet; Gopher: 0.9
  double ellipsis_lines_max = 0.3;     // lines that end with an ellipsis; Gopher
  double short_lines_max = 1;          // lines of at most 30 characters; FineWeb: 0.67
  double alphabetic_words_min = 0.6;   // words with a letter; Gopher: 0.8
  // Different ones of the language's list, for English "the be to of and that have with" (Gopher). Not asked of
  // languages without a list
  int stop_words_min = 2;
  double duplicate_lines_max = 0.3;              // repeated lines / lines; Gopher
  double duplicate_paragraphs_max = 0.3;         // Gopher
  double duplicate_line_letters_max = 0.3;       // bytes in repeated lines / bytes; Gopher: 0.2
  double duplicate_paragraph_letters_max = 0.2;  // Gopher
  // Bytes in the most common 2-, 3-, 4-gram of words / bytes; Gopher
  std::vector<double> top_ngrams_max = {0.20, 0.18, 0.16};
  // Bytes in repeated 5- to 10-grams / bytes; Gopher: 0.15 0.14 0.13 0.12 0.11 0.10, meant for web pages; manuals
  // repeat commands and phrases
  std::vector<double> duplicate_ngrams_max = {0.30, 0.28, 0.26, 0.24, 0.22, 0.20};
  // Share of numbers among the words from which on a document is a table or a list of figures: the rules on n-grams are
  // not asked of it.
  double ngram_figures_max = 0.125;
  // Lines that end like a sentence; FineWeb: 0.12. Not asked of Thai and Lao, which have no mark for it
  double sentence_end_lines_min = 0.05;
  double newlines_per_word_max = 0.5;  // FineWeb: 0.3
  bool lorem_ipsum = true;             // C4: documents that hold "lorem ipsum" go
};

const FieldTable<DocumentRuleSettings>& document_rule_fields();

// Rules for single lines of a document.
struct LineRuleSettings {
  bool notices = true;            // short lines that ask to enable JavaScript or mention cookies and terms of use; C4
  double word_length_max = 1000;  // letters: a line with a longer "word" is data, not text; C4
  bool sentence_end = false;  // C4: only lines that end with . ! ? or a closing quote; ruins lists, headings and code
  int words_min = 0;          // C4: 3; ruins headings and code
};

const FieldTable<LineRuleSettings>& line_rule_fields();

struct DedupSettings {
  bool exact = true;
  bool near_duplicates = true;
  int shingle_words = 5;     // words per shingle
  int bands = 14, rows = 8;  // FineWeb: a pair of similarity s is a candidate with probability 1-(1-s^rows)^bands
  // Digits count as 0 for near duplicates: finds pages that differ in dates and counters, and takes tables and lists
  // that differ in their numbers for one.
  bool ignore_digits = false;
  double similarity_min = 0.7;     // of the signatures, for a candidate to count: estimated Jaccard similarity
  bool paragraphs = true;          // each paragraph and line stands once in the corpus
  int paragraph_columns_min = 40;  // shorter ones may repeat; a wide (Han, kana, Hangul) letter has two columns
  std::int64_t seed = 1;
};

const FieldTable<DedupSettings>& dedup_fields();

struct CurateSettings {
  std::vector<std::string> languages;  // ISO 639-1 codes to keep ("en", "pt", "zh"); empty: all
  // Share of the text in its main language; FineWeb: 0.65. Pages of a translated book that are partly left in English
  // are wanted: paragraph deduplication takes the English out.
  double language_score_min = 0.3;
  bool keep_unknown_language = false;  // texts whose language CLD2 does not know
  DocumentRuleSettings document_rules;
  LineRuleSettings line_rules;
  DedupSettings dedup;
  int document_columns_min = 200;  // what is left of a document after paragraph deduplication must have so many columns
  double document_share_min = 0.2;  // ... and this share of its text: what is left of the others is headings and crumbs

  // What the groups of this regular expression (ECMAScript) match in a document's path, joined, names the page in all
  // its languages; "" or no match: the path without what looks like a language ("de/", "pt-BR/", ".fr.html").
  std::string page_key;
  // Pages are held out, all languages of a page together, until both of these are reached; 0 and 0: none. -1: where
  // heldout_fraction says nothing 600,000 bytes, but no more than a tenth of the text (engine/curate/heldout_pages.h).
  std::int64_t heldout_bytes = -1;
  double heldout_fraction = 0;  // of the bytes left after deduplication
  std::int64_t seed = 1;

  ByteCount page_bytes_max{16 << 20};  // larger pages are removed, larger records rejected
  // Records and files that are no documents (broken JSON, no text, cut files) are counted and left out, so many at most
  // and this share of all; more of them are an error.
  double rejected_share_max = 0.01;
  std::int64_t rejected_min = 100;
  bool markdown_tables = false;  // tables of pages as Markdown
  // Sentences and links that stand on half of the pages of a site are left out (engine/curate/filter/sites.h).
  bool site_repetition = true;
  int threads = 0;  // 0: as many as the machine has; changes speed, never the result
};
const FieldTable<CurateSettings>& curate_fields();

}  // namespace longhaul
