#include "contracts/settings/job/port_range.h"

#include <charconv>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr int first_free_port = 1024, last_port = 65535;

int port_of(std::string_view text) {
  int port = -1;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), port);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() ? port : -1;
}

}  // namespace

std::string PortRange::text() const {
  return any() ? "any" : format("{}-{}", first, last);
}

Result<PortRange> parse_port_range(std::string_view text) {
  const std::string written = trim(text);
  if (written.empty() || written == "any") return PortRange{};
  const std::size_t dash = written.find('-');
  PortRange range;
  range.first = port_of(std::string_view(written).substr(0, dash));
  range.last = dash == std::string::npos ? range.first : port_of(std::string_view(written).substr(dash + 1));
  if (range.first < first_free_port || range.last > last_port || range.last < range.first)
    return make_error(ErrorCode::invalid_input, "'" + written + "' is no range of ports",
                      format("write it as \"60001-63000\", from {} to {}, or \"any\"", first_free_port, last_port));
  return range;
}

PortRange slurm_port_range(const std::string& show_config) {
  for (const std::string& line : split(show_config, '\n')) {
    const std::size_t sign = line.find('=');
    if (sign == std::string::npos || trim(line.substr(0, sign)) != "SrunPortRange") continue;
    const auto range = parse_port_range(line.substr(sign + 1));
    return range.ok() ? *range : PortRange{};
  }
  return {};
}

}  // namespace longhaul
