#include <bit>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "engine/curate/rules/document_filters.h"

namespace longhaul {
namespace {

// Hash of each word, and of each n-gram from those by a polynomial.
std::vector<std::uint64_t> word_hashes(const MeasuredDocument& m) {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(m.words.size());
  for (const Word& word : m.words) hashes.push_back(xxh3_64(m.text.substr(word.begin, word.end - word.begin)));
  return hashes;
}
std::uint64_t ngram_hash(const std::vector<std::uint64_t>& hashes, std::size_t at, std::size_t n) {
  std::uint64_t hash = 0;
  for (std::size_t i = at; i < at + n; ++i) hash = hash * 0x9E3779B97F4A7C15ULL + hashes[i];
  return hash;
}

// Bytes from the first to the last word of an n-gram, what stands between included.
double ngram_bytes(const MeasuredDocument& m, std::size_t at, std::size_t n) {
  return static_cast<double>(m.words[at + n - 1].end - m.words[at].begin);
}

// Counts 64-bit hashes by open addressing: the n-gram rules look at every word of every document ten times.
class HashCounter {
 public:
  struct Entry {
    std::uint64_t hash = 0;
    std::uint32_t count = 0;  // 0: free
    double bytes = 0;
  };
  explicit HashCounter(std::size_t hashes_max) : entries_(std::bit_ceil(2 * hashes_max + 2)) {}
  Entry& at(std::uint64_t hash) {
    const std::size_t mask = entries_.size() - 1;
    std::size_t i = (hash ^ (hash >> 32)) & mask;
    while (entries_[i].count > 0 && entries_[i].hash != hash) i = (i + 1) & mask;
    entries_[i].hash = hash;
    return entries_[i];
  }

 private:
  std::vector<Entry> entries_;
};

double top_ngram_share(const MeasuredDocument& m, const std::vector<std::uint64_t>& hashes, std::size_t n) {
  HashCounter counter(hashes.size());
  HashCounter::Entry best;
  for (std::size_t i = 0; i + n <= hashes.size(); ++i) {
    HashCounter::Entry& seen = counter.at(ngram_hash(hashes, i, n));
    ++seen.count;
    seen.bytes += ngram_bytes(m, i, n);
    if (seen.count > best.count || (seen.count == best.count && seen.bytes > best.bytes)) best = seen;
  }
  return best.count < 2 ? 0 : ratio_of(best.bytes, m.bytes);
}

// On an n-gram seen before its bytes count and the scan jumps over it; else it moves by one word.
double duplicate_ngram_share(const MeasuredDocument& m, const std::vector<std::uint64_t>& hashes, std::size_t n) {
  HashCounter counter(hashes.size());
  double bytes = 0;
  for (std::size_t i = 0; i + n <= hashes.size();) {
    if (counter.at(ngram_hash(hashes, i, n)).count++ == 0) {
      ++i;
    } else {
      bytes += ngram_bytes(m, i, n);
      i += n;
    }
  }
  return ratio_of(bytes, m.bytes);
}

}  // namespace

// Sequences of words that stand there again.
std::optional<RuleVerdict> ngram_filter(const MeasuredDocument& m, const DocumentRuleSettings& s) {
  if (s.top_ngrams_max.empty() && s.duplicate_ngrams_max.empty()) return std::nullopt;
  // The limits are for words between blanks: nobody has published any for words that a dictionary found. And what
  // consists of figures, a table or a list of measurements, repeats the words around them by its nature.
  if (m.dictionary_share >= 0.3 || m.figures > s.ngram_figures_max) {
    m.leave_out("top_ngrams_max");
    m.leave_out("duplicate_ngrams_max");
    return std::nullopt;
  }
  // One letter is no word: n-grams of a script without blanks span more letters.
  const std::size_t letters_per_word = m.half_share >= 0.3 ? 2 : 1;
  const auto hashes = word_hashes(m);
  for (std::size_t i = 0; i < s.top_ngrams_max.size(); ++i) {
    const std::size_t n = (i + 2) * letters_per_word;
    if (s.top_ngrams_max[i] >= 1) continue;
    if (auto v = at_most(format("top_{}_gram", i + 2), top_ngram_share(m, hashes, n), s.top_ngrams_max[i])) return v;
  }
  for (std::size_t i = 0; i < s.duplicate_ngrams_max.size(); ++i) {
    const std::size_t n = (i + 5) * letters_per_word;
    if (s.duplicate_ngrams_max[i] >= 1) continue;
    if (auto v =
            at_most(format("duplicate_{}_gram", i + 5), duplicate_ngram_share(m, hashes, n), s.duplicate_ngrams_max[i]))
      return v;
  }
  return std::nullopt;
}

}  // namespace longhaul
