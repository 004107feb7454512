// What a job has found out about a site, in its file and as the site is read.
#include "orchestrator/site/verified_values.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "orchestrator/site/site_config.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

const VerifiedValue mpi = {"launcher.mpi", "pmix", "2026-11-27", "22.05.8", "--mpi=pmix started 4 ranks"};
const VerifiedValue submits = {"can.submit_from_compute", "yes", "2026-11-27", "22.05.8", "sbatch took one"};

struct Folder {
  testing::Scratch scratch;
  void write(const std::string& name, const std::string& text) const {
    REQUIRE(write_file_atomic(join_path(scratch.path(), name), text).ok());
  }
  Site site(const std::string& name) const {
    auto site = load_site(name, {scratch.path()});
    REQUIRE_MESSAGE(site.ok(), (site.ok() ? "" : site.error().message()));
    return *site;
  }
};

const std::string parent =
    "name = \"parent\"\nscheduler = \"slurm\"\nunverified = [\"launcher.mpi\", \"ask.gpu_request\"]\n[launcher]\n"
    "mpi = \"pmix\"\n[ask]\ngpu_request = \"gres\"\n";

}  // namespace

TEST_CASE("verified values: what was tried is asked about no more, with its day and release") {
  Folder folder;
  folder.write("parent.toml", parent);
  CHECK(!folder.site("parent").origins.at("launcher.mpi").verified);
  folder.write("own.toml", with_verified_values("name = \"own\"\ninherits = \"parent\"\n", {mpi, submits}).value());
  const Site own = folder.site("own");
  CHECK(own.origins.at("launcher.mpi").verified);
  CHECK(own.origins.at("launcher.mpi").source == "tried on 2026-11-27 with Slurm 22.05.8: --mpi=pmix started 4 ranks");
  CHECK(!own.origins.at("ask.gpu_request").verified);
  CHECK(own.config.can.submit_from_compute == "yes");  // no file says it
  CHECK(own.origins.at("can.submit_from_compute").site == "own");
}

TEST_CASE("verified values: which CPUs are beside which GPU comes back as the list that a job has found") {
  Folder folder;
  Value list = Value::make_array();
  for (const char* cpus : {"48-63", "0-15,64-79"}) list.push_back(cpus);
  const VerifiedValue near = {"facts.gpu_cpus", list, "2026-11-27", "24.11.5", "CPUs beside each GPU of a node"};
  const VerifiedValue bound = {"facts.gpus_bound", "no", "2026-11-27", "24.11.5", "0 of 8 ranks"};
  folder.write("own.toml", with_verified_values("name = \"own\"\n", {near, bound}).value());
  CHECK(folder.site("own").config.facts.gpu_cpus == std::vector<std::string>{"48-63", "0-15,64-79"});
  CHECK(folder.site("own").config.facts.gpus_bound == "no");
  CHECK(folder.site("own").origins.at("facts.gpu_cpus").verified);
}

TEST_CASE("verified values: a file that says otherwise counts, and is not called checked") {
  Folder folder;
  folder.write("parent.toml", parent);
  VerifiedValue other = mpi;
  other.value = "pmi2";
  folder.write("own.toml", with_verified_values("name = \"own\"\ninherits = \"parent\"\n", {other}).value());
  CHECK(folder.site("own").config.launcher.mpi == "pmix");
  CHECK(!folder.site("own").origins.at("launcher.mpi").verified);
}

TEST_CASE("verified values: the file stays as it was written, and the next look replaces what the last one found") {
  const std::string own = "# mine\nname = \"own\"   # and this\n[ask]\nexclusive = true\n";
  const std::string first = with_verified_values(own, {mpi, submits}).value();
  CHECK(first.substr(0, own.size()) == own);
  VerifiedValue now = mpi;
  now.on = "2026-12-01";
  const std::string second = with_verified_values(first, {now}).value();
  CHECK(second.substr(0, own.size()) == own);
  CHECK(second.find("2026-12-01") != std::string::npos);
  CHECK(second.find("can.submit_from_compute") != std::string::npos);  // not tried again, so it stays
  CHECK(with_verified_values(second, {now}).value() == second);
  CHECK(with_verified_values(second + "\n# below\n", {now}).value().find("# below") != std::string::npos);
  CHECK(with_verified_values(own, {}).value() == own);
  CHECK(!with_verified_values("name = ", {mpi}).ok());
}

TEST_CASE("verified values: what is malformed is named with its place") {
  Folder folder;
  folder.write("bad.toml", "name = \"bad\"\n[verified.\"launcher.mpi\"]\nvalue = \"pmix\"\n");
  const auto bad = load_site("bad", {folder.scratch.path()});
  REQUIRE(!bad.ok());
  CHECK(bad.error().message().find("site.verified.launcher.mpi has no value and day") != std::string::npos);
  CHECK(bad.error().message().find("bad.toml:2") != std::string::npos);
}

TEST_CASE("site: a range of ports that is none is refused where it stands") {
  Folder folder;
  folder.write("bad.toml", "name = \"bad\"\n[network]\nports = \"63000-60001\"\n");
  const auto bad = load_site("bad", {folder.scratch.path()});
  REQUIRE(!bad.ok());
  CHECK(bad.error().message().find("bad.toml:3") != std::string::npos);
  folder.write("good.toml", "name = \"good\"\n[network]\nports = \"60001-63000\"\n");
  CHECK(folder.site("good").config.network.ports == "60001-63000");
}
