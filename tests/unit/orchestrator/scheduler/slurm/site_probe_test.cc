#include "orchestrator/scheduler/slurm/site_probe.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

// A cluster with two kinds of nodes and three partitions.
ClusterFacts probed_cluster() {
  ClusterFacts facts;
  facts.configuration.cluster = "tiny";
  facts.configuration.version = "22.05.8";
  facts.configuration.min_job_age_s = 300;
  facts.configuration.scrontab = true;
  facts.configuration.mpi_default = "pmix";
  const auto partition = [&](const std::string& name, std::int64_t max_time_s, int nodes) {
    SlurmPartition one;
    one.name = name;
    one.state = "UP";
    one.max_time_s = max_time_s;
    one.nodes_total = nodes;
    facts.partitions.push_back(one);
  };
  partition("cpu", 2 * 86400, 1);
  partition("gpu", 86400, 4);
  partition("gpu.debug", 600, 4);
  facts.partitions[1].is_default = true;
  facts.partitions[2].nodes_max = 2;
  for (int i = 1; i <= 5; ++i) {
    SlurmNode node;
    node.name = format("n{}", i);
    node.state = "IDLE";
    node.cpus = i == 5 ? 128 : 64;
    node.memory_mib = 512000;
    node.gres = i == 5 ? "" : "gpu:a100:4(S:0-1)";
    node.partitions = i == 5 ? "cpu" : "gpu,gpu.debug";
    facts.nodes.push_back(node);
  }
  return facts;
}

Site probed_site(const std::string& text) {
  const std::string folder = "/tmp/longhaul-probe-test-" + random_hex(6).value();
  make_directories(folder).value();
  write_file_atomic(join_path(folder, "tiny.toml"), text).value();
  auto site = load_site("tiny", {folder, LONGHAUL_SOURCE_DIR "/site-configs"});
  (void)remove_tree(folder);
  REQUIRE_MESSAGE(site.ok(), site.error().message());
  return *site;
}

std::vector<std::string> changes_of(const std::vector<SiteFinding>& findings) {
  std::vector<std::string> lines;
  for (const SiteFinding& finding : findings)
    if (finding.kind == SiteFinding::Kind::change)
      lines.push_back(finding.path + ": " + finding.said + " / " + finding.found + "; " + finding.remedy);
  return lines;
}

}  // namespace

TEST_CASE("GPUs of a node as Slurm writes them") {
  CHECK(gpus_of_gres("gpu:a100:4(S:0-1)").count == 4);
  CHECK(gpus_of_gres("gpu:a100:4(S:0-1)").type == "a100");
  CHECK(gpus_of_gres("tmp:1,gpu:2").count == 2);
  CHECK(gpus_of_gres("gpu:h100:6(S:0,1),gpu:h200:2(S:1)").count == 8);
  CHECK(gpus_of_gres("").count == 0);
  CHECK(gpus_of_gres("gpu").count == 0);
}

TEST_CASE("a probed cluster gives a site file that can be read and that fits the cluster") {
  const ClusterFacts facts = probed_cluster();
  const std::string text = probed_site_text("tiny", facts);
  CHECK(text.find("name = \"tiny\"\ndescription = \"the cluster tiny\"\n") != std::string::npos);
  const Site site = probed_site(text);
  const SiteConfig& config = site.config;
  CHECK(config.is_slurm());
  CHECK(config.default_class == "gpu");
  CHECK(config.partitions == std::vector<std::string>{"cpu", "gpu", "gpu.debug"});
  CHECK(config.node.cores == 64);
  CHECK(config.node.gpus == 4);
  CHECK(config.ask.gpu_type == "a100");
  CHECK(config.find_class("gpu")->max_wall.value == 86400);
  CHECK(config.find_class("gpu_debug")->max_nodes == 2);
  CHECK(config.find_class("gpu_debug")->partition == "gpu.debug");
  CHECK(config.find_class("cpu")->gpus_per_node == 0);
  CHECK(config.find_class("cpu")->cores == 128);
  CHECK(changes_of(compare_site(site, facts)).empty());
  // All that it says has a source, or is asked about.
  for (const auto& [path, origin] : site.origins)
    if (origin.site == "tiny" && path != "name" && path != "description" && !ends_with(path, ".description")) {
      CAPTURE(path);
      CHECK((!origin.source.empty() || !origin.verified));
    }
  const auto asked = unverified_values(site);
  CHECK(std::any_of(asked.begin(), asked.end(), [](const SiteFinding& f) { return f.path == "ask.gpu_request"; }));
}

TEST_CASE("what Slurm does not show to everybody is asked about, and not called missing") {
  ClusterFacts facts = probed_cluster();
  const Site site = probed_site(probed_site_text("tiny", facts));
  facts.partitions.resize(2);
  facts.nodes.clear();
  CHECK(changes_of(compare_site(site, facts)).size() == 2);  // gpu.debug, in the list and in its class
  facts.configuration.private_data = "nodes,partitions";
  const auto findings = compare_site(site, facts);
  CHECK(changes_of(findings).empty());
  const auto asked = [&](const std::string& path, const std::string& found) {
    return std::any_of(findings.begin(), findings.end(), [&](const SiteFinding& one) {
      return one.kind == SiteFinding::Kind::ask && one.path == path && one.found.find(found) != std::string::npos;
    });
  };
  CHECK(asked("partitions", "PrivateData=partitions"));
  CHECK(asked("classes.gpu_debug.partition", "PrivateData=partitions"));
  CHECK(asked("node", "PrivateData=nodes"));
  // A first file says nothing of nodes then, and that it does not.
  const std::string text = probed_site_text("tiny", facts);
  CHECK(text.find("It shows you no nodes (PrivateData=nodes)") != std::string::npos);
  CHECK(text.find("gpu_request =") == std::string::npos);
  CHECK(probed_site(text).config.node.cores == 0);
}

TEST_CASE("a file that does not fit its cluster: what to change, value by value") {
  const Site site = probed_site(R"(
scheduler = "slurm"
partitions = ["gpu", "old"]
poll_interval = "10min"
[node]
cores = 48
gpus = 8
memory = "1TiB"
[ask]
gpu_type = "h100"
[can]
scrontab = "no"
[classes.prod]
partition = "gpu"
max_wall = "48h"
max_nodes = 16
[classes.debug]
partition = "gpu.debg"
[classes.cpu]
partition = "cpu"
cores = 128
gpus_per_node = 0
max_wall = "1h"
)");
  const auto changes = changes_of(compare_site(site, probed_cluster()));
  for (const char* line : {
           "partitions: old / no such partition; remove it; there are: cpu, gpu, gpu.debug",
           "partitions:  / cpu; add \"cpu\"",
           "classes.prod.max_wall: 48h / 24h; write max_wall = \"24h\"",
           "classes.prod.max_nodes: 16 / 4; write max_nodes = 4",
           "node.cores: 48 CPUs / 64 CPUs; write cores so that cores x node.threads_per_core is what the cluster says",
           "node.gpus: 8 / 4; write 4",
           "ask.gpu_type: h100 / a100; write gpu_type = \"a100\"",
           "node.memory: 1.0 TiB / 500.0 GiB; write memory = \"512000MiB\"",
           "classes.debug.partition: gpu.debg / no such partition; did you mean \"gpu.debug\"?",
           "can.scrontab: no / yes; write \"yes\"",
           "poll_interval: 10min / MinJobAge is 5min; ask more often than every 150s, so that no end of a job is "
           "missed",
       })
    CHECK_MESSAGE(std::find(changes.begin(), changes.end(), line) != changes.end(),
                  (std::string(line) + "\nnot in\n" + join(changes, "\n")));
  for (const std::string& change : changes) CHECK_MESSAGE(change.find("classes.cpu") == std::string::npos, change);
}

TEST_CASE("a limit is compared where the site's file and the cluster both say it, and where they differ") {
  const Site site = probed_site("scheduler = \"slurm\"\nmax_submitted = 500\nslurmd_timeout = \"5min\"\n");
  const Site silent = probed_site("scheduler = \"slurm\"\n");
  ClusterFacts facts = probed_cluster();
  CHECK(changes_of(compare_site(site, facts)).empty());  // the cluster says neither
  facts.configuration.max_job_count = 500, facts.configuration.slurmd_timeout_s = 300;
  CHECK(changes_of(compare_site(site, facts)).empty());
  facts.configuration.max_job_count = 400, facts.configuration.slurmd_timeout_s = 600;
  CHECK(changes_of(compare_site(site, facts)) ==
        std::vector<std::string>{"max_submitted: 500 / 400; write fewer: it is what the whole cluster may hold",
                                 "slurmd_timeout: 5min / 10min; write \"10min\""});
  CHECK(changes_of(compare_site(silent, facts)).empty());
}

TEST_CASE("a partition that holds no nodes has a class without a largest number of them") {
  ClusterFacts facts = probed_cluster();
  facts.partitions.front().nodes_total = 0;
  CHECK(probed_site_text("tiny", facts).find("max_nodes = 0") == std::string::npos);
  facts.partitions.front().nodes_total = 1;
  CHECK(probed_site_text("tiny", facts).find("max_nodes = 1\n") != std::string::npos);
}

}  // namespace longhaul
