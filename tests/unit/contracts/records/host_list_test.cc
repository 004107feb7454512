#include "contracts/records/host_list.h"

#include <doctest/doctest.h>

#include "base/text/text.h"

using namespace longhaul;

TEST_CASE("Slurm's short notation of hosts, one by one") {
  const auto hosts = [](const std::string& text) {
    const auto list = expand_host_list(text);
    REQUIRE_MESSAGE(list.ok(), list.error().message());
    return join(*list, " ");
  };
  CHECK(hosts("n1") == "n1");
  CHECK(hosts("n[1-3]") == "n1 n2 n3");
  CHECK(hosts("n[08-11,20],login-2") == "n08 n09 n10 n11 n20 login-2");
  CHECK(hosts("r[1-2]n[1,3]-x,z") == "r1n1-x r1n3-x r2n1-x r2n3-x z");
}

TEST_CASE("what is no list of hosts is refused") {
  for (const char* text : {"", "n[1-", "n]1[", "n[3-1]", "n[a-b]", "n[1-2-3]", "n[]", "a,,b", "n[0-999999999]"}) {
    CAPTURE(text);
    CHECK(!expand_host_list(text).ok());
  }
}
