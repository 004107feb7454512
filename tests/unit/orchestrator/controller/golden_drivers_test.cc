// Who drives a run at every shipped site, and what that asks Slurm for, as it lies in tests/golden/drivers. After a
// wanted change:
//   LONGHAUL_UPDATE_GOLDEN=1 build/release/bin/unit_orchestrator --test-case='*golden*'
// and read the difference before it is committed.
#include <doctest/doctest.h>

#include <cstdlib>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/controller/drivers.h"

namespace longhaul {
namespace {

Site driven_site(const std::string& name) {
  const std::vector<std::string> folders = {LONGHAUL_SOURCE_DIR "/site-configs"};
  auto site = load_site(name, folders);
  REQUIRE_MESSAGE(site.ok(), site.error().message());
  if (site->config.account_required) site = load_site(name, folders, {"account=\"project1\""});
  return *site;
}

// The text, or why there is none, without the place where a checkout lies.
std::string shown(const Result<std::string>& text) {
  if (text.ok()) return *text;
  return replace_all("none: " + text.error().message() + "\n", LONGHAUL_SOURCE_DIR "/", "");
}

std::string drivers_of(const Site& site) {
  DriverContext context;
  context.run = "8b-20260302-041109-8f3a";
  context.run_dir = "/scratch/project1/runs/" + context.run;
  context.programs = context.run_dir + "/bin";
  context.tick_script = context.run_dir + "/driver/tick.sh";
  const auto chosen = choose_driver("auto", site);
  std::string text = chosen.ok() ? driver_line(*chosen) : shown(Result<std::string>(chosen.error()));
  const auto add = [&](const char* driver, const char* file, const Result<std::string>& content) {
    const auto asked = choose_driver(driver, site);
    text += format("\n==> --driver {}: {} <==\n", driver, file);
    text += shown(asked.ok() ? content : Result<std::string>(asked.error()));
  };
  add("scrontab", "scrontab", scrontab_lines(site, context));
  add("scrontab", "driver/tick.sh", tick_script(site, context, "/usr/bin:/bin", ""));
  add("job", "driver/driver.sbatch", driver_job_script(site, context));
  return text;
}

}  // namespace

TEST_CASE("golden drivers: who drives a run at every site, and what the driver asks for") {
  int sites = 0, in_front = 0;
  for (const std::string& name : site_names({LONGHAUL_SOURCE_DIR "/site-configs"})) {
    if (starts_with(name, "gh200-") || starts_with(name, "hgx-")) continue;  // parents of others
    CAPTURE(name);
    const Site site = driven_site(name);
    if (!site.config.is_slurm()) continue;
    const std::string text = drivers_of(site), path = LONGHAUL_SOURCE_DIR "/tests/golden/drivers/" + name + ".txt";
    ++sites;
    in_front += starts_with(text, "driver: here") ? 1 : 0;
    for (const char* costly : {"--gres", "--gpus", "--exclusive", "--mem"}) {
      CAPTURE(costly);
      CHECK(text.find(costly) == std::string::npos);  // never a GPU node for a tick
    }
    if (std::getenv("LONGHAUL_UPDATE_GOLDEN")) {
      REQUIRE(make_directories(parent_path(path)).ok());
      REQUIRE(write_file_atomic(path, text).ok());
      continue;
    }
    const auto golden = read_file(path);
    REQUIRE_MESSAGE(golden.ok(), golden.error().message());
    CHECK_MESSAGE(*golden == text, (path + " differs; LONGHAUL_UPDATE_GOLDEN=1 writes it anew\n" + text));
  }
  CHECK(sites >= 18);
  CHECK(in_front == 1);  // vista: no jobs from jobs, and nothing else that is known
}

}  // namespace longhaul
