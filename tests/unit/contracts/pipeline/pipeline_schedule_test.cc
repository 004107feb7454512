// The lists themselves: complete, within their memory, refused with the nearest numbers that fit.
#include "contracts/pipeline/pipeline_schedule.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/digest/philox.h"
#include "base/text/text.h"
#include "contracts/pipeline/pipeline_timeline.h"
#include "contracts/settings/training/pipeline.h"

using namespace longhaul;

namespace {
using Kind = ScheduleOp::Kind;

std::string schedule_text(const std::vector<ScheduleOp>& ops) {
  std::vector<std::string> names;
  for (const ScheduleOp& op : ops) names.push_back(to_string(op));
  return join(names, " ");
}

std::string schedule_text(PipelineKind kind, int pp, int vp, int micro_batches, int pp_rank) {
  return schedule_text(pipeline_schedule({kind, pp, vp, micro_batches, 0}, pp_rank).value());
}
}  // namespace

TEST_CASE("the lists of small pipelines are those that the papers' rules give by hand") {
  // Narayanan et al. 2021, section 2.2.1: pp - 1 - rank forwards of warm-up, then one forward and one backward in turn.
  CHECK(schedule_text(PipelineKind::one_f_one_b, 4, 1, 4, 0) == "F0 F1 F2 F3 B0 B1 B2 B3");
  CHECK(schedule_text(PipelineKind::one_f_one_b, 4, 1, 4, 3) == "F0 B0 F1 B1 F2 B2 F3 B3");
  // Two chunks: 2 (2-0-1) + 2 = 4 forwards of warm-up on rank 0, 2 on rank 1.
  CHECK(schedule_text(PipelineKind::interleaved, 2, 2, 4, 0) ==
        "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3");
  CHECK(schedule_text(PipelineKind::interleaved, 2, 2, 4, 1) ==
        "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 F3.1 B3.1 B2 B3");
  // Qi et al. 2024, section 2.1: 1F1B's warm-up, rank r's weight gradients r input gradients late.
  CHECK(schedule_text(PipelineKind::zb_h1, 3, 1, 4, 0) == "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  CHECK(schedule_text(PipelineKind::zb_h1, 3, 1, 4, 2) == "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
}

TEST_CASE("one rank alone accumulates gradients whatever the schedule is called") {
  CHECK(schedule_text(PipelineKind::one_f_one_b, 1, 1, 2, 0) == "F0 B0 F1 B1");
  CHECK(schedule_text(PipelineKind::zb_h1, 1, 1, 2, 0) == "F0 I0 W0 F1 I1 W1");
}

TEST_CASE("the schedule 1f1b is the list that schedule_1f1b makes") {
  for (int pp = 1; pp <= 5; ++pp)
    for (int rank = 0; rank < pp; ++rank)
      for (const int m : {1, 3, 4, 9})
        CHECK(pipeline_schedule({PipelineKind::one_f_one_b, pp, 1, m, 0}, rank).value() == schedule_1f1b(pp, rank, m));
}

TEST_CASE("every schedule is complete and needs the slots that its table promises") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    const auto below = [&](int n) { return static_cast<int>(random.next_below(static_cast<std::uint64_t>(n))); };
    const int pp = 2 + below(7), m = 1 + below(3 * pp);
    const auto kind = static_cast<PipelineKind>(below(3));
    const int vp = kind == PipelineKind::one_f_one_b   ? 1
                   : kind == PipelineKind::interleaved ? 2 + below(3)
                                                       : 1 + below(4);
    CAPTURE(std::string(to_string(kind)));
    CAPTURE(pp);
    CAPTURE(vp);
    CAPTURE(m);
    const PipelineScheduleSettings settings{kind, pp, vp, m, 0};
    const int group = vp > 1 ? pipeline_group(settings).value() : 0;
    CAPTURE(group);
    if (vp > 1 && m >= pp) CHECK((group >= pp && (m % group == 0 || m % group >= pp)));
    for (int r = 0; r < pp; ++r) {
      const auto ops = pipeline_schedule(settings, r).value();
      const int per_forward = kind == PipelineKind::zb_h1 ? 3 : 2;
      REQUIRE(ops.size() == static_cast<std::size_t>(per_forward * m * vp));
      int promised = kind == PipelineKind::one_f_one_b   ? pp - r
                     : kind == PipelineKind::interleaved ? 2 * (pp - r - 1) + (vp - 1) * group + 1
                                                         : pp + (vp - 1) * group;
      if (vp > 1 && m < pp) promised = m * vp;  // all forwards first
      CHECK(schedule_slots(ops).value() == std::min(promised, m * vp));
    }
  }
}

TEST_CASE("a group that does not fit is refused with the nearest that do") {
  const auto refusal = [](int pp, int micro_batches, int group) {
    const auto r = pipeline_group({PipelineKind::interleaved, pp, 2, micro_batches, group});
    REQUIRE(!r.ok());
    CHECK(r.error().code == ErrorCode::invalid_input);
    return r.error().message();
  };
  CHECK(refusal(4, 12, 2) == "group = 2 is smaller than pp = 4; use group = 4");
  CHECK(refusal(4, 8, 9) == "group = 9 is larger than the 8 micro-batches; use group = 8");
  CHECK(refusal(4, 10, 4) ==
        "group = 4 leaves 2 of 10 micro-batches, fewer than pp = 4; use group = 5, or 8 or 12 micro-batches");
  CHECK(refusal(4, 12, 10) ==
        "group = 10 leaves 2 of 12 micro-batches, fewer than pp = 4; use group = 8 or 12, or 10 or 14 micro-batches");
  CHECK(refusal(4, 3, 2) ==
        "group = 2 does not fit 3 micro-batches on pp = 4 ranks; use group = 0, or at least 4 micro-batches");
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    const int pp = 2 + static_cast<int>(random.next_below(6)), m = pp + static_cast<int>(random.next_below(20));
    const int group = 1 + static_cast<int>(random.next_below(30));
    const auto r = pipeline_group({PipelineKind::interleaved, pp, 2, m, group});
    if (r.ok()) {
      CHECK(*r == group);
      continue;
    }
    // Every group and every number of micro-batches named in the hint is accepted.
    const std::vector<std::string> parts = split(r.error().hint, ',');
    CAPTURE(r.error().message());
    for (const std::string& word : split(parts[0], ' '))
      if (const int named = std::atoi(word.c_str()); named > 0)
        CHECK(pipeline_group({PipelineKind::interleaved, pp, 2, m, named}).ok());
    if (parts.size() > 1)
      for (const std::string& word : split(parts[1], ' '))
        if (const int named = std::atoi(word.c_str()); named > 0)
          CHECK(pipeline_group({PipelineKind::interleaved, pp, 2, named, group}).ok());
  }
}

TEST_CASE("without a group any number of micro-batches works") {
  for (int pp = 2; pp <= 6; ++pp)
    for (int m = 1; m <= 3 * pp; ++m) {
      CAPTURE(pp);
      CAPTURE(m);
      const auto lists = pipeline_schedules({PipelineKind::interleaved, pp, 2, m, 0});
      REQUIRE(lists.ok());
      CHECK(run_pipeline(*lists, 2, {}).ok());
    }
  CHECK(pipeline_group({PipelineKind::interleaved, 4, 2, 12, 0}).value() == 4);
  CHECK(pipeline_group({PipelineKind::interleaved, 4, 2, 9, 0}).value() == 5);
  CHECK(pipeline_group({PipelineKind::interleaved, 4, 2, 7, 0}).value() == 7);
}

TEST_CASE("a schedule that does not go with its chunks says what to write") {
  const auto refusal = [](PipelineScheduleSettings settings, int pp_rank = 0) {
    const auto r = pipeline_schedule(settings, pp_rank);
    REQUIRE(!r.ok());
    CHECK(r.error().code == ErrorCode::invalid_input);
    return r.error().message();
  };
  CHECK(refusal({PipelineKind::one_f_one_b, 2, 2, 4, 0}) ==
        "schedule \"1f1b\" runs one chunk per rank, but vp = 2; use schedule = \"interleaved\" or vp = 1");
  CHECK(refusal({PipelineKind::interleaved, 2, 1, 4, 0}) ==
        "schedule \"interleaved\" needs vp > 1; use vp = 2 or schedule = \"1f1b\"");
  CHECK(refusal({PipelineKind::zb_h1, 1, 2, 4, 0}) == "vp = 2 needs pp > 1; set vp = 1");
  CHECK(refusal({PipelineKind::zb_h1, 2, 1, 4, 3}) == "group = 3 needs vp > 1; set group = 0");
  CHECK(refusal({PipelineKind::zb_h1, 2, 1, 4, 0}, 2) == "pipeline rank 2 is not in [0, 2)");
  CHECK(refusal({PipelineKind::zb_h1, 2, 1, 0, 0}) == "pp = 2, vp = 1 and micro-batches = 0 must be at least 1");
  CHECK(refusal({PipelineKind::interleaved, 2, 1 << 30, 1 << 30, 0}).find("must not exceed") != std::string::npos);
  CHECK(pipeline_kind_from("zbh1").error().message() ==
        "there is no pipeline schedule \"zbh1\"; use 1f1b, interleaved, zb-h1");
  for (const auto kind : {PipelineKind::one_f_one_b, PipelineKind::interleaved, PipelineKind::zb_h1})
    CHECK(pipeline_kind_from(to_string(kind)).value() == kind);
}

TEST_CASE("pipeline settings become a schedule") {
  Value table = Value::make_table();
  table.set("schedule", Value(std::string("zb-h1")));
  const auto settings = pipeline_fields().parse(table, "pipeline");
  REQUIRE(settings.ok());
  ParallelDims dims;
  dims.pp = 4;
  CHECK(schedule_settings(*settings, dims, 8)->kind == PipelineKind::zb_h1);
  CHECK(schedule_settings({}, dims, 8)->kind == PipelineKind::one_f_one_b);
  dims.vp = 2;
  CHECK(schedule_settings({}, dims, 8)->kind == PipelineKind::interleaved);
  CHECK(schedule_settings({}, dims, 8)->vp == 2);
  CHECK(!schedule_settings({}, dims, 1LL << 33).ok());
  CHECK(!schedule_settings({}, dims, 0).ok());
  table.set("schedule", Value(std::string("gpipe")));
  CHECK(!pipeline_fields().parse(table, "pipeline").ok());
}
