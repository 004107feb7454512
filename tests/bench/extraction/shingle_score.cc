#include "tests/bench/extraction/shingle_score.h"

#include <algorithm>
#include <map>
#include <vector>

#include "engine/curate/extract/unicode.h"

namespace longhaul {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (std::size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    if (is_letter(c) || is_digit(c) || c == '_' || (c >= 0x80 && is_word_char(c))) {
      append_utf8(word, c);
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

std::map<std::string, int> shingles_of(std::string_view text) {
  constexpr std::size_t n = 4;
  const auto words = words_of(text);
  std::map<std::string, int> counts;
  const std::size_t count = words.size() < n ? std::min<std::size_t>(1, words.size()) : words.size() - n + 1;
  for (std::size_t i = 0; i < count; ++i) {
    std::string shingle;
    for (std::size_t j = i; j < std::min(i + n, words.size()); ++j) shingle += words[j] + '\n';
    ++counts[shingle];
  }
  return counts;
}

}  // namespace

ShingleScore shingle_score(std::string_view truth, std::string_view predicted) {
  const auto expected = shingles_of(truth);
  auto found = shingles_of(predicted);
  ShingleScore score;
  for (const auto& [shingle, count] : expected) {
    const auto it = found.find(shingle);
    const int other = it == found.end() ? 0 : it->second;
    score.true_positive += std::min(count, other);
    score.false_negative += std::max(0, count - other);
    score.false_positive += std::max(0, other - count);
    if (it != found.end()) found.erase(it);
  }
  for (const auto& [shingle, count] : found) score.false_positive += count;
  const double sum = score.true_positive + score.false_positive + score.false_negative;
  if (sum > 0) {
    score.true_positive /= sum;
    score.false_positive /= sum;
    score.false_negative /= sum;
  }
  return score;
}

double ShingleScore::precision() const {
  if (false_positive == 0 && false_negative == 0) return 1;
  return true_positive + false_positive == 0 ? 0 : true_positive / (true_positive + false_positive);
}

double ShingleScore::recall() const {
  if (false_positive == 0 && false_negative == 0) return 1;
  return true_positive + false_negative == 0 ? 0 : true_positive / (true_positive + false_negative);
}

void ShingleMean::add(const ShingleScore& score) {
  if (score.true_positive + score.false_positive > 0) {
    precision_sum_ += score.precision();
    ++precision_count_;
  }
  if (score.true_positive + score.false_negative > 0) {
    recall_sum_ += score.recall();
    ++recall_count_;
  }
}

double ShingleMean::f1() const {
  const double p = precision(), r = recall();
  return p + r == 0 ? 0 : 2 * p * r / (p + r);
}

}  // namespace longhaul
