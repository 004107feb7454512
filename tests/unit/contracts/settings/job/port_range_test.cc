#include "contracts/settings/job/port_range.h"

#include <doctest/doctest.h>

using namespace longhaul;

TEST_CASE("port range: as people write it, and what is none is refused with how to write it") {
  CHECK(*parse_port_range("60001-63000") == PortRange{60001, 63000});
  CHECK(*parse_port_range(" 7000 ") == PortRange{7000, 7000});
  CHECK(parse_port_range("any")->any());
  CHECK(parse_port_range("")->any());
  CHECK(parse_port_range("60001-63000")->text() == "60001-63000");
  CHECK(parse_port_range("7000-7002")->count() == 3);
  for (const char* wrong :
       {"60001-", "-63000", "60001:63000", "63000-60001", "80-90", "60000-70000", "0-0", "x", "1-2-3"}) {
    const auto range = parse_port_range(wrong);
    CHECK_MESSAGE(!range.ok(), wrong);
    if (!range.ok()) CHECK(range.error().hint.find("60001-63000") != std::string::npos);
  }
}

TEST_CASE("port range: Slurm's own, as scontrol prints it") {
  const std::string before = "SlurmctldPort           = 6817\nSrunEpilog              = (null)\n";
  CHECK(slurm_port_range(before + "SrunPortRange           = 60001-63000\nSrunProlog = (null)\n") ==
        PortRange{60001, 63000});
  CHECK(slurm_port_range(before + "SrunPortRange           = 0-0\n").any());
  CHECK(slurm_port_range(before).any());
}
