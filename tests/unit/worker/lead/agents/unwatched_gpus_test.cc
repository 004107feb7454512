#include "worker/lead/agents/unwatched_gpus.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

GpuObservation sight(const char* host, int watched, const char* why = "") {
  return {host, 1, watched, why};
}

}  // namespace

TEST_CASE("GPUs that nobody watches for a minute are reported once, all hosts together") {
  UnwatchedGpus unwatched(4);
  const std::vector<GpuObservation> sights = {sight("n1", 0, "0 of 4 GPUs are there"), sight("n2", 0), sight("n3", 4)};
  int reported = 0;
  for (std::int64_t s = 0; s < 300; ++s)
    for (const WarningEvent& warning : unwatched.look(s * 1000, sights)) {
      ++reported;
      CHECK(s == 60);
      CHECK(warning.kind == "gpus_not_watched");
      CHECK(warning.host == "n1,n2");
      CHECK(warning.fault_class == "health_silent");
      CHECK(warning.text ==
            "nobody watches the 4 GPUs of each of 2 hosts (0 of 4 GPUs are there): their faults are not found before "
            "they stop a rank");
    }
  CHECK(reported == 1);
}

TEST_CASE("hosts whose GPUs are watched within the minute, or that have not looked yet, are not reported") {
  UnwatchedGpus unwatched(4);
  for (std::int64_t s = 0; s < 300; ++s) {
    CHECK(unwatched.look(s * 1000, {sight("n1", s < 59 ? 0 : 4), {"n2", 0, 0, ""}}).empty());
  }
  UnwatchedGpus none(0);
  CHECK(none.look(0, {sight("n1", 0)}).empty());
  CHECK(none.look(100'000, {sight("n1", 0)}).empty());
}

TEST_CASE(
    "a step with fewer GPUs than the job watches fewer; it is over once the hosts reported together are watched") {
  UnwatchedGpus unwatched(4);
  CHECK(unwatched.look(0, {sight("n1", 2), sight("n2", 2)}).empty());
  const auto reported = unwatched.look(60'000, {sight("n1", 2), sight("n2", 2)});
  REQUIRE(reported.size() == 1);
  CHECK(reported[0].text.find("only 2 of the 4 GPUs of each of 2 hosts are watched") == 0);
  CHECK(unwatched.look(61'000, {sight("n1", 4), sight("n2", 2)}).empty());
  const auto over = unwatched.look(62'000, {sight("n1", 4), sight("n2", 4)});
  REQUIRE(over.size() == 1);
  CHECK(over[0].kind == "gpus_not_watched_over");
  CHECK(over[0].host == reported[0].host);
  CHECK(unwatched.look(63'000, {sight("n1", 0)}).empty());
  CHECK(unwatched.look(123'000, {sight("n1", 0)}).size() == 1);  // again a minute later
}

TEST_CASE("what an agent's checks see comes with its report") {
  NodeReport report{"n1", 0, {}, 0, 0, 0, {}, {}};
  report.health.since = 7, report.health.looks = 2;
  report.health.gpus_watched = 3, report.health.gpus_hidden = "a library";
  const auto read = node_report_from_value(node_report_to_value(report));
  REQUIRE(read.ok());
  const GpuObservation seen = gpu_observation("n1", read->health);
  CHECK(seen.looks == 2);
  CHECK(seen.watched == 3);
  CHECK(seen.why == "a library");
}

}  // namespace longhaul
