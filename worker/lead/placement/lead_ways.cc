#include "worker/lead/placement/lead_ways.h"

#include <algorithm>

#include "base/process/process.h"
#include "base/text/text.h"
#include "worker/protocol/wire/host_address.h"

namespace longhaul {
namespace {

constexpr std::int64_t scheduler_answers_ms = 5'000;

std::vector<std::string> addresses_by_scheduler(const std::string& node) {
  SpawnSpec scontrol;
  scontrol.argv = {"scontrol", "show", "node", node, "--oneliner"};
  const auto said = run_captured(std::move(scontrol), scheduler_answers_ms);
  if (!said.ok() || !said->status.success()) return {};
  const auto addresses = resolve_host(node_address_of(said->out));
  return addresses.ok() ? *addresses : std::vector<std::string>();
}

}  // namespace

Result<PortRange> ports_to_listen_on(const std::string& asked, const PortRange& of_slurm) {
  if (asked.empty()) return of_slurm;
  return parse_port_range(asked);
}

std::string node_address_of(const std::string& show_node) {
  constexpr std::string_view key = "NodeAddr=";
  for (const std::string& line : split(show_node, '\n'))
    for (const std::string& field : split(line, ' '))
      if (starts_with(field, key)) return field.substr(key.size());
  return {};
}

std::vector<std::string> ways_to_node(const std::string& node) {
  std::vector<std::string> ways;
  if (!resolve_host(node).ok()) ways = addresses_by_scheduler(node);
  for (const std::string& one : own_addresses())
    if (std::find(ways.begin(), ways.end(), one) == ways.end()) ways.push_back(one);
  return ways;
}

}  // namespace longhaul
