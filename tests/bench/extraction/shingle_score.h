// How well extracted text agrees with the true text of an article: multisets of 4-word shingles, words being runs of
// letters, digits and underscores, as the article-extraction-benchmark of Scrapinghub defines it. Per page the counts
// are divided by their sum; precision and recall are means over pages; F1 is their harmonic mean.
#pragma once

#include <string>
#include <string_view>

namespace longhaul {

struct ShingleScore {
  double true_positive = 0, false_positive = 0, false_negative = 0;  // sum to 1, or all 0 for two empty texts
  double precision() const;
  double recall() const;
};
ShingleScore shingle_score(std::string_view truth, std::string_view predicted);

class ShingleMean {
 public:
  void add(const ShingleScore& score);
  double precision() const { return precision_count_ == 0 ? 0 : precision_sum_ / precision_count_; }
  double recall() const { return recall_count_ == 0 ? 0 : recall_sum_ / recall_count_; }
  double f1() const;

 private:
  double precision_sum_ = 0, recall_sum_ = 0;
  int precision_count_ = 0, recall_count_ = 0;
};

}  // namespace longhaul
