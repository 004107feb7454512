#include "contracts/settings/stages/curate.h"

namespace longhaul {

const FieldTable<DocumentRuleSettings>& document_rule_fields() {
  using D = DocumentRuleSettings;
  static const auto table =
      FieldTable<D>()
          .field("words_min", &D::words_min, {.unit = "words", .help = "shorter documents go", .min = 0})
          .field("words_max", &D::words_max,
                 {.unit = "words",
                  .help = "longer documents go; a text file of more words is read as several documents",
                  .min = 0})
          .field("mean_word_length_min", &D::mean_word_length_min,
                 {.unit = "letters",
                  .help = "documents of shorter words go; not asked of scripts without blanks",
                  .min = 0})
          .field("mean_word_length_max", &D::mean_word_length_max,
                 {.unit = "letters",
                  .help = "documents of longer words go; not asked of scripts without blanks",
                  .min = 0})
          .field("hashes_per_word_max", &D::hashes_per_word_max, {.help = "# per word", .min = 0})
          .field("ellipses_per_word_max", &D::ellipses_per_word_max, {.help = "ellipses per word", .min = 0})
          .field("bullet_lines_max", &D::bullet_lines_max,
                 {.help = "share of lines that start with a bullet", .min = 0, .max = 1})
          .field("ellipsis_lines_max", &D::ellipsis_lines_max,
                 {.help = "share of lines that end in an ellipsis", .min = 0, .max = 1})
          .field("short_lines_max", &D::short_lines_max,
                 {.help = "share of lines of at most 30 characters; 1: not asked", .min = 0, .max = 1})
          .field("alphabetic_words_min", &D::alphabetic_words_min,
                 {.help = "share of words that hold a letter", .min = 0, .max = 1})
          .field("stop_words_min", &D::stop_words_min,
                 {.unit = "words",
                  .help = "different ones of the language's most common (English: the be to of and that have with); "
                          "not asked of languages without a list",
                  .min = 0,
                  .max = 8})
          .field("duplicate_lines_max", &D::duplicate_lines_max,
                 {.help = "share of repeated lines", .min = 0, .max = 1})
          .field("duplicate_paragraphs_max", &D::duplicate_paragraphs_max,
                 {.help = "share of repeated paragraphs", .min = 0, .max = 1})
          .field("duplicate_line_letters_max", &D::duplicate_line_letters_max,
                 {.help = "share of the text in repeated lines", .min = 0, .max = 1})
          .field("duplicate_paragraph_letters_max", &D::duplicate_paragraph_letters_max,
                 {.help = "share of the text in repeated paragraphs", .min = 0, .max = 1})
          .field("top_ngrams_max", &D::top_ngrams_max,
                 {.help = "share of the text in the most common 2-, 3-, ... gram of words", .min = 0, .max = 1})
          .field("duplicate_ngrams_max", &D::duplicate_ngrams_max,
                 {.help = "share of the text in repeated 5-, 6-, ... grams of words", .min = 0, .max = 1})
          .field("ngram_figures_max", &D::ngram_figures_max,
                 {.help = "share of numbers among the words; above it the rules on n-grams are not asked",
                  .min = 0,
                  .max = 1})
          .field("sentence_end_lines_min", &D::sentence_end_lines_min,
                 {.help = "share of lines that end like a sentence; not asked of Thai and Lao", .min = 0, .max = 1})
          .field("newlines_per_word_max", &D::newlines_per_word_max, {.help = "line ends per word", .min = 0})
          .field("lorem_ipsum", &D::lorem_ipsum, {.help = "documents that hold \"lorem ipsum\" go"});
  return table;
}

const FieldTable<LineRuleSettings>& line_rule_fields() {
  using L = LineRuleSettings;
  static const auto table =
      FieldTable<L>()
          .field("notices", &L::notices, {.help = "short lines about JavaScript, cookies and terms of use go"})
          .field("word_length_max", &L::word_length_max,
                 {.unit = "bytes", .help = "lines with a longer word go", .min = 1})
          .field("sentence_end", &L::sentence_end, {.help = "lines that do not end like a sentence go"})
          .field("words_min", &L::words_min, {.unit = "words", .help = "shorter lines go", .min = 0});
  return table;
}

const FieldTable<DedupSettings>& dedup_fields() {
  using D = DedupSettings;
  static const auto table =
      FieldTable<D>()
          .field("exact", &D::exact, {.help = "of documents that say the same one stays"})
          .field("near_duplicates", &D::near_duplicates,
                 {.help = "of documents that say nearly the same one stays (MinHash)"})
          .field("shingle_words", &D::shingle_words,
                 {.unit = "words", .help = "length of a shingle", .min = 1, .max = 100})
          .field("bands", &D::bands, {.help = "MinHash bands; more find less similar pairs", .min = 1, .max = 256})
          .field("rows", &D::rows, {.help = "hashes per band; more find only more similar pairs", .min = 1, .max = 64})
          .field("ignore_digits", &D::ignore_digits,
                 {.help = "digits count as 0: also removes tables and lists that differ in numbers only"})
          .field("similarity_min", &D::similarity_min,
                 {.help = "share of equal hashes for two documents to be one", .min = 0, .max = 1})
          .field("paragraphs", &D::paragraphs, {.help = "each paragraph and line stands once in the corpus"})
          .field(
              "paragraph_columns_min", &D::paragraph_columns_min,
              {.unit = "columns", .help = "shorter paragraphs and lines may repeat; wide letters have two", .min = 1})
          .field("seed", &D::seed, {.help = "of the hash functions", .min = 0});
  return table;
}

const FieldTable<CurateSettings>& curate_fields() {
  using C = CurateSettings;
  static const auto table =
      FieldTable<C>()
          .field("languages", &C::languages, {.help = "keep only these (ISO 639 codes); empty keeps all"})
          .field("language_score_min", &C::language_score_min,
                 {.help = "share of a document in its main language", .min = 0, .max = 1})
          .field("keep_unknown_language", &C::keep_unknown_language,
                 {.help = "keep texts whose language is not recognised"})
          .group("document_rules", &C::document_rules, document_rule_fields(), "rules that a whole document must pass")
          .group("line_rules", &C::line_rules, line_rule_fields(), "rules for single lines")
          .group("dedup", &C::dedup, dedup_fields(), "removal of what stands there twice")
          .field("document_columns_min", &C::document_columns_min,
                 {.unit = "columns", .help = "documents with less text left after deduplication go", .min = 0})
          .field("document_share_min", &C::document_share_min,
                 {.help = "documents with less of their text left after deduplication go", .min = 0, .max = 1})
          .field("page_key", &C::page_key,
                 {.help = "regular expression; its groups, joined, name a page in all languages; empty: paths without "
                          "language"})
          .field("heldout_bytes", &C::heldout_bytes,
                 {.unit = "bytes",
                  .help = "text kept apart for evaluation, whole pages in all their languages; -1: 600,000, but at "
                          "most a tenth of the text, where heldout_fraction is 0, and the end of the only page of a "
                          "corpus",
                  .min = -1})
          .field("heldout_fraction", &C::heldout_fraction,
                 {.help = "share of the text kept apart, where that is more than heldout_bytes", .min = 0, .max = 0.9})
          .field("seed", &C::seed, {.help = "chooses the held-out pages", .min = 0})
          .field("page_bytes_max", &C::page_bytes_max,
                 {.help = "larger pages are removed, larger records rejected", .min = 1})
          .field("rejected_share_max", &C::rejected_share_max,
                 {.help = "share of records and files that may be broken; they are named in rejected.jsonl",
                  .min = 0,
                  .max = 1})
          .field("rejected_min", &C::rejected_min,
                 {.unit = "records", .help = "so many may be broken whatever their share", .min = 0})
          .field("markdown_tables", &C::markdown_tables, {.help = "tables of pages as Markdown"})
          .field("site_repetition", &C::site_repetition,
                 {.help = "sentences and links that stand on half of the pages of a folder are left out"})
          .field("threads", &C::threads,
                 {.help = "0: all of the machine's", .min = 0, .max = 4096, .speed_only = true});
  return table;
}

}  // namespace longhaul
