// All ranks' lists together: the idle times of the papers, deadlocks, pictures.
#include "contracts/pipeline/pipeline_timeline.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/digest/philox.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/pipeline/pipeline_schedule.h"
#include "tests/support/schedule_picture.h"

using namespace longhaul;

namespace {
using TimelineKind = ScheduleOp::Kind;
using TimelineLists = std::vector<std::vector<ScheduleOp>>;

PipelineTimeline timeline_of(PipelineKind kind, int pp, int vp, int micro_batches, const PipelineCosts& costs = {}) {
  const auto lists = pipeline_schedules({kind, pp, vp, micro_batches, 0});
  REQUIRE(lists.ok());
  auto timeline = run_pipeline(*lists, vp, costs);
  if (!timeline.ok()) FAIL(timeline.error().message());
  return std::move(timeline).value();
}

int timeline_draw(PhiloxSequence& random, int first, int last) {
  return first + static_cast<int>(random.next_below(static_cast<std::uint64_t>(last - first + 1)));
}
}  // namespace

TEST_CASE("1F1B idles for (p-1)/(m+p-1) of its time, whatever a backward costs") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    const int p = timeline_draw(random, 1, 8), m = timeline_draw(random, 1, 24);
    CAPTURE(p);
    CAPTURE(m);
    PipelineCosts costs;
    if (seed > 100)
      costs.stages[0].forward = timeline_draw(random, 1, 9), costs.stages[0].backward = timeline_draw(random, 1, 9);
    const PipelineTimeline t = timeline_of(PipelineKind::one_f_one_b, p, 1, m, costs);
    CHECK(t.makespan == (m + p - 1) * (costs.stages[0].forward + costs.stages[0].backward));
    CHECK(t.bubble == doctest::Approx((p - 1.0) / (m + p - 1)));
    for (int r = 0; r < p; ++r) CHECK(t.slots[static_cast<std::size_t>(r)] == std::min(m, p - r));
  }
}

TEST_CASE("v chunks divide the idle time by v: (p-1)/(m v) of the work") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    const int p = timeline_draw(random, 2, 8), m = p * timeline_draw(random, 1, 4), v = timeline_draw(random, 2, 5);
    CAPTURE(p);
    CAPTURE(m);
    CAPTURE(v);
    const PipelineTimeline t = timeline_of(PipelineKind::interleaved, p, v, m);
    const double work = 3.0 * m * v;
    CHECK(t.makespan / work - 1 == doctest::Approx((p - 1.0) / (m * v)));
  }
}

TEST_CASE("ZB-H1 idles for (p-1)(F+I-W) and its largest rank holds no more than 1F1B's") {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    const int p = timeline_draw(random, 1, 8), m = timeline_draw(random, p, 4 * p);
    StageCosts c;
    if (seed > 50) {
      c.forward = timeline_draw(random, 1, 9), c.backward_input = timeline_draw(random, 1, 9);
      c.backward_weight = timeline_draw(random, 1, static_cast<int>(std::min(c.forward, c.backward_input)));
    }
    CAPTURE(p);
    CAPTURE(m);
    CAPTURE(c.forward);
    CAPTURE(c.backward_input);
    CAPTURE(c.backward_weight);
    const PipelineTimeline t = timeline_of(PipelineKind::zb_h1, p, 1, m, {{c}, 0});
    const double work = m * (c.forward + c.backward_input + c.backward_weight);
    CHECK(t.makespan - work == (p - 1) * (c.forward + c.backward_input - c.backward_weight));
    const PipelineTimeline plain = timeline_of(PipelineKind::one_f_one_b, p, 1, m);
    CHECK(std::ranges::max(t.slots) == std::ranges::max(plain.slots));
  }
}

TEST_CASE("ZB-H1 in chunks idles less than interleaved 1F1B and holds less on rank 0") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    const int p = timeline_draw(random, 2, 7), m = p * timeline_draw(random, 1, 4), v = timeline_draw(random, 2, 4);
    CAPTURE(p);
    CAPTURE(m);
    CAPTURE(v);
    const PipelineTimeline zero = timeline_of(PipelineKind::zb_h1, p, v, m);
    const PipelineTimeline plain = timeline_of(PipelineKind::interleaved, p, v, m);
    CHECK(zero.makespan == 3 * m * v + (p - 1));
    CHECK(plain.makespan == 3 * m * v + 3 * (p - 1));
    CHECK(zero.slots[0] <= plain.slots[0]);
  }
}

TEST_CASE("every schedule runs to its end, and never before its inputs have arrived") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    const auto kind = static_cast<PipelineKind>(random.next_below(3));
    const int p = timeline_draw(random, 2, 7), m = timeline_draw(random, 1, 3 * p + 1);
    const int v = kind == PipelineKind::one_f_one_b   ? 1
                  : kind == PipelineKind::interleaved ? timeline_draw(random, 2, 4)
                                                      : timeline_draw(random, 1, 4);
    CAPTURE(std::string(to_string(kind)));
    CAPTURE(p);
    CAPTURE(v);
    CAPTURE(m);
    PipelineCosts costs;
    costs.stages.resize(static_cast<std::size_t>(p * v));
    for (StageCosts& c : costs.stages) {
      c.forward = random.next_uniform(), c.backward = random.next_uniform();
      c.backward_input = random.next_uniform(), c.backward_weight = random.next_uniform();
    }
    costs.send = random.next_uniform();
    const PipelineTimeline t = timeline_of(kind, p, v, m, costs);

    const auto index = [&](int micro_batch, int stage) { return static_cast<std::size_t>(stage * m + micro_batch); };
    std::vector<PipelineTimeline::Entry> forward(static_cast<std::size_t>(m * p * v)), backward = forward;
    double busy = 0, last = 0;
    for (int r = 0; r < p; ++r) {
      double free_at = 0;
      for (const PipelineTimeline::Entry& e : t.ranks[static_cast<std::size_t>(r)]) {
        CHECK(e.start >= free_at);
        free_at = e.end, busy += e.end - e.start, last = std::max(last, e.end);
        const int stage = e.op.chunk * p + r;
        if (e.op.kind == TimelineKind::forward) forward[index(e.op.micro_batch, stage)] = e;
        if (e.op.kind == TimelineKind::backward || e.op.kind == TimelineKind::backward_input)
          backward[index(e.op.micro_batch, stage)] = e;
      }
    }
    for (int micro_batch = 0; micro_batch < m; ++micro_batch)
      for (int stage = 0; stage < p * v; ++stage) {
        const auto& f = forward[index(micro_batch, stage)];
        const auto& b = backward[index(micro_batch, stage)];
        CHECK(b.start >= f.end);
        if (stage > 0) CHECK(f.start >= forward[index(micro_batch, stage - 1)].end + costs.send);
        if (stage > 0) CHECK(backward[index(micro_batch, stage - 1)].start >= b.end + costs.send);
      }
    CHECK(t.makespan == last);
    CHECK(t.bubble == doctest::Approx(1 - busy / (p * last)));
  }
}

TEST_CASE("lists that wait for each other are found, with the chain of who waits for whom") {
  const auto op = [](TimelineKind kind, int micro_batch) { return ScheduleOp{kind, micro_batch, 0}; };
  constexpr auto F = TimelineKind::forward, B = TimelineKind::backward;
  const TimelineLists crossed = {{op(F, 0), op(B, 0), op(F, 1), op(B, 1)}, {op(F, 0), op(F, 1), op(B, 0), op(B, 1)}};
  const auto r = run_pipeline(crossed, 1, {});
  REQUIRE(!r.ok());
  CHECK(r.error().what ==
        "pipeline schedule: rank 0 can never run B0; B0 on rank 0 waits for B0 on rank 1, which comes after F1 there; "
        "F1 on rank 1 waits for F1 on rank 0, which comes after B0 there");

  // One backward drawn before the forward that its neighbour needs: the random schedules with a planted fault.
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    const int p = timeline_draw(random, 2, 5), m = timeline_draw(random, 2 * p, 4 * p);
    TimelineLists lists = pipeline_schedules({PipelineKind::one_f_one_b, p, 1, m, 0}).value();
    // Rank 0 runs its first backward before its last warm-up forward; only the last rank's input is then missing if
    // rank p-1 wants one more forward before its own first backward.
    auto& last = lists[static_cast<std::size_t>(p - 1)];
    const int more = timeline_draw(random, p, m - 1);  // forwards that the last rank wants first
    std::stable_partition(last.begin(), last.end(),
                          [&](const ScheduleOp& o) { return o.kind == F && o.micro_batch <= more; });
    const auto planted = run_pipeline(lists, 1, {});
    REQUIRE(!planted.ok());
    CHECK(planted.error().what.find("rank 0 can never run B0") != std::string::npos);
    ++found;
  }
  CHECK(found == 100);
}

TEST_CASE("a list that is wrong by itself is named with its rank") {
  TimelineLists lists = pipeline_schedules({PipelineKind::zb_h1, 3, 1, 4, 0}).value();
  const auto error_of = [&](const TimelineLists& wrong, int vp = 1) {
    const auto r = run_pipeline(wrong, vp, {});
    REQUIRE(!r.ok());
    return r.error().what;
  };
  TimelineLists wrong = lists;
  std::swap(wrong[1][0], wrong[1].back());
  CHECK(error_of(wrong) == "rank 1: schedule: W3 comes before its input backward");
  wrong = lists;
  wrong[2].pop_back();
  CHECK(error_of(wrong) == "rank 2: schedule: 1 micro-batches have no backward");
  wrong = lists;
  std::erase_if(wrong[2], [](const ScheduleOp& op) { return op.micro_batch == 3; });
  CHECK(error_of(wrong) ==
        "pipeline schedule: rank 2: a chunk runs 3 micro-batches, chunk 0 of rank 0 runs 4 or others");
  wrong = lists;
  wrong[0][0].chunk = 1;
  CHECK(error_of(wrong) == "pipeline schedule: rank 0: F0.1 has chunk 1 of 1");
  CHECK(!run_pipeline({}, 1, {}).ok());
  PipelineCosts costs;
  costs.stages.resize(2);
  CHECK(run_pipeline(lists, 1, costs).error().what == "costs of 2 stages, but the pipeline has 3");
  costs.stages.resize(1);
  costs.send = -1;
  CHECK(!run_pipeline(lists, 1, costs).ok());
  costs.send = std::nan("");
  CHECK(!run_pipeline(lists, 1, costs).ok());
}

// To renew docs/contracts.md, copy the pictures that this test prints when they differ.
TEST_CASE("the pictures in the documentation are those of the schedules") {
  const auto page = read_file(LONGHAUL_SOURCE_DIR "/docs/contracts.md");
  REQUIRE(page.ok());
  const auto check_shown = [&](PipelineKind kind, int pp, int vp, int micro_batches) {
    std::string indented;
    for (const std::string& line :
         split(trim(testing::schedule_picture(timeline_of(kind, pp, vp, micro_batches))), '\n'))
      indented += "    " + line + "\n";
    CHECK_MESSAGE(page->find(indented) != std::string::npos, std::string(to_string(kind)) << " is missing:\n"
                                                                                          << indented);
  };
  check_shown(PipelineKind::one_f_one_b, 4, 1, 6);
  check_shown(PipelineKind::interleaved, 3, 2, 3);
  check_shown(PipelineKind::zb_h1, 4, 1, 6);
  check_shown(PipelineKind::zb_h1, 3, 2, 3);
}

TEST_CASE("a picture has one column per unit of time") {
  const PipelineTimeline timeline = timeline_of(PipelineKind::one_f_one_b, 2, 1, 2);
  CHECK(testing::schedule_picture(timeline) ==
        "rank 0 | F0 F1 .  .  B0 -  .  B1 -\n"
        "rank 1 | .  F0 B0 -  F1 B1 -  .  .\n");
  CHECK(testing::schedule_picture(timeline, 0.5).find("rank 1 | .  .  F0 -  B0 -  -  -  F1") != std::string::npos);
}
