// TCP ports that the programs of a job listen on: what a site's firewall lets through between its nodes.
#pragma once

#include <string>
#include <string_view>

#include "base/error/result.h"

namespace longhaul {

struct PortRange {
  int first = 0, last = 0;  // both included; 0: any port that is free
  bool any() const { return first == 0; }
  int count() const { return any() ? 0 : last - first + 1; }
  std::string text() const;  // "60001-63000"; "any"
  bool operator==(const PortRange&) const = default;
};

// "60001-63000", one port ("7000"), "any" or "". invalid_input: something else, ports below 1024 or above 65535.
Result<PortRange> parse_port_range(std::string_view text);

// The value of a line `SrunPortRange = 60001-63000` of what `scontrol show config` prints; any() where Slurm has none
// ("0-0").
PortRange slurm_port_range(const std::string& show_config);

}  // namespace longhaul
