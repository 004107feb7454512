#include "orchestrator/site/site_config.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/toml.h"

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

TEST_CASE("trust: a site may name Slurm's commands by absolute paths, and no others") {
  SiteFolder folder;
  folder.write("good.toml", "scheduler = \"slurm\"\n[programs]\nsbatch = \"/opt/slurm/bin/sbatch\"\n");
  auto site = load_site("good", {folder.path});
  REQUIRE_MESSAGE(site.ok(), site.error().message());
  CHECK(site->config.programs.at("sbatch") == "/opt/slurm/bin/sbatch");
  folder.write("bad.toml", "[programs]\nsbatch = \"bin/sbatch\"\nrm = \"/bin/rm\"\n");
  site = load_site("bad", {folder.path});
  REQUIRE_FALSE(site.ok());
  CHECK(site.error().message().find("bad.toml:2:10") != std::string::npos);
  CHECK(site.error().message().find("no absolute path") != std::string::npos);
  CHECK(site.error().message().find("programs.rm") != std::string::npos);
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

TEST_CASE(
    "tables are inherited member by member, and each value knows its file, its source and whether it was checked") {
  SiteFolder folder;
  folder.write("parent.toml",
               "scheduler = \"slurm\"\nunverified = [\"classes.prod.max_wall\"]\n[node]\ncores = 72\ngpus = 4\n"
               "[environment]\nA = \"1\"\nB = \"2\"\n[classes.prod]\npartition = \"normal\"\nmax_wall = \"12h\"\n"
               "[sources]\nnode = \"the manual, page 3\"\n\"classes.prod\" = \"sinfo\"\n");
  folder.write("child.toml",
               "inherits = \"parent\"\n[node]\ncores = 80\n[environment]\nB = \"3\"\n[classes.debug]\n"
               "qos = \"debug\"\n[sources]\nclasses = \"a friend\"\n");
  const auto site = load_site("child", {folder.path});
  REQUIRE_MESSAGE(site.ok(), site.error().message());
  const SiteConfig& config = site->config;
  CHECK(config.name == "child");  // its file's
  CHECK(config.node.cores == 80);
  CHECK(config.node.gpus == 4);
  CHECK(config.environment == std::map<std::string, std::string>{{"A", "1"}, {"B", "3"}});
  REQUIRE(config.classes.size() == 2);
  CHECK(config.find_class("debug")->qos == "debug");
  CHECK(config.find_class("prod")->max_wall.value == 12 * 3600);
  CHECK(site->origins.at("node.cores").site == "child");
  CHECK(site->origins.at("node.cores").source.empty());
  CHECK(site->origins.at("node.gpus").source == "the manual, page 3");
  CHECK(site->origins.at("classes.debug.qos").source == "a friend");
  CHECK(site->origins.at("classes.prod.partition").source == "sinfo");
  CHECK(site->origins.at("classes.prod.partition").verified);
  CHECK(!site->origins.at("classes.prod.max_wall").verified);
  CHECK(site->origins.at("environment.B").where.line == 5);
  CHECK(site->origin_of("classes.prod.max_wall") == "site parent: classes.prod.max_wall");
  CHECK(site->origin_of("ask.memory") == "default: ask.memory");

  // The frozen copy of a run gives the same site, origins included.
  folder.write("frozen.toml", to_toml(site->values));
  const auto again = load_site(join_path(folder.path, "frozen.toml"), {});
  REQUIRE_MESSAGE(again.ok(), again.error().message());
  CHECK(again->values == site->values);
  CHECK(again->origin_of("classes.prod.max_wall") == "site parent: classes.prod.max_wall");
  CHECK(again->origin_of("ask.memory") == "default: ask.memory");
  CHECK(!again->origins.at("classes.prod.max_wall").verified);
}

TEST_CASE("values of the command line win, with the same checks") {
  SiteFolder folder;
  folder.write("a.toml", "account = \"x\"\n[classes.prod]\npartition = \"p\"\n");
  const auto site = load_site("a", {folder.path}, {"account = \"y z\"", "classes.prod.qos=\"q\""});
  REQUIRE_MESSAGE(site.ok(), site.error().message());
  CHECK(site->config.account == "y z");
  CHECK(site->config.classes.at(0).partition == "p");
  CHECK(site->config.classes.at(0).qos == "q");
  CHECK(site->origin_of("account") == "--set site: account");
  CHECK(load_site("a", {folder.path}, {"account=y-2"})->config.account == "y-2");  // a word can mean nothing else
  for (const char* wrong : {"account=y z", "account", "=1", "a=1\nb=2", "account=\"a\"\n[x]"})
    CHECK(load_site("a", {folder.path}, {wrong}).error().code == ErrorCode::invalid_input);
  CHECK(load_site("a", {folder.path}, {"acount=\"y\""}).error().message().find("did you mean 'account'?") !=
        std::string::npos);
}

TEST_CASE("a site that is not there: names that begin so, or a file of that name here") {
  SiteFolder folder;
  folder.write("tall-booster.toml", "scheduler = \"slurm\"\n");
  const auto said = [&](const std::string& name) { return load_site(name, {folder.path}).error().message(); };
  CHECK(said("tall").find("did you mean 'tall-booster'? known sites: ") != std::string::npos);
  CHECK(said("tall-boster").find("did you mean 'tall-booster'?") != std::string::npos);
  CHECK(said("other").find("did you mean") == std::string::npos);
}

TEST_CASE("a figure without its unit is named with its place and with what may have been meant") {
  SiteFolder folder;
  folder.write("bare.toml", "scheduler = \"slurm\"\nsubmit_deadline = 90\n[node]\nmemory = 512\ngpu_memory = 80.5\n");
  const std::string what = load_site("bare", {folder.path}).error().what;
  for (const char* line :
       {"bare.toml:2:19: error: site.submit_deadline is integer, expected duration; it lacks its "
        "unit: write \"90min\" (which Slurm takes it for), \"90s\" or \"90h\"",
        "bare.toml:4:10: error: site.node.memory is integer, expected size; it lacks its unit: write "
        "\"512MB\", \"512GB\" or \"512GiB\"",
        "bare.toml:5:14: error: site.node.gpu_memory is number, expected size; it lacks its unit: "
        "write \"80.5MB\", \"80.5GB\" or \"80.5GiB\""})
    CHECK_MESSAGE(what.find(line) != std::string::npos, what);
}

TEST_CASE("sites that cannot be used say why") {
  SiteFolder folder;
  folder.write("alps.toml", "name = \"alps\"\nscheduler = \"slurm\"\n");
  folder.write("loop.toml", "inherits = \"loop\"\n");
  folder.write("wrong.toml", "cpu_slot = 4\n");
  folder.write("classes.toml", "default_class = \"prod\"\nclasses = { debug = 3, long = { max_wal = \"1h\" } }\n");
  folder.write("other.toml", "default_class = \"prod\"\n[classes.debug]\n");
  CHECK(load_site("alps", {folder.path}).ok());
  CHECK(load_site("alp", {folder.path}).error().message() ==
        "there is no site 'alp'; did you mean 'alps'? known sites: alps, classes, local, loop, other, wrong");
  CHECK(load_site("loop", {folder.path}).error().what == "site 'loop' inherits in a circle");
  CHECK(load_site("wrong", {folder.path}).error().what ==
        folder.path + "/wrong.toml:1:1: error: unknown key 'cpu_slot' in [site]; did you mean 'cpu_slots'?\n1 error");
  const std::string classes = load_site("classes", {folder.path}).error().what;
  CHECK(classes.find("classes.toml:2:21: error: site.classes.debug is integer, expected a table") != std::string::npos);
  CHECK(classes.find("did you mean 'max_wall'?") != std::string::npos);
  CHECK(load_site("other", {folder.path})
            .error()
            .what.find("other.toml:1:17: error: there is no class 'prod'; classes: "
                       "debug") != std::string::npos);
  CHECK(load_site("./none.toml", {}).error().code == ErrorCode::not_found);
  folder.write("cuts.toml", "[faults]\ncut_network = \"cut {node} {seconds}\"\n");
  const std::string cuts = load_site("cuts", {folder.path}).error().what;
  CHECK_MESSAGE(cuts.find("cuts.toml:2:15: error: faults.cut_network names {node}; placeholders: {host}, {seconds}") !=
                    std::string::npos,
                cuts);
}

TEST_CASE("a key that decides nothing is refused at its old place with the new one, and is kept where a run has it") {
  SiteFolder folder;
  folder.write("old.toml", "[paths]\nproject = \"/p\"\n[network]\nnics = 2\nfabric = \"InfiniBand\"\n");
  const auto refused = load_site("old", {folder.path});
  REQUIRE_FALSE(refused.ok());
  const std::string text = refused.error().message();
  CHECK_MESSAGE(text.find("old.toml:2:11: error: site.paths.project decides nothing and has moved: it is "
                          "site.facts.project now; write project below [facts]") != std::string::npos,
                text);
  CHECK_MESSAGE(text.find("old.toml:5:10: error: site.network.fabric") != std::string::npos, text);
  CHECK_MESSAGE(text.find("2 errors") != std::string::npos, text);
  folder.write("new.toml", "[facts]\nproject = \"/p\"\n[network]\nnics = 2\n");
  const auto site = load_site("new", {folder.path});
  REQUIRE_MESSAGE(site.ok(), site.error().message());
  CHECK(site->config.facts.project == "/p");
  CHECK_FALSE(load_site("new", {folder.path}, {"paths.project=\"/q\""}).ok());
  // As an earlier version froze it, with its origins.
  folder.write("frozen.toml",
               "[paths]\nproject = \"/p\"\nscratch = \"\"\n[origins.\"paths.project\"]\nsite = \"old\"\n");
  const auto frozen = load_site(folder.path + "/frozen.toml", {});
  REQUIRE_MESSAGE(frozen.ok(), frozen.error().message());
  CHECK(frozen->config.facts.project == "/p");
}

}  // namespace longhaul
