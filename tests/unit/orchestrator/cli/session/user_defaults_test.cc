// What a user says once: variables, the file in the home folder, and what goes before what.
#include "orchestrator/cli/session/user_defaults.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

CommandLine line_of(Command command) {
  CommandLine line;
  line.command = command;
  return line;
}

}  // namespace

TEST_CASE("defaults of a user: the command line goes before variables, and they before the file") {
  const testing::Scratch scratch;
  const std::string file = scratch.file("longhaul.toml");
  REQUIRE(write_file_atomic(file, "site = \"mine.toml\"\naccount = \"a-a06\"\nruns = \"runs\"\n").ok());
  const auto of_file = read_user_defaults({"", "", file});
  REQUIRE(of_file.ok());
  CHECK(of_file->site.value == scratch.file("mine.toml"));
  CHECK(of_file->runs.value == scratch.file("runs"));
  CHECK(of_file->account.from == file);

  CommandLine line = line_of(Command::submit);
  apply_user_defaults(*of_file, line);
  CHECK(line.site == scratch.file("mine.toml"));
  CHECK(line.site_given);
  CHECK(line.runs_dir == scratch.file("runs"));
  CHECK(line.sets == std::vector<std::string>{"site.account=\"a-a06\""});

  CommandLine said = line_of(Command::submit);
  said.site = "alps-clariden", said.site_given = true, said.runs_dir = "elsewhere";
  apply_user_defaults(*of_file, said);
  CHECK(said.site == "alps-clariden");
  CHECK(said.runs_dir == "elsewhere");
  CHECK(said.sets.empty());  // the account is of another site

  CommandLine with_account = line_of(Command::plan);
  with_account.sets = {"site.account=\"b\""};
  apply_user_defaults(*of_file, with_account);
  CHECK(with_account.sets.size() == 1);

  const auto of_variables = read_user_defaults({"leonardo-booster", "/scratch/runs", file});
  REQUIRE(of_variables.ok());
  CHECK(of_variables->site.from == "LONGHAUL_SITE");
  CHECK(of_variables->runs.value == "/scratch/runs");
  CHECK(of_variables->account.value.empty());
}

TEST_CASE("defaults of a user: rounds of jobs and looks at this machine are left alone") {
  const UserDefaults defaults{{"leonardo-booster", "LONGHAUL_SITE"}, {}, {}};
  CommandLine tick = line_of(Command::tick), doctor = line_of(Command::doctor);
  apply_user_defaults(defaults, tick);
  apply_user_defaults(defaults, doctor);
  CHECK(tick.site == "local");
  CHECK(!doctor.site_given);
}

TEST_CASE("defaults of a user: what the file may not hold is refused, and doctor's lines say where values come from") {
  const testing::Scratch scratch;
  const std::string file = scratch.file("longhaul.toml");
  REQUIRE(write_file_atomic(file, "sites = \"x\"\n").ok());
  const auto wrong = read_user_defaults({"", "", file});
  REQUIRE(!wrong.ok());
  CHECK(wrong.error().message().find(file + ": sites") != std::string::npos);
  const UserEnvironment nothing{"", "", scratch.file("absent.toml")};
  CHECK(user_defaults_text(read_user_defaults(nothing).value(), nothing).find(nothing.config_file) !=
        std::string::npos);
  const UserEnvironment variable{"alps-clariden", "", ""};
  CHECK(user_defaults_text(read_user_defaults(variable).value(), variable) == "site alps-clariden (LONGHAUL_SITE)");
}
