// Layouts that people would think of first, so that a search can say what became of each; and what would make a model
// fit that does not.
#pragma once

#include <string>

#include "autotune/time/training_case.h"

namespace longhaul {

struct Alternative;
struct RankedLayout;
struct SearchQuestion;

inline constexpr int alternative_classes = 9;
const char* alternative_name(int which);
// Bit i: the layout is one of class i.
unsigned classes_of(const TrainingLayout& layout, const Cluster& cluster);

// "1.31 times as long (2.10 s): 0.35 s more of bubble", "needs 12 GiB more memory per GPU", "is the winner".
std::string verdict_on(const Alternative& alternative, const RankedLayout& winner);

// Of a model whose smallest layout does not fit: a change that would make it fit.
std::string what_would_fit(const SearchQuestion& question, const TrainingLayout& smallest);

}  // namespace longhaul
