#include "worker/lead/agents/succession.h"

#include <doctest/doctest.h>

using namespace longhaul;

TEST_CASE("succession: a later epoch has followed, an address that is gone only where the job has its record") {
  const Result<LeadAddress> gone(make_error(ErrorCode::not_found, "no such file"));
  const Result<LeadAddress> damaged(make_error(ErrorCode::corrupt, "names no host and port"));
  const Result<LeadAddress> silent(make_error(ErrorCode::io, "input/output error"));
  struct Case {
    Result<LeadAddress> address;
    bool recorded;
    Succession expected;
  };
  const Case cases[] = {
      {LeadAddress{"key", 3, "n1", 7}, false, Succession::leads},
      {LeadAddress{"key", 2, "n1", 7}, false, Succession::leads},  // of a lead that this one has followed
      {LeadAddress{"key", 4, "n2", 7}, false, Succession::followed},
      {LeadAddress{"key", 3, "n0", 7}, false, Succession::leads},  // of the same number, and earlier
      {LeadAddress{"key", 3, "n2", 7}, false, Succession::followed},
      {LeadAddress{"key", 4, "n2", 7}, true, Succession::followed},
      {gone, true, Succession::followed},
      {gone, false, Succession::address_gone},
      {damaged, false, Succession::leads},
      {damaged, true, Succession::leads},
      {silent, false, Succession::leads},
  };
  for (const Case& one : cases) CHECK(succession_of(one.address, {3, "n1"}, one.recorded) == one.expected);
}
