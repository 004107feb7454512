#include <doctest/doctest.h>

#include <map>

#include "resiliency/inject/fault_schedule.h"
#include "resiliency/inject/injection_book.h"

namespace longhaul {
namespace {

std::vector<std::string> ids_of(const std::vector<Injection>& injections) {
  std::vector<std::string> ids;
  for (const Injection& injection : injections) ids.push_back(injection.id);
  return ids;
}
using Ids = std::vector<std::string>;

}  // namespace

TEST_CASE("a schedule of faults: the seed decides all of it, and nothing else does") {
  const FaultSchedule schedule{7, {30}, {"SIGKILL", "SIGSTOP", "ASYNC_EXC"}, 3000};
  const auto first = scheduled_faults(schedule, 4);
  CHECK(first == scheduled_faults(schedule, 4));
  REQUIRE(first.size() == 3000);
  FaultSchedule shorter = schedule;
  shorter.count = 10;
  const auto beginning = scheduled_faults(shorter, 4);
  CHECK(std::equal(beginning.begin(), beginning.end(), first.begin()));
  FaultSchedule other = schedule;
  other.seed = 8;
  CHECK(scheduled_faults(other, 4) != first);
  CHECK(scheduled_faults(FaultSchedule{}, 4).empty());

  std::map<std::string, int> names;
  std::map<int, int> ranks;
  double before = 0;
  for (const FaultRequest& fault : first) {
    CHECK(fault.after.value >= before + 3);  // a tenth of the mean
    before = fault.after.value;
    ++names[fault.name], ++ranks[fault.rank];
  }
  // The mean of 3000 gaps: 30 s with a standard error of 27 / sqrt(3000) = 0.5 s.
  CHECK(before / 3000 == doctest::Approx(30).epsilon(0.1));
  CHECK(names.size() == 3);
  CHECK(ranks.size() == 4);
  for (const auto& [name, times] : names) CHECK_MESSAGE(std::abs(times - 1000) < 150, name);
  for (const auto& [rank, times] : ranks) CHECK_MESSAGE(std::abs(times - 750) < 130, rank);
}

TEST_CASE("faults are due by step of the launch or by time of the stage, once") {
  FaultSettings settings;
  settings.at = {{"SIGKILL", 1, 20}, {"SIGSTOP", 2, 0, {10}}, {"ASYNC_EXC", 0, 5, {0}, {5}, true}};
  InjectionBook book(settings, 4);
  CHECK(book.due(9.9, 1, -1).empty());
  CHECK(ids_of(book.due(10, 1, -1)) == Ids{"at-1"});
  CHECK(ids_of(book.due(10, 1, 20)) == Ids{"at-0", "at-1", "at-2"});  // not done yet: still due
  for (const char* id : {"at-0", "at-1", "at-2"}) book.done(id, 1);
  CHECK(book.due(100, 1, 100).empty());
  // The next launch: only what comes in every launch, and when it is as far again.
  CHECK(book.due(100, 2, 4).empty());
  CHECK(ids_of(book.due(100, 2, 5)) == Ids{"at-2"});
  book.add({"ordered-1", {"SIGKILL", 3}});
  CHECK(ids_of(book.due(100, 2, -1)) == Ids{"ordered-1"});
}

}  // namespace longhaul
