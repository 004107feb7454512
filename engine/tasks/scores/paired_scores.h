// Room engine/tasks/scores
// What follows from scores item by item: standard errors, intervals, two models compared on the same items, and the
// lines of samples.jsonl. Start here; intervals.h has the statistics.
// It must not know models: engine/tasks/common measures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/value/value.h"
#include "engine/tasks/scores/intervals.h"

namespace longhaul {

// One question or pair as one model answered it.
struct ScoredItem {
  int line = 0;                     // of the file with the items; what pairs the items of two models
  std::vector<std::uint8_t> right;  // one for each of ItemScores::figures: 1 right, 0 not
  Value sample;                     // what is kept of it: a table
  std::vector<ItemAmount> amounts;  // one for each of ItemScores::means
};

// A task's items, in the order of their lines, each line once.
struct ItemScores {
  std::vector<std::string> figures;  // `right` has one for each; shares of items
  std::vector<std::string> means;    // `amounts` has one for each; means that are no shares of items
  std::string compared;              // figure that counts the items which both models were asked
  std::vector<ScoredItem> items;
};

// Items that both were asked, by their lines.
PairedCounts count_pairs(const ItemScores& first, const ItemScores& second, std::size_t figure);

// By how much the first is above the second in a mean, item by item of those that both were asked.
std::vector<ItemAmount> paired_differences(const ItemScores& first, const ItemScores& second, std::size_t mean);

// A line of samples.jsonl for each item: {"model", "task", "line", then the members of the sample}.
std::string sample_lines(const ItemScores& scores, const std::string& model, const std::string& task);

}  // namespace longhaul
