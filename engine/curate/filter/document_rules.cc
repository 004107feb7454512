#include "engine/curate/filter/document_rules.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "engine/curate/extract/clean_text.h"
#include "engine/curate/extract/unicode.h"
#include "engine/curate/filter/stop_words.h"
#include "engine/curate/filter/words.h"

namespace longhaul {
namespace {

// What the rules ask of a document, gathered once.
struct Measured {
  std::string_view text;
  std::vector<Word> words;
  std::vector<std::string_view> lines, paragraphs;  // non-empty
  double word_count = 0;                            // letters of Han and kana count half
  double half_share = 0;                            // Han and kana, of the letters
  double dictionary_share = 0;                      // Thai, Lao, Khmer, Burmese, of the letters
  double unmarked_share = 0;                        // Thai and Lao, which do not mark the end of a sentence
  double figures = 0;                               // words that are numbers, of all words
  double bytes = 0;
  std::vector<std::string>* left_out = nullptr;  // rules that cannot be asked of this text
  void leave_out(const char* rule) const {
    if (left_out) left_out->emplace_back(rule);
  }
};

std::vector<std::string_view> pieces(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> result;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    const std::string_view piece = text.substr(start, end - start);
    if (piece.find_first_not_of(" \t\n") != std::string_view::npos) result.push_back(piece);
    start = end + separator.size();
  }
  return result;
}

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

Measured measure(std::string_view text) {
  Measured m;
  m.text = text;
  m.bytes = static_cast<double>(text.size());
  m.words = split_words(text);
  m.lines = pieces(text, "\n");
  m.paragraphs = pieces(text, "\n\n");
  double letters = 0, half = 0, dictionary = 0, unmarked = 0, figures = 0;
  for (const Word& word : m.words) {
    m.word_count += word.weight();
    letters += word.letters;
    figures += !word.alphabetic;
    if (!word.unspaced) continue;
    (word.half ? half : dictionary) += word.letters;
    const auto lead = static_cast<unsigned char>(text[word.begin + 1]);  // E0 B8 .. E0 BB: U+0E00 to U+0EFF
    if (!word.half && static_cast<unsigned char>(text[word.begin]) == 0xE0 && lead >= 0xB8 && lead <= 0xBB)
      unmarked += word.letters;
  }
  m.half_share = share(half, letters);
  m.dictionary_share = share(dictionary, letters);
  m.unmarked_share = share(unmarked, letters);
  m.figures = share(figures, static_cast<double>(m.words.size()));
  return m;
}

std::optional<RuleVerdict> at_least(std::string rule, double value, double limit) {
  if (value >= limit) return std::nullopt;
  return RuleVerdict{std::move(rule), format("{:.4g}; at least {:.4g} wanted", value, limit)};
}

std::optional<RuleVerdict> at_most(std::string rule, double value, double limit) {
  if (value <= limit) return std::nullopt;
  return RuleVerdict{std::move(rule), format("{:.4g}; at most {:.4g} allowed", value, limit)};
}

double count_of(std::string_view text, std::string_view what) {
  double count = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

template <class Predicate>
double line_share(const Measured& m, Predicate predicate) {
  const auto hits = std::count_if(m.lines.begin(), m.lines.end(), predicate);
  return share(static_cast<double>(hits), static_cast<double>(m.lines.size()));
}

bool is_bullet_line(std::string_view line) {
  const std::size_t at = line.find_first_not_of(" \t");
  const std::string_view rest = line.substr(at);
  return starts_with(rest, "- ") || starts_with(rest, "* ") || starts_with(rest, "\xE2\x80\xA2");
}

bool ends_in_ellipsis(std::string_view line) {
  const std::string text = trim(line);
  return ends_with(text, "...") || ends_with(text, "\xE2\x80\xA6");
}

// The last letter or mark, closing quotes and brackets skipped, ends a sentence. A colon announces what follows.
bool ends_like_sentence(std::string_view line) {
  char32_t last = 0;
  for (std::size_t pos = line.size() > 24 ? line.size() - 24 : 0; pos < line.size();) {
    const char32_t c = next_code_point(line, pos);
    if (is_word_char(c) || is_sentence_end(c) || c == ':' || c == 0xFF1A) last = c;
  }
  return is_sentence_end(last) || last == ':' || last == 0xFF1A;
}

std::optional<RuleVerdict> stop_word_rule(const Measured& m, std::string_view language, const DocumentRuleSettings& s) {
  if (s.stop_words_min <= 0) return std::nullopt;
  const auto* stop_words = stop_words_of(language);
  if (!stop_words) {
    m.leave_out("stop_words_min");
    return std::nullopt;
  }
  std::unordered_set<std::string> seen;
  for (const Word& word : m.words) {
    if (word.end - word.begin > 12) continue;
    std::string lower = comparison_key(m.text.substr(word.begin, word.end - word.begin));
    if (stop_words->contains(lower)) seen.insert(std::move(lower));
    if (static_cast<int>(seen.size()) >= s.stop_words_min) return std::nullopt;
  }
  return at_least("stop_words_min", static_cast<double>(seen.size()), s.stop_words_min);
}

std::optional<RuleVerdict> word_rules(const Measured& m, std::string_view language, const DocumentRuleSettings& s) {
  if (auto v = at_least("words_min", m.word_count, s.words_min)) return v;
  if (auto v = at_most("words_max", m.word_count, s.words_max)) return v;
  double letters = 0, alphabetic = 0;
  for (const Word& word : m.words) {
    letters += word.letters;
    alphabetic += word.alphabetic;
  }
  const auto count = static_cast<double>(m.words.size());
  if (m.half_share < 0.3) {
    if (auto v = at_least("mean_word_length_min", share(letters, count), s.mean_word_length_min)) return v;
    if (auto v = at_most("mean_word_length_max", share(letters, count), s.mean_word_length_max)) return v;
  }
  if (auto v = at_least("alphabetic_words_min", share(alphabetic, count), s.alphabetic_words_min)) return v;
  if (auto v = at_most("hashes_per_word_max", share(count_of(m.text, "#"), m.word_count), s.hashes_per_word_max))
    return v;
  const double ellipses = count_of(m.text, "...") + count_of(m.text, "\xE2\x80\xA6");
  if (auto v = at_most("ellipses_per_word_max", share(ellipses, m.word_count), s.ellipses_per_word_max)) return v;
  return stop_word_rule(m, language, s);
}

std::optional<RuleVerdict> line_shape_rules(const Measured& m, const DocumentRuleSettings& s) {
  if (auto v = at_most("bullet_lines_max", line_share(m, is_bullet_line), s.bullet_lines_max)) return v;
  if (auto v = at_most("ellipsis_lines_max", line_share(m, ends_in_ellipsis), s.ellipsis_lines_max)) return v;
  if (m.unmarked_share >= 0.3) {
    if (s.sentence_end_lines_min > 0) m.leave_out("sentence_end_lines_min");
  } else if (auto v = at_least("sentence_end_lines_min", line_share(m, ends_like_sentence), s.sentence_end_lines_min)) {
    return v;
  }
  const double newlines = count_of(m.text, "\n");
  return at_most("newlines_per_word_max", share(newlines, m.word_count), s.newlines_per_word_max);
}

struct Repeats {
  double share = 0, byte_share = 0;
};
Repeats repeats(const std::vector<std::string_view>& parts, double bytes) {
  std::unordered_set<std::string_view> seen;
  double count = 0, repeated = 0;
  for (const std::string_view part : parts) {
    if (seen.insert(part).second) continue;
    ++count;
    repeated += static_cast<double>(part.size());
  }
  return {share(count, static_cast<double>(parts.size())), share(repeated, bytes)};
}

std::optional<RuleVerdict> repetition_rules(const Measured& m, const DocumentRuleSettings& s) {
  const Repeats lines = repeats(m.lines, m.bytes), paragraphs = repeats(m.paragraphs, m.bytes);
  if (auto v = at_most("duplicate_lines_max", lines.share, s.duplicate_lines_max)) return v;
  if (auto v = at_most("duplicate_paragraphs_max", paragraphs.share, s.duplicate_paragraphs_max)) return v;
  if (auto v = at_most("duplicate_line_letters_max", lines.byte_share, s.duplicate_line_letters_max)) return v;
  return at_most("duplicate_paragraph_letters_max", paragraphs.byte_share, s.duplicate_paragraph_letters_max);
}

// Hash of each word, and of each n-gram from those by a polynomial.
std::vector<std::uint64_t> word_hashes(const Measured& m) {
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
double ngram_bytes(const Measured& m, std::size_t at, std::size_t n) {
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

double top_ngram_share(const Measured& m, const std::vector<std::uint64_t>& hashes, std::size_t n) {
  HashCounter counter(hashes.size());
  HashCounter::Entry best;
  for (std::size_t i = 0; i + n <= hashes.size(); ++i) {
    HashCounter::Entry& seen = counter.at(ngram_hash(hashes, i, n));
    ++seen.count;
    seen.bytes += ngram_bytes(m, i, n);
    if (seen.count > best.count || (seen.count == best.count && seen.bytes > best.bytes)) best = seen;
  }
  return best.count < 2 ? 0 : share(best.bytes, m.bytes);
}

// On an n-gram seen before its bytes count and the scan jumps over it; else it moves by one word.
double duplicate_ngram_share(const Measured& m, const std::vector<std::uint64_t>& hashes, std::size_t n) {
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
  return share(bytes, m.bytes);
}

std::optional<RuleVerdict> ngram_rules(const Measured& m, const DocumentRuleSettings& s) {
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

std::string lower_ascii_copy(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return lower;
}

// A site talking about itself, not about its subject: short, and asking for JavaScript or consent.
bool is_notice(std::string_view line) {
  if (line.size() > 300) return false;
  const std::string lower = lower_ascii_copy(line);
  const auto has = [&](const char* part) { return lower.find(part) != std::string::npos; };
  if (has("javascript") && (has("enable") || has("disabled") || has("turn on") || has("requires javascript")))
    return true;
  return has("privacy policy") || has("cookie policy") || has("uses cookies") || has("use of cookies") ||
         has("use cookies") || has("terms of use") || has("terms of service");
}

const char* broken_line_rule(std::string_view line, const LineRuleSettings& s) {
  if (s.notices && is_notice(line)) return "notices";
  const bool words_needed = s.words_min > 0 || static_cast<double>(line.size()) > s.word_length_max;
  if (words_needed) {
    double count = 0;
    std::size_t blankless = 0;
    for (const std::string_view piece : pieces(line, " ")) blankless = std::max(blankless, piece.size());
    bool unspaced = false;
    for (const Word& word : split_words(line)) {
      count += word.weight();
      unspaced = unspaced || word.unspaced;
    }
    if (!unspaced && static_cast<double>(blankless) > s.word_length_max) return "word_length_max";
    if (count < s.words_min) return "line_words_min";
  }
  return s.sentence_end && !ends_like_sentence(line) ? "sentence_end" : nullptr;
}

}  // namespace

std::optional<RuleVerdict> broken_document_rule(std::string_view text, std::string_view language,
                                                const DocumentRuleSettings& settings,
                                                std::vector<std::string>* left_out) {
  Measured m = measure(text);
  m.left_out = left_out;
  if (auto v = word_rules(m, language, settings)) return v;
  if (settings.lorem_ipsum && lower_ascii_copy(text).find("lorem ipsum") != std::string::npos) {
    return RuleVerdict{"lorem_ipsum", "holds \"lorem ipsum\""};
  }
  if (auto v = line_shape_rules(m, settings)) return v;
  if (auto v = repetition_rules(m, settings)) return v;
  return ngram_rules(m, settings);
}

std::string apply_line_rules(std::string_view text, const LineRuleSettings& settings,
                             std::vector<RemovedLines>& removed) {
  std::string out;
  bool empty_before = false;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = text.substr(start, end - start);
    start = end + 1;
    if (line.empty()) {
      empty_before = true;
      continue;
    }
    if (const char* rule = broken_line_rule(line, settings)) {
      auto entry = std::find_if(removed.begin(), removed.end(), [&](const RemovedLines& r) { return r.rule == rule; });
      if (entry == removed.end()) entry = removed.insert(removed.end(), RemovedLines{rule, 0, 0});
      ++entry->lines;
      entry->bytes += static_cast<std::int64_t>(line.size()) + 1;
      continue;
    }
    if (!out.empty()) out += empty_before ? "\n\n" : "\n";
    empty_before = false;
    out += line;
  }
  return out;
}

}  // namespace longhaul
