// Room autotune/search
// The search for the fastest layout of a training that fits, by prediction alone.
// search_space.h lists the layouts, layout_search.h ranks them; alternatives.h judges well-known other choices.
// training_forecast.h, training_size.h and replan.h answer further questions with the same search.
// It measures nothing: trials of the best layouts are decided by autotune/trials.
//
// The search for the fastest layout that fits, in two levels: closed forms of memory and of a lower bound on the step's
// time sort all layouts; those that could still win are simulated, best bound first, until no bound is below what was
// found. So the winner is the one that simulating everything would find, for the same model of time and memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotune/memory/memory_profiles.h"
#include "autotune/search/search_space.h"
#include "autotune/time/measured_correction.h"
#include "autotune/time/step_time.h"

namespace longhaul {

struct SearchRequest {
  TrainingTask task;
  TrainingPlace place;
  MemoryProfile memory;
  SearchSpace space;
  std::vector<MeasuredRatio> measured;  // in this place, of the same constants' predictions: step times are corrected
  double memory_limit = 0;              // bytes of a GPU that a training may take
  int best = 10;                        // layouts to simulate and return at least, if there are so many
  int threads = 2;
};

struct RankedLayout {
  TrainingLayout layout;
  StepTime time;
  FrameworkMemory memory;  // of the stage that needs most
  int pp_rank = 0;         // that stage
  double seconds() const { return time.seconds(); }
};

// A well-known way to lay a model out, and what became of it.
struct Alternative {
  std::string name;                     // "no pipeline", "twice the tensor parallelism"
  std::optional<RankedLayout> fastest;  // of those that fit
  double missing = 0;                   // none fits: bytes that the smallest lacks
  bool possible = false;                // the space has such layouts
  std::string verdict;                  // a sentence
};

struct SearchOutcome {
  std::vector<RankedLayout> best;    // fastest first
  std::vector<RankedLayout> pareto;  // step time against memory, fastest first
  std::vector<Alternative> alternatives;
  std::int64_t enumerated = 0, fitting = 0, simulated = 0;
  double seconds = 0;  // that the search took
};

// unavailable: nothing fits; the error says by how much the smallest layout misses and what would make it fit.
// invalid_input: as layout_families has it, or no layout divides what there is.
Result<SearchOutcome> search_layouts(const SearchRequest& question);

// By what was measured, if anything was.
std::optional<MeasuredCorrection> correction_of(const SearchRequest& question);

// What memory and time models are asked with; also for tests and benches.
FrameworkTraining framework_training(const TrainingTask& task, const TrainingLayout& layout);

// A short text that distinguishes layouts: "tp=4 sp pp=8 vp=5 dp=16 zero=1 micro-batch 1, interleaved, recompute
// block".
std::string layout_text(const TrainingLayout& layout);

}  // namespace longhaul
