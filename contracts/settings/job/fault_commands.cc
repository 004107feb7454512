#include "contracts/settings/job/fault_commands.h"

#include "base/text/text.h"

namespace longhaul {
namespace {

std::string with(std::string text, const std::string& placeholder, const std::string& value) {
  for (std::size_t at = text.find(placeholder); at != std::string::npos; at = text.find(placeholder, at + value.size()))
    text.replace(at, placeholder.size(), value);
  return text;
}

void check_fault_command(const std::string& name, const std::string& command, const Value& written,
                         Diagnostics& diagnostics) {
  const Value* value = written.find(name);
  const SourcePos where = value ? value->pos : written.pos;
  const std::string rest = with(with(command, "{host}", ""), "{seconds}", "");
  if (const std::size_t open = rest.find('{'); open != std::string::npos)
    diagnostics.add(where, format("faults.{} names {}", name, rest.substr(open, rest.find('}', open) - open + 1)),
                    "placeholders: {host}, {seconds}");
  if (!command.empty() && command.find("{seconds}") == std::string::npos)
    diagnostics.add(where, format("faults.{} does not say for how long", name), "hand it {seconds}");
}

}  // namespace

const std::string& FaultCommands::of(const std::string& fault) const {
  static const std::string none;
  return fault == "cut_network" ? cut_network : fault == "slurmctld_down" ? slurmctld_down : none;
}

const FieldTable<FaultCommands>& fault_commands_fields() {
  using C = FaultCommands;
  static const auto table =
      FieldTable<C>()
          .field("cut_network", &C::cut_network,
                 {.help = "cuts node {host} off from the network and joins it again after {seconds}: program and "
                          "arguments, run by the lead of a test; exit code 0: it was cut off"})
          .field("slurmctld_down", &C::slurmctld_down,
                 {.help = "ends the controller and starts it again after {seconds}: program and arguments"})
          .field("deadline", &C::deadline,
                 {.help = "of either, besides what the fault lasts; then it is ended", .min = 1, .max = 3600});
  return table;
}

void check_fault_commands(const FaultCommands& commands, const Value& written, Diagnostics& diagnostics) {
  check_fault_command("cut_network", commands.cut_network, written, diagnostics);
  check_fault_command("slurmctld_down", commands.slurmctld_down, written, diagnostics);
  const Value* cut = written.find("cut_network");
  if (!commands.cut_network.empty() && commands.cut_network.find("{host}") == std::string::npos)
    diagnostics.add(cut ? cut->pos : written.pos, "faults.cut_network does not say whom", "hand it {host}");
}

std::vector<std::string> fault_command_arguments(const std::string& command, const std::string& host, Seconds lasts) {
  std::vector<std::string> arguments;
  for (const std::string& argument : split(command, ' '))
    if (!argument.empty())
      arguments.push_back(with(with(argument, "{seconds}", format("{:g}", lasts.value)), "{host}", host));
  return arguments;
}

}  // namespace longhaul
