// The parts of a step that only compute: what it is made of, who evaluates what, whose loss is the worst, and whose
// gradient is wrong.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "engine/train/step/gradient_replay.h"
#include "engine/train/step/group_sums.h"
#include "engine/train/step/pipeline_executor.h"
#include "engine/train/step/step_schedule.h"
#include "tests/parallel/training_on_ranks.h"

using namespace longhaul;

namespace {

TrainerOptions options_of(std::int64_t steps) {
  TrainerOptions options;
  options.optimizer.lr = 0.5, options.optimizer.lr_schedule = "constant", options.optimizer.warmup_steps = 0;
  options.steps = steps, options.micro_batch_size = 2, options.global_batch_size = 12;
  return options;
}

std::vector<double> packed_losses(const std::vector<std::pair<double, double>>& losses_and_counts) {
  std::vector<double> packed(losses_and_counts.size() * packed_sums_fields);
  for (std::size_t i = 0; i < losses_and_counts.size(); ++i) {
    ObjectiveSums sums;
    sums.loss = losses_and_counts[i].first, sums.count = losses_and_counts[i].second;
    sums.tokens = 2 * sums.count, sums.computed = 3 * sums.count, sums.extra[1] = 1;
    sums.largest = sums.count / 2;
    pack_sums(sums, std::span(packed).subspan(i * packed_sums_fields));
  }
  return packed;
}

// Ranks that computed rightly: rank r has the digest 100 + r of its own micro-batch.
std::vector<ReplayDigests> right_digests(std::size_t ranks) {
  std::vector<ReplayDigests> digests(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    digests[r].of[ReplayDigests::own] = digests[r].of[ReplayDigests::own_again] = 100 + r;
    digests[r].of[ReplayDigests::neighbour] = digests[r].of[ReplayDigests::neighbour_again] = 100 + (r + 1) % ranks;
    digests[r].of[ReplayDigests::third] = 100 + (r + 2) % ranks;
  }
  return digests;
}

}  // namespace

TEST_CASE("a step has as many micro-batches as its batch, and the learning rate that was ordered last") {
  Mesh mesh;
  StepSchedule schedule(options_of(10), mesh);
  CHECK(schedule.batch_size(0) == 12);
  CHECK(schedule.micro_batches(12) == 6);
  CHECK(schedule.micro_batches_max() == 6);
  CHECK(schedule.gradient_options(mesh).micro_batches == std::vector<int>{6});
  CHECK(schedule.operations(6).size() == 12);  // a forward and a backward of each
  CHECK(schedule.operations_of_one(mesh).value().size() == 2);
  CHECK(schedule.slots(mesh) == std::vector<int>{1});
  CHECK(schedule.phase_at(3) == nullptr);
  CHECK(schedule.learning_rate_at(3) == 0.5);
  schedule.set_peak_learning_rate(0.125);
  CHECK(schedule.learning_rate_at(3) == 0.125);
}

TEST_CASE("the phase of a step is the first that has not ended; an ordered rate scales all phases alike") {
  TrainerOptions options = options_of(10);
  for (const auto& [last, rate] : {std::pair<std::int64_t, double>{4, 0.5}, {10, 0.25}}) {
    PlannedPhase phase;
    phase.first_step = options.phases.empty() ? 1 : options.phases.back().last_step + 1;
    phase.last_step = last, phase.lr_begin = phase.lr_end = rate, phase.lr_shape = "constant";
    options.phases.push_back(phase);
  }
  Mesh mesh;
  StepSchedule schedule(options, mesh);
  CHECK(schedule.phase_at(4) == &schedule.options().phases[0]);
  CHECK(schedule.phase_at(5) == &schedule.options().phases[1]);
  CHECK(schedule.phase_at(11) == &schedule.options().phases[1]);
  CHECK(schedule.learning_rate_at(5) == doctest::Approx(0.25));
  schedule.set_peak_learning_rate(1.0);
  CHECK(schedule.learning_rate_at(2) == doctest::Approx(1.0));
  CHECK(schedule.learning_rate_at(5) == doctest::Approx(0.5));
}

TEST_CASE("replicas divide the micro-batches of an evaluation; together, all of them compute as many") {
  for (const bool together : {false, true}) {
    std::vector<int> computed(4, 0);
    for (int rank = 0; rank < 3; ++rank) {
      const EvaluationShare share = evaluation_share(7, 2, rank, 3, together);
      CHECK(share.total == 4);
      CHECK(share.per_rank == 2);
      if (together) CHECK(share.end - share.first == 2);
      for (std::int64_t i = share.first; i < std::min(share.end, share.total); ++i)
        ++computed[static_cast<std::size_t>(i)];
    }
    CHECK(computed == std::vector<int>(4, 1));
  }
  const EvaluationShare nothing = evaluation_share(7, 2, 2, 3, false);
  CHECK(nothing.first >= nothing.end);  // of the third of three
}

TEST_CASE("sums of a group add up in order, and the worst is the largest mean, or the first without a number") {
  const GroupSums sound = group_sums_of(packed_losses({{2, 4}, {9, 3}, {8, 4}, {0, 0}}));
  CHECK(sound.sums.loss == 19);
  CHECK(sound.sums.count == 11);
  CHECK(sound.sums.tokens == 22);
  CHECK(sound.sums.computed == 33);
  CHECK(sound.sums.extra[1] == 4);
  CHECK(sound.sums.largest == 2);  // not their sum
  CHECK(sound.worst == 1);
  const GroupSums broken = group_sums_of(packed_losses({{2, 4}, {9, 3}, {NAN, 4}, {INFINITY, 1}}));
  CHECK(broken.worst == 2);
  CHECK(std::isnan(broken.sums.loss));
}

TEST_CASE("the rank whose gradient is wrong is named where others agree against it") {
  CHECK_FALSE(digests_differ(right_digests(4)));
  std::vector<ReplayDigests> digests = right_digests(4);
  for (const ReplayDigests::Field field : {ReplayDigests::own, ReplayDigests::own_again}) digests[2].of[field] = 7;
  digests[2].of[ReplayDigests::neighbour] = digests[2].of[ReplayDigests::neighbour_again] = 8;
  digests[2].of[ReplayDigests::third] = 9;
  CHECK(digests_differ(digests));
  const std::string lines = judge_digests(5, digests, {10, 11, 12, 13});
  CAPTURE(lines);
  CHECK(split(lines, '\n').size() >= 2);  // it disagrees with both neighbours
  const SilentCorruption found = corruption_of(5, 3, {"", lines});
  CHECK(found.decided);
  CHECK(found.rank == 12);
  CHECK(found.step == 5);
  CHECK(found.sound_step == 3);
  CHECK(found.what.find("of step 5") != std::string::npos);
}

TEST_CASE("of two ranks that stand by their results nobody is accused") {
  std::vector<ReplayDigests> digests = right_digests(2);
  digests[1].of[ReplayDigests::own] = digests[1].of[ReplayDigests::own_again] = 7;
  const SilentCorruption found = corruption_of(5, 4, {judge_digests(5, digests, {0, 1})});
  CHECK_FALSE(found.decided);
  CHECK(found.what.find("there is no third rank") != std::string::npos);
}

TEST_CASE("ranks that share a sequence add up what they computed of it, and take the largest of what is largest") {
  ParallelDims dims;
  dims.cp = 2;
  std::vector<GroupSums> seen(2);
  test::on_threads(dims, [&](int rank, Mesh& mesh) {
    ObjectiveSums mine;
    mine.loss = rank + 1, mine.count = 4, mine.tokens = 8, mine.computed = 16, mine.extra[0] = 2;
    mine.largest = rank == 0 ? 5 : 3;
    const auto sums = sum_over_group(mesh, {mine}, 1);
    if (sums.ok()) seen[static_cast<std::size_t>(rank)] = *sums;
  });
  for (const GroupSums& of_rank : seen) {
    CHECK(of_rank.sums.loss == 3);
    CHECK(of_rank.sums.count == 8);
    CHECK(of_rank.sums.tokens == 16);
    CHECK(of_rank.sums.computed == 32);
    CHECK(of_rank.sums.extra[0] == 4);
    CHECK(of_rank.sums.largest == 5);
  }
}
