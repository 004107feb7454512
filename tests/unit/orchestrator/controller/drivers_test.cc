// Who drives a run, and what stands in a scrontab for it.
#include "orchestrator/controller/drivers.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

Site driver_site(const std::string& more = "") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("c.toml");
  const std::string text = "name = \"c\"\nscheduler = \"slurm\"\npartitions = [\"shared\"]\naccount = \"proj 1\"\n" +
                           more + "\n[classes.cpu]\npartition = \"shared\"\nqos = \"low\"\n";
  REQUIRE(write_file_atomic(path, text).ok());
  auto site = load_site(path, {});
  REQUIRE_MESSAGE(site.ok(), (site.ok() ? "" : site.error().message()));
  return *site;
}

// A scrontab that is a file, before all others in PATH.
struct MadeUpScrontab {
  testing::Scratch scratch;
  std::string path_before;
  MadeUpScrontab() : path_before(std::getenv("PATH")) {
    const std::string table = scratch.file("table");
    REQUIRE(make_directories(scratch.file("bin")).ok());
    REQUIRE(write_file_atomic(scratch.file("bin/scrontab"),
                              "#!/bin/sh\necho \"$1\" >> " + scratch.file("calls") +
                                  "\nif [ \"$1\" != -l ]; then exec cp \"$1\" " + table + "; fi\ncat " + table +
                                  " 2>/dev/null && exit 0\necho 'scrontab: no crontab for me' >&2\nexit 1\n",
                              0755)
                .ok());
    ::setenv("PATH", (scratch.file("bin") + ":" + path_before).c_str(), 1);
  }
  ~MadeUpScrontab() { ::setenv("PATH", path_before.c_str(), 1); }
  int writes() const {
    int count = 0;
    for (const std::string& call : split(*read_file(scratch.file("calls")), '\n'))
      count += !call.empty() && call != "-l";
    return count;
  }
  std::string table() const { return read_file(scratch.file("table")).ok() ? *read_file(scratch.file("table")) : ""; }
};

std::optional<std::string> driver_environment(const std::string& name) {
  if (name == "PATH") return "/opt/slurm/bin:/it's";
  return std::nullopt;
}
TickOptions driver_options() {
  TickOptions options;
  options.environment = driver_environment;
  return options;
}

}  // namespace

TEST_CASE("where leads drive, Slurm starts the job again that a host took along, unless the site says something") {
  struct Case {
    const char *driver, *site;
    bool requeue;
    const char* origin;
  };
  for (const Case& c :
       {Case{"lead", "", true, "driver lead: ask.requeue"}, Case{"here", "", false, "default: ask.requeue"},
        Case{"scrontab", "", false, "default: ask.requeue"},
        Case{"lead", "[ask]\nrequeue = false\n", false, "site c: ask.requeue"},
        Case{"lead", "[ask]\nrequeue = true\n", true, "site c: ask.requeue"},
        Case{"lead", "[can]\nrequeue = \"no\"\n", false, "default: ask.requeue"}}) {
    CAPTURE(c.driver);
    CAPTURE(c.site);
    Site site = driver_site(c.site);
    fit_site_to_driver(c.driver, site);
    // As a run freezes it.
    const testing::Scratch scratch;
    REQUIRE(write_file_atomic(scratch.file("site.toml"), to_toml(site.values)).ok());
    const auto frozen = load_site(scratch.file("site.toml"), {});
    REQUIRE_MESSAGE(frozen.ok(), (frozen.ok() ? "" : frozen.error().message()));
    for (const Site& one : {site, *frozen}) {
      CHECK(one.config.ask.requeue == c.requeue);
      CHECK(one.origin_of("ask.requeue") == c.origin);
    }
  }
}

TEST_CASE("the driver is what the site can do, and a wish that it cannot fulfil is refused with the key to correct") {
  struct Case {
    const char* can;
    const char* asked;
    const char* driver;  // or the capability that the refusal names
  };
  const Case cases[] = {
      {"submit_from_compute = \"yes\"\nscrontab = \"yes\"", "auto", "lead"},
      {"submit_from_compute = \"no\"\nscrontab = \"yes\"\nshared_nodes = \"yes\"", "auto", "scrontab"},
      {"submit_from_compute = \"no\"\nscrontab = \"no\"\nshared_nodes = \"yes\"", "auto", "job"},
      {"submit_from_compute = \"no\"\nscrontab = \"no\"\nshared_nodes = \"no\"", "auto", "here"},
      {"", "auto", "lead"},  // nobody has said that jobs may not submit
      {"scrontab = \"yes\"\nshared_nodes = \"yes\"", "auto", "lead"},
      {"", "lead", "lead"},  // but it may be tried
      {"", "scrontab", "scrontab"},
      {"", "job", "job"},
      {"submit_from_compute = \"yes\"", "here", "here"},
      {"submit_from_compute = \"no\"", "lead", "can.submit_from_compute"},
      {"scrontab = \"no\"", "scrontab", "can.scrontab"},
      {"shared_nodes = \"no\"", "job", "can.shared_nodes"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.can);
    CAPTURE(c.asked);
    const auto driver = choose_driver(c.asked, driver_site("[can]\n" + std::string(c.can)));
    if (driver.ok()) {
      CHECK(driver->name == c.driver);
      CHECK(!driver->why.empty());
    } else {
      CHECK(driver.error().code == ErrorCode::unsupported);
      CHECK(driver.error().hint.find(std::string(c.driver) + " ") != std::string::npos);
    }
  }
  CHECK(choose_driver("auto", driver_site("driver = \"job\""))->name == "job");  // the site's own choice
  CHECK(choose_driver("here", driver_site("driver = \"job\""))->name == "here");
  CHECK(choose_driver("auto", Site{})->name == "here");
  CHECK(choose_driver("lead", Site{}).error().code == ErrorCode::unsupported);
}

TEST_CASE("a tick never waits for GPU nodes and pays for them, unless the site says that it is meant so") {
  const std::string gpus = "default_class = \"cpu\"\n[node]\ngpus = 4\n";
  const std::string no = "[can]\nsubmit_from_compute = \"no\"\nscrontab = \"yes\"\nshared_nodes = \"yes\"\n";
  CHECK(choose_driver("auto", driver_site(gpus + no))->name == "here");
  CHECK(choose_driver("auto", driver_site(gpus + no))->why.find("nodes of the class 'cpu' have 4 GPUs") !=
        std::string::npos);
  for (const char* asked : {"scrontab", "job"}) {
    CAPTURE(asked);
    const auto refused = choose_driver(asked, driver_site(gpus));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::unsupported);
    CHECK(refused.error().hint.find("[classes.driver] with kinds = [\"driver\"]") != std::string::npos);
  }
  const std::string own = "[classes.driver]\nkinds = [\"driver\"]\nqos = \"cron\"\nconstraint = \"cron\"\n";
  for (const char* of_class : {"gpus_per_node = 0\n", "gpus_per_node = 4\n"}) {
    CAPTURE(of_class);
    CHECK(choose_driver("auto", driver_site(gpus + no + own + of_class))->name == "scrontab");
    CHECK(choose_driver("job", driver_site(gpus + "[can]\nshared_nodes = \"no\"\n" + own + of_class))->name == "job");
  }
}

TEST_CASE("the class for drivers has a route, an account and a length of its own") {
  const Site site = driver_site(
      "account_suffix = \"_g\"\ndefault_class = \"cpu\"\n[node]\ngpus = 4\n[ask]\nmemory = \"0\"\nexclusive = true\n"
      "[classes.driver]\nkinds = [\"driver\"]\nqos = \"cron\"\nconstraint = \"cron\"\naccount = \"m1\"\n"
      "max_wall = \"30min\"\ngpus_per_node = 0\n");
  const DriverContext context{"w-1", "/runs/w-1", "/runs/w-1/bin", "/runs/w-1/driver/tick.sh"};
  CHECK(scrontab_lines(site, context).value() ==
        "#SCRON --account=m1\n#SCRON --qos=cron\n#SCRON --constraint=cron\n#SCRON --time=00:30:00\n"
        "#SCRON --job-name=lh-tick-w-1\n#SCRON --open-mode=append\n#SCRON --output=/runs/w-1/driver/tick.log\n"
        "*/5 * * * * /runs/w-1/driver/tick.sh\n");
  const std::string script = driver_job_script(site, context).value();
  for (const char* line : {"--qos=cron\n", "--constraint=cron\n", "--account=m1\n", "--time=00:30:00\n"})
    CHECK(script.find(line) != std::string::npos);
  for (const char* word : {"--mem", "--exclusive", "gpu", "_g"}) CHECK(script.find(word) == std::string::npos);
  CHECK(script.find("tick '/runs/w-1' --for 1710s\n") != std::string::npos);
}

TEST_CASE("a driver in the foreground is said before anything is submitted, with the reason") {
  const auto here = choose_driver("auto", driver_site("[can]\nsubmit_from_compute = \"no\"\nshared_nodes = \"no\"\n"));
  REQUIRE(here.ok());
  const std::string line = driver_line(*here);
  CHECK(
      starts_with(line, "driver: here: this command stays in the foreground, because: jobs cannot submit jobs there"));
  CHECK(line.find("a job of one core would take a whole node") != std::string::npos);
  CHECK(line.find("tmux") != std::string::npos);
  CHECK(driver_line({"lead", "x"}) == "driver: lead: x\n");
}

TEST_CASE("lines that Slurm has disabled are distinguished from those that drive, and from none") {
  const std::string lines = "#SCRON --time=01:00:00\n*/5 * * * * /r/driver/tick.sh\n";
  const std::string table = with_scrontab_lines("5 4 * * * backup\n", "w-1", lines);
  const auto state = [](const std::string& text) { return scrontab_state(text, "w-1", "/r/driver/tick.sh"); };
  CHECK(state(table) == ScrontabState::active);
  CHECK(state("") == ScrontabState::absent);
  CHECK(state("*/5 * * * * /r/driver/tick.sh\n") == ScrontabState::absent);  // somebody else's, without marks
  CHECK(state(with_scrontab_lines("", "w-1", "# " + lines)) == ScrontabState::active);
  CHECK(state(with_scrontab_lines("", "w-1", "#SCRON --time=01:00:00\n#*/5 * * * * /r/driver/tick.sh\n")) ==
        ScrontabState::absent);
  CHECK(state(replace_all(replace_all(table, "#SCRON", "#DISABLED: #SCRON"), "*/5", "#DISABLED: */5")) ==
        ScrontabState::disabled);
  CHECK(state(replace_all(table, "5 4", "#DISABLED: 5 4")) == ScrontabState::active);  // another's
}

TEST_CASE("the lines of a run come and go, and those of others stay") {
  const std::string others = "# mine\n5 4 * * * backup\n";
  const std::string both = with_scrontab_lines(others, "w-1", "*/5 * * * * tick\n");
  CHECK(both == others + "# longhaul run w-1: begin\n*/5 * * * * tick\n# longhaul run w-1: end\n");
  CHECK(without_scrontab_lines(both, "w-1") == others);
  CHECK(without_scrontab_lines(others, "w-1") == others);
  CHECK(without_scrontab_lines("", "w-1") == "");
  // Written again they replace what was there; runs whose names begin alike are two.
  CHECK(with_scrontab_lines(both, "w-1", "*/9 * * * * tick\n") ==
        others + "# longhaul run w-1: begin\n*/9 * * * * tick\n# longhaul run w-1: end\n");
  const std::string three = with_scrontab_lines(both, "w-1b", "other\n");
  CHECK(without_scrontab_lines(three, "w-1b") == both);
  CHECK(without_scrontab_lines(three, "w-1").find("# longhaul run w-1b: begin\nother\n") != std::string::npos);
  CHECK(with_scrontab_lines("no line end", "w", "x\n") ==
        "no line end\n# longhaul run w: begin\nx\n# longhaul run w: end\n");
  // What a person has cut in two is not taken for a reason to remove his lines.
  const std::string cut = "# longhaul run w-1: begin\n1 2 * * * precious\n";
  CHECK(without_scrontab_lines(cut, "w-1") == cut);
  CHECK(without_scrontab_lines(with_scrontab_lines(cut, "w-1", "x\n"), "w-1") == cut);
  CHECK(without_scrontab_lines("# longhaul run w-1: end\na\n# longhaul run w-1: begin\n", "w-1") ==
        "# longhaul run w-1: end\na\n# longhaul run w-1: begin\n");
}

TEST_CASE("scrontab drives a run with one tick per interval, asked for as the site wants jobs") {
  MadeUpScrontab made_up;
  Logger log("test", "", LogLevel::error);
  FrozenRun frozen;
  frozen.name = "w-1";
  frozen.driver = "scrontab";
  const std::string run = made_up.scratch.file("it's a run");
  REQUIRE(make_directories(run).ok());
  REQUIRE(write_file_atomic(made_up.scratch.file("table"), "5 4 * * * backup\n").ok());
  const Site site = driver_site("default_class = \"cpu\"\ndriver_interval = \"10min\"");
  REQUIRE(start_driver(run, frozen, site, "", driver_options(), log).ok());
  const std::string table = made_up.table();
  CHECK(starts_with(table, "5 4 * * * backup\n# longhaul run w-1: begin\n"));
  CHECK(table.find("\n#SCRON --partition=shared\n") != std::string::npos);
  CHECK(table.find("\n#SCRON --qos=low\n") != std::string::npos);
  CHECK(table.find("\n#SCRON --nodes") == std::string::npos);  // one core is what comes by itself
  const std::string quoted_run = replace_all(run, "'", "'\\''");
  CHECK(table.find("\n*/10 * * * * '" + quoted_run + "/driver/tick.sh'\n") != std::string::npos);
  const std::string script = read_file(join_path(run, "driver/tick.sh")).value();
  CHECK(script.find("\nexport PATH='/opt/slurm/bin:/it'\\''s'\nexec '" + quoted_run + "/bin/longhaul' tick '" +
                    quoted_run + "' --until-quiet\n") != std::string::npos);

  // Again: nothing is written, for a table that changes ends the tick that runs from it.
  REQUIRE(start_driver(run, frozen, site, "", driver_options(), log).ok());
  CHECK(made_up.table() == table);
  CHECK(made_up.writes() == 1);
  // Nor is the script: a tick of scrontab has another PATH than the shell it was written from.
  REQUIRE(start_driver(run, frozen, site, "", TickOptions(), log).ok());
  CHECK(read_file(join_path(run, "driver/tick.sh")).value() == script);
  // After a maintenance Slurm has commented the lines out; those of others stay as they are.
  const std::string disabled = "#DISABLED: " + replace_all(table.substr(0, table.size() - 1), "\n", "\n#DISABLED: ");
  const std::string kept = replace_all(disabled, "#DISABLED: # longhaul", "# longhaul") + "\n";
  REQUIRE(write_file_atomic(made_up.scratch.file("table"), kept).ok());
  REQUIRE(start_driver(run, frozen, site, "", driver_options(), log).ok());
  CHECK(made_up.table() == "#DISABLED: " + table);
  CHECK(made_up.writes() == 2);
  REQUIRE(write_file_atomic(made_up.scratch.file("table"), table).ok());
  REQUIRE(end_driver(run, frozen, site, "", driver_options(), log).ok());
  CHECK(made_up.table() == "5 4 * * * backup\n");
  CHECK(end_driver(run, frozen, site, "", driver_options(), log).ok());
  CHECK(list_directory(join_path(run, "driver")).value() == std::vector<std::string>{"tick.sh"});
}

TEST_CASE("trust: another's run is driven by the programs of the installation") {
  MadeUpScrontab made_up;
  Logger log("test", "", LogLevel::error);
  FrozenRun frozen;
  frozen.name = "w-1";
  frozen.driver = "scrontab";
  const std::string run = made_up.scratch.file("run");
  REQUIRE(make_directories(run).ok());
  TickOptions options = driver_options();
  options.programs_dir = "/opt/longhaul/bin";
  REQUIRE(start_driver(run, frozen, driver_site("default_class = \"cpu\""), "", options, log).ok());
  const std::string script = join_path(run, format("driver/tick-{}.sh", ::geteuid()));
  CHECK(made_up.table().find("* " + script + "\n") != std::string::npos);
  CHECK(read_file(script)->find("exec '/opt/longhaul/bin/longhaul' tick") != std::string::npos);
  CHECK(read_file(script)->find(run + "/bin") == std::string::npos);
}

TEST_CASE("lines of a run that a person has cut in two drive nothing: they are written again, and his are kept") {
  MadeUpScrontab made_up;
  Logger log("test", "", LogLevel::error);
  FrozenRun frozen;
  frozen.name = "w-1";
  frozen.driver = "scrontab";
  const std::string cut = "# longhaul run w-1: begin\n5 4 * * * backup\n";
  REQUIRE(write_file_atomic(made_up.scratch.file("table"), cut).ok());
  const Site site = driver_site("default_class = \"cpu\"");
  REQUIRE(start_driver(made_up.scratch.path(), frozen, site, "", driver_options(), log).ok());
  CHECK(starts_with(made_up.table(), cut + "# longhaul run w-1: begin\n#SCRON "));
  CHECK(made_up.table().find("/driver/tick.sh\n") != std::string::npos);
  REQUIRE(end_driver(made_up.scratch.path(), frozen, site, "", driver_options(), log).ok());
  CHECK(made_up.table() == cut);
}

TEST_CASE("a tick that stays to watch ends before the next one begins") {
  MadeUpScrontab made_up;
  Logger log("test", "", LogLevel::error);
  FrozenRun frozen;
  frozen.name = "w-1";
  frozen.driver = "scrontab";
  const std::pair<const char*, const char*> cases[] = {
      {"driver_interval = \"5min\"\ndriver_stay = \"60s\"", "--for 60s"},
      {"driver_interval = \"5min\"\ndriver_stay = \"1h\"", "--for 290s"},
      {"driver_interval = \"100s\"", "--until-quiet"},
      {"driver_interval = \"1min\"", "--until-quiet"},
  };
  for (const auto& [text, words] : cases) {
    CAPTURE(text);
    const std::string run = made_up.scratch.path();
    (void)remove_tree(made_up.scratch.file("table")).ok();  // no table at all is an empty one
    REQUIRE(
        start_driver(run, frozen, driver_site("default_class = \"cpu\"\n" + std::string(text)), "", TickOptions(), log)
            .ok());
    const std::string script = read_file(join_path(run, "driver/tick.sh")).value();
    CHECK_MESSAGE(ends_with(script, format("\nexec '{0}/bin/longhaul' tick '{0}' {1}\n", run, words)), script);
    const char* const every = starts_with(text, "driver_interval = \"100s")   ? "\n*/2 * * * * "
                              : starts_with(text, "driver_interval = \"1min") ? "\n* * * * * "
                                                                              : "\n*/5 * * * * ";
    CHECK_MESSAGE(made_up.table().find(every + run + "/driver/tick.sh\n") != std::string::npos, made_up.table());
  }
}

TEST_CASE("runs that are driven by their leads or from here need nothing beside them") {
  Logger log("test", "", LogLevel::error);
  for (const char* driver : {"here", "lead"}) {
    FrozenRun frozen;
    frozen.driver = driver;
    CHECK(start_driver("/nowhere", frozen, driver_site(), "", driver_options(), log).ok());
    CHECK(end_driver("/nowhere", frozen, driver_site(), "", driver_options(), log).ok());
  }
}

}  // namespace longhaul
