#include "orchestrator/workflow/source/shell_context.h"

#include <doctest/doctest.h>

#include <string>

namespace longhaul {
namespace {

using C = ShellContext;

TEST_CASE("a place in a script stands in one kind of quotes, whatever came before it") {
  const struct {
    const char* before;
    C context;
  } cases[] = {
      {"", C::plain},
      {"echo ", C::plain},
      {"echo \"", C::double_quotes},
      {"echo \"a\" ", C::plain},
      {"echo 'a' \"b '", C::double_quotes},
      {"echo '", C::single_quotes},
      {"echo '\\", C::single_quotes},
      {"echo '\\' ", C::plain},
      {"echo \\' ", C::plain},
      {"echo \"\\\"", C::double_quotes},
      {"echo $'it\\'s ", C::single_quotes},
      {"echo $'it\\'s' ", C::plain},
      {"echo \"$(", C::plain},
      {"echo \"$(cat '", C::single_quotes},
      {"echo \"$(cat 'a') ", C::double_quotes},
      {"echo `cat '", C::single_quotes},
      {"echo `cat 'a'` ", C::plain},
      {"echo $((", C::arithmetic},
      {"echo \"$((1 + (2 * ", C::arithmetic},
      {"echo $((1 + (2))) ", C::plain},
      {"((i < ", C::arithmetic},
      {"for ((i = 0; i < 3; i++)); do ", C::plain},
      {"( cd a; ", C::plain},
      {"# it's\necho ", C::plain},
      {"echo a#b 'c", C::single_quotes},
      {"echo # it's ", C::comment},
      {"cat <<EOF\nit's ", C::double_quotes},
      {"cat <<EOF\nit's\nEOF\necho ", C::plain},
      {"cat <<'EOF'\na ", C::single_quotes},
      {"cat <<-\"EOF\" >b\n\ta ", C::single_quotes},
      {"cat <<-'EOF'\n\ta\n\tEOF\necho ", C::plain},
      {"cat <<A <<'B'\na\nA\nb ", C::single_quotes},
      {"cat <<<'a' ", C::plain},
      {"case $1 in a) echo \"", C::double_quotes},
  };
  for (const auto& one : cases) {
    CAPTURE(one.before);
    CHECK(static_cast<int>(shell_context(one.before)) == static_cast<int>(one.context));
  }
}

}  // namespace
}  // namespace longhaul
