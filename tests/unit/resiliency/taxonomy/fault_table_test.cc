// The table of fault classes against itself: what a reader relies on in every row.
#include "resiliency/taxonomy/fault_table.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace longhaul {

TEST_CASE("every class has one row, a name of its own, a meaning and a remedy") {
  std::set<std::string> names;
  for (const FaultInfo& info : fault_table) {
    CAPTURE(info.name);
    CHECK(names.insert(info.name).second);
    CHECK(std::string(info.name).find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos);
    CHECK(std::string(info.meaning).size() > 5);
    CHECK(std::string(info.remedy).size() > 5);
    CHECK(fault_class_of(info.name) == info.fault);
    CHECK(std::string(to_string(info.fault)) == info.name);
    CHECK(group_of(info.fault) == info.group);
  }
  CHECK(fault_class_of("never heard of") == FaultClass::program);
}

TEST_CASE("severity, group and tier of a class do not contradict each other") {
  for (const FaultInfo& info : fault_table) {
    CAPTURE(info.name);
    const bool hopeless = info.group == FaultGroup::hopeless;
    CHECK(hopeless == (info.severity == FaultSeverity::fatal));
    if (hopeless) CHECK(info.tier == RestartTier::stop);
    // What ends a launch has to be paid by somebody; what does not end one is free.
    if (info.severity == FaultSeverity::error) CHECK(info.group != FaultGroup::none);
    if (info.severity == FaultSeverity::warning && info.fault != FaultClass::loss_spike)
      CHECK(info.group == FaultGroup::none);
    // A device or host that is surely bad is not cured by starting on it once more.
    const bool of_a_host =
        info.scope == FaultScope::host || info.scope == FaultScope::gpu || info.scope == FaultScope::link;
    if (info.accuses == Accusation::sure) {
      CHECK(of_a_host);
      CHECK((info.tier == RestartTier::swap || info.tier == RestartTier::new_job));
    }
    if (info.scope == FaultScope::user) CHECK(info.accuses == Accusation::never);
  }
}

}  // namespace longhaul
