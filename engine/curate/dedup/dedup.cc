#include "engine/curate/dedup/dedup.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "base/digest/hash.h"
#include "base/system/parallel_for.h"
#include "engine/curate/extract/clean_text.h"
#include "engine/curate/extract/unicode.h"
#include "engine/curate/filter/language.h"
#include "engine/curate/filter/words.h"

namespace longhaul {
namespace {

// Finalizer of SplitMix64 (Steele et al. 2014): every input bit changes every output bit with probability one half.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// Does a minus stand before the number that begins at `begin`? "-5" and "5" are not the same, "1-5" has no minus.
bool has_minus(std::string_view text, std::size_t begin) {
  const bool ascii = begin >= 1 && text[begin - 1] == '-';
  const bool sign = begin >= 3 && text.substr(begin - 3, 3) == "\xE2\x88\x92";
  if (!ascii && !sign) return false;
  const std::size_t before = begin - (ascii ? 1 : 3);
  return before == 0 || static_cast<unsigned char>(text[before - 1]) <= ' ' || text[before - 1] == '(';
}

std::vector<std::uint64_t> shingle_hashes(std::string_view text, int shingle_words, bool ignore_digits) {
  std::vector<std::uint64_t> words;
  std::string folded;
  for (const Word& word : split_words(text)) {
    folded.clear();
    if (!ignore_digits && text[word.begin] >= '0' && text[word.begin] <= '9' && has_minus(text, word.begin))
      folded = "-";
    for (std::size_t pos = word.begin; pos < word.end;) {
      const char32_t c = next_code_point(text, pos);
      append_utf8(folded, ignore_digits && is_digit(c) ? U'0' : to_lower(c));
    }
    words.push_back(xxh3_64(folded));
  }
  const auto n = static_cast<std::size_t>(std::max(1, shingle_words));
  std::vector<std::uint64_t> hashes;
  if (words.empty()) return hashes;
  const std::size_t count = words.size() < n ? 1 : words.size() - n + 1;
  hashes.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t hash = 0;
    for (std::size_t j = i; j < std::min(i + n, words.size()); ++j) hash = hash * 0x9E3779B97F4A7C15ULL + words[j];
    hashes.push_back(mix(hash));
  }
  std::sort(hashes.begin(), hashes.end());
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  return hashes;
}

class UnionFind {
 public:
  explicit UnionFind(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }
  std::size_t find(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  // The smaller index becomes the root, so a root is the first of its cluster.
  void unite(std::size_t a, std::size_t b) {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

// A paragraph (what stands between empty lines) with its lines; one line makes a paragraph without lines of its own.
struct Piece {
  std::string_view text;
  std::uint64_t key = 0;  // of comparison_key(); 0: too short to count
};
struct Paragraph {
  Piece whole;
  std::vector<Piece> lines;
};

Piece make_piece(std::string_view text, int columns_min) {
  Piece piece{text, 0};
  const auto bytes = static_cast<std::int64_t>(text.size());
  if (bytes >= columns_min && display_columns(text) >= columns_min) {
    piece.key = std::max<std::uint64_t>(1, xxh3_64(comparison_key(text)));
  }
  return piece;
}

std::vector<Paragraph> split_paragraphs(std::string_view text, int columns_min) {
  std::vector<Paragraph> paragraphs;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find("\n\n", start), text.size());
    Paragraph paragraph;
    paragraph.whole = make_piece(text.substr(start, end - start), columns_min);
    for (std::size_t line = start; line < end;) {
      const std::size_t line_end = std::min(text.find('\n', line), end);
      paragraph.lines.push_back(make_piece(text.substr(line, line_end - line), columns_min));
      line = line_end + 1;
    }
    if (paragraph.lines.size() == 1) paragraph.lines.clear();
    if (!paragraph.whole.text.empty()) paragraphs.push_back(std::move(paragraph));
    start = end + 2;
  }
  return paragraphs;
}

void append_paragraph(std::string& out, std::string_view text) {
  if (!out.empty()) out += "\n\n";
  out += text;
}

// The text without the pieces that `drop(piece)` names. A paragraph goes whole, or loses lines.
template <class Drop>
std::string rebuild(const std::vector<Paragraph>& paragraphs, ParagraphDedupResult& counts, const Drop& drop) {
  std::string out;
  const auto removed = [&](const Piece& piece) {
    if (piece.key == 0 || !drop(piece)) return false;
    ++counts.paragraphs_removed;
    counts.bytes_removed += static_cast<std::int64_t>(piece.text.size());
    return true;
  };
  for (const Paragraph& paragraph : paragraphs) {
    if (removed(paragraph.whole)) continue;
    if (paragraph.lines.empty()) {
      append_paragraph(out, paragraph.whole.text);
      continue;
    }
    std::string lines;
    for (const Piece& line : paragraph.lines) {
      if (removed(line)) continue;
      if (!lines.empty()) lines += '\n';
      lines += line.text;
    }
    if (!lines.empty()) append_paragraph(out, lines);
  }
  return out;
}

std::vector<std::vector<Paragraph>> split_all(const std::vector<std::string_view>& texts, int columns_min,
                                              int threads) {
  std::vector<std::vector<Paragraph>> result(texts.size());
  parallel_for(texts.size(), threads, [&](std::size_t i) { result[i] = split_paragraphs(texts[i], columns_min); });
  return result;
}

template <class Visit>
void for_each_piece(const std::vector<Paragraph>& paragraphs, const Visit& visit) {
  for (const Paragraph& paragraph : paragraphs) {
    if (paragraph.whole.key) visit(paragraph.whole);
    for (const Piece& line : paragraph.lines) {
      if (line.key) visit(line);
    }
  }
}

// Which copy of a repeated piece stays: the place (address of its first byte) of the keeper.
struct Keeper {
  std::size_t document = 0;
  const char* place = nullptr;
  int copies = 0;
};
using Keepers = std::unordered_map<std::uint64_t, Keeper>;

Keepers choose_keepers(const std::vector<std::vector<Paragraph>>& all, const std::vector<std::string>& languages) {
  Keepers keepers;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for_each_piece(all[i], [&](const Piece& piece) {
      Keeper& keeper = keepers[piece.key];
      if (keeper.copies++ == 0) keeper = {i, piece.text.data(), 1};
    });
  }
  // A second look at the repeated ones: is there a copy in a document of the piece's own language?
  std::unordered_map<std::uint64_t, std::string> own_language;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for_each_piece(all[i], [&](const Piece& piece) {
      Keeper& keeper = keepers[piece.key];
      if (keeper.copies < 2 || languages[keeper.document] == languages[i]) return;
      auto [known, is_new] = own_language.try_emplace(piece.key);
      if (is_new) known->second = detect_language(piece.text).code;
      if (known->second == languages[i] && languages[keeper.document] != known->second)
        keeper = {i, piece.text.data(), keeper.copies};
    });
  }
  return keepers;
}

}  // namespace

std::vector<std::size_t> find_exact_duplicates(const std::vector<std::string_view>& texts, int threads) {
  std::vector<std::string> keys(texts.size());
  parallel_for(texts.size(), threads, [&](std::size_t i) { keys[i] = xxh3_128_hex(comparison_key(texts[i])); });
  std::unordered_map<std::string, std::size_t> first;
  std::vector<std::size_t> kept(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) kept[i] = first.try_emplace(keys[i], i).first->second;
  return kept;
}

MinHashSignature minhash_signature(std::string_view text, const DedupSettings& settings) {
  const auto size = static_cast<std::size_t>(settings.bands * settings.rows);
  // Function i is (a_i h + b_i) mod 2^64 with odd a_i; h is well mixed already.
  std::vector<std::uint64_t> a(size), b(size);
  for (std::size_t i = 0; i < size; ++i) {
    a[i] = mix(static_cast<std::uint64_t>(settings.seed) * 0x9E3779B97F4A7C15ULL + 2 * i + 1) | 1;
    b[i] = mix(static_cast<std::uint64_t>(settings.seed) * 0x9E3779B97F4A7C15ULL + 2 * i + 2);
  }
  MinHashSignature signature(size, std::numeric_limits<std::uint64_t>::max());
  for (const std::uint64_t h : shingle_hashes(text, settings.shingle_words, settings.ignore_digits)) {
    for (std::size_t i = 0; i < size; ++i) signature[i] = std::min(signature[i], a[i] * h + b[i]);
  }
  return signature;
}

double signature_similarity(const MinHashSignature& a, const MinHashSignature& b) {
  std::size_t equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i];
  return a.empty() ? 0 : static_cast<double>(equal) / static_cast<double>(a.size());
}

std::vector<std::size_t> find_near_duplicates(const std::vector<std::string_view>& texts, const DedupSettings& settings,
                                              int threads) {
  std::vector<MinHashSignature> signatures(texts.size());
  parallel_for(texts.size(), threads, [&](std::size_t i) { signatures[i] = minhash_signature(texts[i], settings); });
  UnionFind clusters(texts.size());
  const auto rows = static_cast<std::size_t>(settings.rows);
  for (std::size_t band = 0; band < static_cast<std::size_t>(settings.bands); ++band) {
    std::unordered_map<std::uint64_t, std::vector<std::size_t>> buckets;  // the representatives: pairwise not similar
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::uint64_t key = band;
      for (std::size_t r = 0; r < rows; ++r) key = mix(key * 0x9E3779B97F4A7C15ULL + signatures[i][band * rows + r]);
      auto& representatives = buckets[key];
      const auto similar = std::find_if(representatives.begin(), representatives.end(), [&](std::size_t other) {
        return signature_similarity(signatures[i], signatures[other]) >= settings.similarity_min;
      });
      if (similar != representatives.end()) {
        clusters.unite(i, *similar);
      } else if (representatives.size() < 64) {  // a bucket of unlike texts (all rows equal by chance) stays cheap
        representatives.push_back(i);
      }
    }
  }
  std::vector<std::size_t> kept(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) kept[i] = clusters.find(i);
  return kept;
}

ParagraphDedupResult remove_repeated_paragraphs(const std::vector<std::string_view>& texts,
                                                const std::vector<std::string>& languages,
                                                const DedupSettings& settings, int threads) {
  const auto all = split_all(texts, settings.paragraph_columns_min, threads);
  const Keepers keepers = choose_keepers(all, languages);
  ParagraphDedupResult result;
  for (std::size_t i = 0; i < all.size(); ++i) {
    result.texts.push_back(rebuild(all[i], result, [&](const Piece& piece) {
      const Keeper& keeper = keepers.at(piece.key);
      return keeper.document != i || keeper.place != piece.text.data();
    }));
  }
  return result;
}

ParagraphDedupResult remove_paragraphs_of(const std::vector<std::string_view>& texts,
                                          const std::vector<std::string_view>& forbidden, int columns_min,
                                          int threads) {
  std::unordered_set<std::uint64_t> keys;
  for (const auto& paragraphs : split_all(forbidden, columns_min, threads)) {
    for_each_piece(paragraphs, [&](const Piece& piece) { keys.insert(piece.key); });
  }
  ParagraphDedupResult result;
  for (const auto& paragraphs : split_all(texts, columns_min, threads)) {
    result.texts.push_back(rebuild(paragraphs, result, [&](const Piece& piece) { return keys.contains(piece.key); }));
  }
  return result;
}

}  // namespace longhaul
