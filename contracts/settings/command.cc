#include "contracts/settings/command.h"

namespace longhaul {

const FieldTable<CommandSettings>& command_fields() {
  using C = CommandSettings;
  static const auto table =
      FieldTable<C>()
          .field("argv", &C::argv, {.help = "program and arguments, passed as they are (no shell)"})
          .field("script", &C::script,
                 {.help = "or a text run by `bash -euo pipefail`; inputs are $LONGHAUL_INPUT_<NAME>, results go to "
                          "$LONGHAUL_OUT"})
          .field("environment", &C::environment, {.help = "added to the environment"});
  return table;
}

}  // namespace longhaul
