// Layouts that people would think of first, so that a search can say what became of each.
#pragma once

#include <string>

#include "autotune/time/training_case.h"

namespace longhaul {

struct Alternative;
struct RankedLayout;

inline constexpr int alternative_classes = 9;
const char* alternative_name(int which);
// Bit i: the layout is one of class i.
unsigned classes_of(const TrainingLayout& layout, const Cluster& cluster);

// "1.31 times as long (2.10 s): 0.35 s more of bubble", "needs 12 GiB more memory per GPU", "is the winner".
std::string verdict_on(const Alternative& alternative, const RankedLayout& winner);

}  // namespace longhaul
