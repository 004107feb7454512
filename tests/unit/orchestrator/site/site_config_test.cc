#include "orchestrator/site/site_config.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/files.h"
#include "base/hash.h"

namespace longhaul {
namespace {

struct SiteFolder {
  std::string path = "/tmp/longhaul-site-test-" + random_hex(6).value();
  SiteFolder() { make_directories(path).value(); }
  ~SiteFolder() { (void)remove_tree(path); }
  void write(const std::string& name, const std::string& text) const {
    write_file_atomic(join_path(path, name), text).value();
  }
};

}  // namespace

TEST_CASE("the local site needs no file") {
  auto site = load_site("local", {});
  REQUIRE(site.ok());
  CHECK(site->config.scheduler == "local");
  CHECK(site->values.get_string("name") == "local");
}

TEST_CASE("a site inherits what it does not say; its paths start at its own folder") {
  SiteFolder folder;
  folder.write("parent.toml", "name = \"parent\"\ncpu_slots = 4\ndata = \"data\"\n");
  folder.write("child.toml", "name = \"child\"\ninherits = \"parent\"\n");
  auto site = load_site("child", {folder.path});
  REQUIRE_MESSAGE(site.ok(), site.error().message());
  CHECK(site->config.name == "child");
  CHECK(site->config.cpu_slots == 4);
  CHECK(site->config.data == folder.path + "/data");
  CHECK(site->files.size() == 2);
}

TEST_CASE("sites that cannot be used say why") {
  SiteFolder folder;
  folder.write("alps.toml", "name = \"alps\"\nscheduler = \"slurm\"\n");
  folder.write("loop.toml", "inherits = \"loop\"\n");
  folder.write("wrong.toml", "cpu_slot = 4\n");
  auto slurm = load_site("alps", {folder.path});
  REQUIRE(!slurm.ok());
  CHECK(slurm.error().code == ErrorCode::unsupported);
  CHECK(slurm.error().message() == folder.path +
                                       "/alps.toml:2:13: site 'alps' uses the scheduler 'slurm', which this version "
                                       "cannot drive; use a site with scheduler = \"local\", for example --site local");
  CHECK(load_site("alp", {folder.path}).error().message() ==
        "there is no site 'alp'; did you mean 'alps'? known sites: alps, local, loop, wrong");
  CHECK(load_site("loop", {folder.path}).error().what == "site 'loop' inherits in a circle");
  CHECK(load_site("wrong", {folder.path}).error().what ==
        folder.path + "/wrong.toml:1:1: error: unknown key 'cpu_slot' in [site]; did you mean 'cpu_slots'?\n1 error");
  CHECK(load_site("./none.toml", {}).error().code == ErrorCode::not_found);
}

}  // namespace longhaul
