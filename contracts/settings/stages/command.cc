#include "contracts/settings/stages/command.h"

#include <cctype>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/settings/training/compute_device.h"

namespace longhaul {

const FieldTable<CommandStep>& command_step_fields() {
  using C = CommandStep;
  static const auto table =
      FieldTable<C>()
          .field("argv", &C::argv, {.help = "program and arguments, passed as they are (no shell)"})
          .field("script", &C::script, {.help = "or a text run by `bash -euo pipefail`"})
          .field("environment", &C::environment, {.help = "added to the environment; wins over the stage's"})
          .field("ranks", &C::ranks,
                 {.unit = "processes", .help = "of this step", .min = 1, .max = 1 << 16, .speed_only = true})
          .field("nodes", &C::nodes,
                 {.help = "of its own, in the order of the steps; left out in all steps: they share every node",
                  .min = 0,
                  .max = 1e6,
                  .speed_only = true})
          .field("threads", &C::threads,
                 {.unit = "threads", .help = "per rank; 0 is an even share", .min = 0, .max = 4096, .speed_only = true})
          .field("gpus_per_node", &C::gpus_per_node,
                 {.help = "-1: of its own nodes all that the job has, of shared ones a share by ranks",
                  .min = -1,
                  .max = 64,
                  .speed_only = true})
          .field("service", &C::service,
                 {.help = "serves the others: ended (SIGTERM, then SIGKILL) when they have all ended well"});
  return table;
}

const FieldTable<CommandSettings>& command_fields() {
  using C = CommandSettings;
  static const auto table =
      FieldTable<C>()
          .field("argv", &C::argv, {.help = "program and arguments, passed as they are (no shell)"})
          .field("script", &C::script,
                 {.help = "or a text run by `bash -euo pipefail`; inputs are $LONGHAUL_INPUT_<NAME>, results go to "
                          "$LONGHAUL_OUT"})
          .field("environment", &C::environment, {.help = "added to the environment"})
          .field("device", &C::device, command_device_options())
          .field(
              "workdir", &C::workdir,
              {.help = "folder in which the programs start; a relative one starts where the workflow lies, and empty "
                       "is that folder itself; in a container, which need not see it, empty is $LONGHAUL_OUT"})
          .field(
              "workdir_from", &C::workdir_from,
              {.help = "filled in: the folder of the workflow, at which a relative workdir starts", .speed_only = true})
          .named("step", &C::steps, &CommandStep::name, command_step_fields(), "or several programs in one job");
  return table;
}

std::string working_folder(const CommandSettings& settings) {
  if (starts_with(settings.workdir, "/")) return settings.workdir;
  if (settings.workdir_from.empty() || settings.workdir.empty()) return settings.workdir_from;
  return join_path(settings.workdir_from, settings.workdir);
}

std::string step_variable(const std::string& name) {
  std::string variable;
  for (const char c : name)
    variable += std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::toupper(c)) : '_';
  return variable;
}

}  // namespace longhaul
