// How long a rank takes to draw the answers of a rollout and to compare them with a reference, from what a step of
// generation takes (serving_time.h). Answers are drawn as engine/infer/generate/generator.h does it: as many at a time
// as there are slots, the prompt of a group once, a token of every answer in a step; the reference reads the prompt of
// a group once as well, and each answer in one piece (engine/infer/generate/rollout_model.h). All answers are taken to
// be alike. What no operation has (memory that is used for the first time, the texts of answers, other programs on the
// cores) is in how much longer whole rollouts took than their operations, where some were timed.
#pragma once

#include <span>

#include "autotune/inference/serving_time.h"
#include "contracts/plan/processor_speed.h"

namespace longhaul {

struct RolloutWork {
  double answers = 0;  // of this rank, whole groups
  double group = 1;    // answers to a prompt
  double prompt_tokens = 1, answer_tokens = 1;
  double slots = 1;
  double chunk = 1024;  // tokens of prompts that a step reads at most (engine/tasks/rollouts/rollout_worker.cc)
  bool reference = false;
};

// Seconds.
struct RolloutTime {
  double generate = 0, reference = 0;
  double total() const { return generate + reference; }
};

RolloutTime rollout_time(const ModelShape& shape, const ServingLayout& layout, const ServingPlace& place,
                         const RolloutWork& work);

// By how much rollouts that were timed took longer than their operations: the geometric mean of all of them,
// ServingPlace as `drawing` and `scoring`. The operations are `speed`, in f32 where `f32`. 1: none was timed.
struct RolloutFactors {
  double drawing = 1, scoring = 1;
};
RolloutFactors rollout_factors(const ServingSpeed& speed, std::span<const TimedRollout> timed, bool f32);

// Seconds that a piece of work takes by itself, and that it would take if another one went on beside it all the time.
struct SharedSeconds {
  double alone = 0, beside = 0;
};

// When `mine` is done if `other` begins at the same time: both are as slow as beside each other until the first of them
// is done, and what is left of the second goes on as fast as alone. Each has a constant rate in either case, so that of
// `mine` the share 1 - other.beside / mine.beside is left when `other` ends. Nothing is slower alone than with another
// one beside it: an `alone` that is larger than `beside` counts as that. The step that waits for both takes the larger
// of the two.
double seconds_beside(const SharedSeconds& mine, const SharedSeconds& other);

// To take over weights that are there in f32 as they are drawn with: each is read and written once.
double take_weights_time(const ModelShape& shape, const ServingLayout& layout, const ServingPlace& place);

// Messages that follow each other on the longest way down a binary tree from one rank to `receivers` others.
double tree_hops(int receivers);

// To hand weights in f32 to `receivers` other ranks on processors (engine/tasks/rollout_ranks/rollout_messages.h): each
// is copied into a message and out of one, and between two ranks of a node copied twice, into memory that they share
// and out of it; between nodes it goes over a network card.
double hand_over_time(const ModelShape& shape, const ServingPlace& place, int receivers, bool one_node);

}  // namespace longhaul
