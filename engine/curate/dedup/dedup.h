// Room engine/curate/dedup
// Removal of duplicates: equal documents, nearly equal documents (MinHash), and repeated paragraphs.
// dedup.h has all three, coarse to fine; the first in the given order is kept, whatever the number of threads.
// Shingles, bands, rows and limits are settings: contracts/settings/stages/curate.h.
// It reads no files: the caller hands it text and decides by the order which copy is kept.
//
// Each thing once. Three ways, coarse to fine: documents that say the same (exact), documents that say nearly the same
// (MinHash), and paragraphs that stand in many documents (boilerplate; passages left untranslated in a translated
// book). All of them keep the first in the order given, whatever the number of threads, so the caller decides by its
// order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "contracts/settings/stages/curate.h"

namespace longhaul {

// For each text the index of the first one with the same comparison_key(); its own index where it is the first.
std::vector<std::size_t> find_exact_duplicates(const std::vector<std::string_view>& texts, int threads);

// MinHash (Broder 1997) of the set of word shingles: for each of bands * rows hash functions the smallest hash. The
// share of equal entries of two signatures estimates the Jaccard similarity of their sets. Texts shorter than one
// shingle are one shingle. Words are case folded; where settings.ignore_digits says so, digits count as 0. Letters of
// Han and kana are words of their own.
using MinHashSignature = std::vector<std::uint64_t>;
MinHashSignature minhash_signature(std::string_view text, const DedupSettings& settings);
double signature_similarity(const MinHashSignature& a, const MinHashSignature& b);

// For each text the index of the first one of its cluster. A cluster joins texts that agree in all rows of some band
// and in `similarity_min` of all entries with an earlier text of that band's bucket (locality-sensitive hashing;
// Leskovec et al., Mining of Massive Datasets, section 3.4).
std::vector<std::size_t> find_near_duplicates(const std::vector<std::string_view>& texts, const DedupSettings& settings,
                                              int threads);

struct ParagraphDedupResult {
  std::vector<std::string> texts;
  std::int64_t paragraphs_removed = 0, bytes_removed = 0;
};
// Removes every repeated paragraph, and every repeated line of the others, of at least `paragraph_columns_min` columns.
// Of several copies that one stays that stands in a document of the copy's own language (`languages[i]` is that of
// texts[i]), or the first: so a manual keeps its paragraph, not the translation in which it was left untranslated.
ParagraphDedupResult remove_repeated_paragraphs(const std::vector<std::string_view>& texts,
                                                const std::vector<std::string>& languages,
                                                const DedupSettings& settings, int threads);

// `texts` without the paragraphs and lines (of at least `columns_min` columns) that stand in any of `forbidden`.
ParagraphDedupResult remove_paragraphs_of(const std::vector<std::string_view>& texts,
                                          const std::vector<std::string_view>& forbidden, int columns_min, int threads);

}  // namespace longhaul
