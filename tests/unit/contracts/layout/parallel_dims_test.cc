#include "contracts/layout/parallel_dims.h"

#include <doctest/doctest.h>

#include <set>
#include <tuple>

#include "base/text/text.h"
#include "contracts/layout/axis_ranks.h"

namespace longhaul {
namespace {

struct DimsOf {
  int tp = 1, cp = 1, dp_shard = 1, dp_replicate = 1, pp = 1, ep = 1, etp = 1;
  operator ParallelDims() const {
    ParallelDims dims;
    dims.tp = tp, dims.cp = cp, dims.dp_shard = dp_shard, dims.dp_replicate = dp_replicate, dims.pp = pp;
    dims.ep = ep, dims.etp = etp;
    return dims;
  }
};

// "what; hint", or "" where it is taken.
std::string refusal_of(const ParallelDims& dims, int ranks) {
  const auto resolved = resolve_dims(dims, ranks);
  return resolved.ok() ? std::string() : resolved.error().what + "; " + resolved.error().hint;
}
std::string refusal_of_experts(const ParallelDims& dims) {
  const auto experts = expert_dims_of(dims);
  return experts.ok() ? std::string() : experts.error().what + "; " + experts.error().hint;
}

}  // namespace

TEST_CASE("parallel dims: a layout is written by what differs from one rank, in one order") {
  CHECK(ParallelDims{}.to_string() == "one rank");
  ParallelDims all = DimsOf{.tp = 2, .cp = 3, .dp_shard = 4, .dp_replicate = 2, .pp = 6, .ep = 4, .etp = 5};
  all.sp = true, all.vp = 7, all.zero = 2;
  CHECK(all.to_string() == "tp=2 sp cp=3 ep=4 etp=5 pp=6 vp=7 dp=8 zero=2");
  ParallelDims zero;
  zero.zero = 1;
  CHECK(zero.to_string() == "zero=1");
}

TEST_CASE("parallel dims: every axis has its least and its largest, and beyond them it is refused by name") {
  const auto refused = [](const std::string& axis, int value) {
    Value table = Value::make_table();
    table.set(axis, value);
    Diagnostics problems;
    (void)parallel_dims_fields().parse(table, "parallel", problems);
    const std::string text = problems.render("");
    if (!problems.empty()) CHECK(text.find(format("parallel.{} = {}", axis, value)) != std::string::npos);
    return !problems.empty();
  };
  struct Bounds {
    std::string axis;
    int least, largest;
  };
  for (const Bounds& one : {Bounds{"tp", 1, 1024},
                            {"cp", 1, 1024},
                            {"ep", 1, 1024},
                            {"etp", 1, 1024},
                            {"pp", 1, 1024},
                            {"vp", 1, 1024},
                            {"dp_replicate", 0, 65536},
                            {"dp_shard", 1, 65536},
                            {"zero", 0, 3}}) {
    CAPTURE(one.axis);
    CHECK_FALSE(refused(one.axis, one.least));
    CHECK_FALSE(refused(one.axis, one.largest));
    CHECK(refused(one.axis, one.least - 1));
    CHECK(refused(one.axis, one.largest + 1));
  }
}

TEST_CASE("parallel dims: replicas take what is left of the ranks, and what does not divide them is named") {
  CHECK(resolve_dims(DimsOf{.tp = 2, .dp_replicate = 0, .pp = 2}, 12)->dp_replicate == 3);
  CHECK(resolve_dims(DimsOf{.tp = 2, .cp = 3, .dp_shard = 2, .dp_replicate = 0, .pp = 2}, 24)->dp_replicate == 1);
  CHECK(resolve_dims(DimsOf{.tp = 2, .dp_replicate = 3, .pp = 2}, 12).ok());
  CHECK(refusal_of(DimsOf{.tp = 2, .cp = 3, .dp_shard = 4, .dp_replicate = 0, .pp = 5}, 60) ==
        "tp(2) * cp(3) * pp(5) * dp_shard(4) = 120 does not divide the job's 60 ranks; use a number of ranks that is a "
        "multiple of 120");
  CHECK(refusal_of(DimsOf{.tp = 2, .dp_replicate = 0}, 7) ==
        "tp(2) * cp(1) * pp(1) * dp_shard(1) = 2 does not divide the job's 7 ranks; use a number of ranks that is a "
        "multiple of 2");
  CHECK(refusal_of(DimsOf{.tp = 4, .dp_shard = 3, .dp_replicate = 1, .pp = 4}, 96) ==
        "tp(4) * cp(1) * pp(4) * dp(3) = 48, but the job has 96 ranks; use dp_replicate = 2");
  CHECK(refusal_of(DimsOf{.tp = 4, .dp_shard = 3, .dp_replicate = 2, .pp = 4}, 64) ==
        "tp(4) * cp(1) * pp(4) * dp(6) = 96, but the job has 64 ranks; use ranks = 96");
  // 63 bits hold the largest product.
  CHECK(refusal_of(DimsOf{.tp = 1024, .cp = 1024, .dp_shard = 65536, .dp_replicate = 0, .pp = 1024}, 8)
            .find("= 70368744177664 does not divide") != std::string::npos);
}

TEST_CASE("parallel dims: sp needs tp, and virtual stages need stages") {
  ParallelDims dims = DimsOf{.tp = 1, .dp_replicate = 4};
  CHECK(refusal_of(dims, 4).empty());
  dims.sp = true;
  CHECK(refusal_of(dims, 4) == "sp needs tp > 1; set sp = false or tp = 2");
  dims.tp = 2, dims.dp_replicate = 2;
  CHECK(refusal_of(dims, 4).empty());
  dims.sp = false;
  CHECK(refusal_of(dims, 4).empty());
  dims.vp = 2;
  CHECK(refusal_of(dims, 4) == "vp = 2 needs pp > 1; set vp = 1");
  dims.pp = 2, dims.dp_replicate = 1;
  CHECK(refusal_of(dims, 4).empty());
  dims.ep = 3;
  CHECK(refusal_of(dims, 4).find("ep(3) * etp(1) = 3 and tp(2) * cp(1) = 2") == 0);
}

TEST_CASE("parallel dims: ranks are numbered tp first, then cp, dp_shard, dp_replicate and pp") {
  const ParallelDims dims = DimsOf{.tp = 2, .cp = 3, .dp_shard = 5, .dp_replicate = 7, .pp = 2};
  REQUIRE(dims.world_size() == 420);
  CHECK(coordinates_of(dims, 1) == RankCoordinates{.tp = 1});
  CHECK(coordinates_of(dims, 2) == RankCoordinates{.cp = 1});
  CHECK(coordinates_of(dims, 6) == RankCoordinates{.dp_shard = 1});
  CHECK(coordinates_of(dims, 30) == RankCoordinates{.dp_replicate = 1});
  CHECK(coordinates_of(dims, 210) == RankCoordinates{.pp = 1});
  CHECK(coordinates_of(dims, 419) == RankCoordinates{1, 2, 4, 6, 1});
  for (int rank = 0; rank < dims.world_size(); ++rank) {
    const RankCoordinates at = coordinates_of(dims, rank);
    REQUIRE(global_rank_of(dims, at) == rank);
    REQUIRE(at.dp(dims) == rank / 6 % 35);
  }
}

TEST_CASE("parallel dims: experts are assigned to neighbours, as copies in a micro-batch or over several of them") {
  struct Case {
    ParallelDims dims;
    int ranks, copies, batches, dp_shard, dp_replicate;
  };
  for (const Case& one : {
           Case{DimsOf{}, 1, 1, 1, 1, 1},
           {DimsOf{.tp = 4, .cp = 2, .dp_shard = 3, .dp_replicate = 2, .ep = 2, .etp = 2}, 4, 2, 1, 3, 2},
           {DimsOf{.tp = 4, .cp = 2, .ep = 4, .etp = 2}, 8, 1, 1, 1, 1},
           {DimsOf{.tp = 2, .dp_shard = 4, .dp_replicate = 3, .ep = 4}, 4, 1, 2, 2, 3},
           {DimsOf{.tp = 2, .dp_shard = 2, .dp_replicate = 6, .ep = 4, .etp = 2}, 8, 1, 4, 1, 3},
           {DimsOf{.dp_shard = 2, .dp_replicate = 2, .ep = 4}, 4, 1, 4, 1, 1},
           {DimsOf{.dp_shard = 4, .dp_replicate = 1, .ep = 4}, 4, 1, 4, 1, 1},
       }) {
    CAPTURE(one.dims.to_string());
    const auto experts = expert_dims_of(one.dims);
    REQUIRE(experts.ok());
    CHECK(experts->ranks == one.ranks);
    CHECK(experts->copies == one.copies);
    CHECK(experts->batches == one.batches);
    CHECK(experts->dp_shard == one.dp_shard);
    CHECK(experts->dp_replicate == one.dp_replicate);
    // Each rank of a stage has a place of its own, and ep * etp neighbours hold all experts together.
    std::set<std::tuple<int, int, int, int, int>> places;
    const int of_stage = one.dims.world_size() / one.dims.pp;
    for (int rank = 0; rank < of_stage; ++rank) {
      const ExpertCoordinates at = expert_coordinates_of(one.dims, coordinates_of(one.dims, rank));
      CHECK(at.etp == rank % one.dims.etp);
      CHECK(at.ep == rank / one.dims.etp % one.dims.ep);
      CHECK(at.copy < experts->copies);
      CHECK(at.dp_shard < experts->dp_shard);
      CHECK(at.dp_replicate < experts->dp_replicate);
      places.insert({at.etp, at.ep, at.copy, at.dp_shard, at.dp_replicate});
    }
    CHECK(places.size() == static_cast<std::size_t>(of_stage));
  }
}

TEST_CASE("parallel dims: experts that cannot be assigned so are refused with the pair that does not divide") {
  CHECK(refusal_of_experts(DimsOf{.tp = 2, .cp = 2, .dp_replicate = 8, .ep = 3, .etp = 2}) ==
        "ep(3) * etp(2) = 6 and tp(2) * cp(2) = 4: one must divide the other; use ep * etp = 4, or a multiple or a "
        "divisor of it");
  CHECK(refusal_of_experts(DimsOf{.tp = 2, .cp = 1, .dp_shard = 3, .dp_replicate = 2, .ep = 8}) ==
        "ep(8) * etp(1) = 8 does not divide tp(2) * cp(1) * dp(6) = 12; use a smaller ep or etp, or more replicas");
  CHECK(refusal_of_experts(DimsOf{.dp_shard = 6, .dp_replicate = 2, .ep = 4}) ==
        "ep(4) * etp(1) = 4 takes 4 replicas, dp_shard(6): one must divide the other; use dp_shard = 4");
}

TEST_CASE("parallel dims: the ranks along an axis have every other coordinate in common") {
  const ParallelDims dims = DimsOf{.tp = 2, .cp = 3, .dp_shard = 2, .pp = 2};
  const RankCoordinates at = coordinates_of(dims, 5);
  using Ranks = std::vector<int>;
  CHECK(ranks_along(dims, at, &RankCoordinates::tp) == Ranks{4, 5});
  CHECK(ranks_along(dims, at, &RankCoordinates::cp) == Ranks{1, 3, 5});
  CHECK(ranks_along(dims, at, &RankCoordinates::dp_shard) == Ranks{5, 11});
  CHECK(ranks_along(dims, at, &RankCoordinates::pp) == Ranks{5, 17});
  const ParallelDims experts = DimsOf{.tp = 4, .pp = 2, .ep = 2, .etp = 2};
  const RankCoordinates here = coordinates_of(experts, 5);  // in the second stage, which has experts of its own
  CHECK(expert_ranks_along(experts, here, {&ExpertCoordinates::ep}) == Ranks{5, 7});
  CHECK(expert_ranks_along(experts, here, {&ExpertCoordinates::etp}) == Ranks{4, 5});
  CHECK(expert_ranks_along(experts, here, {&ExpertCoordinates::ep, &ExpertCoordinates::etp}) == Ranks{4, 5, 6, 7});
}

}  // namespace longhaul
