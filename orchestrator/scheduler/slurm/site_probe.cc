#include "orchestrator/scheduler/slurm/site_probe.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <set>

#include "base/text/text.h"
#include "base/toml.h"
#include "orchestrator/scheduler/port/mpi_types.h"
#include "orchestrator/scheduler/port/slurm_release.h"

namespace longhaul {
namespace {

// The nodes of one shape that a partition has most of.
struct Shape {
  int cpus = 0, gpus = 0;
  std::int64_t memory_mib = 0;
  std::string gpu_type;
  auto operator<=>(const Shape&) const = default;
};

bool is_in(const SlurmNode& node, const std::string& partition) {
  const auto names = split(node.partitions, ',');
  return std::find(names.begin(), names.end(), partition) != names.end();
}

Shape usual_shape(const std::vector<SlurmNode>& nodes, const std::string& partition) {
  std::map<Shape, int> counts;
  for (const SlurmNode& node : nodes) {
    if (!partition.empty() && !is_in(node, partition)) continue;
    const GresGpus gpus = gpus_of_gres(node.gres);
    ++counts[Shape{node.cpus, gpus.count, node.memory_mib, gpus.type}];
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? Shape{} : most->first;
}

std::string duration(double seconds) {
  const auto whole = static_cast<long long>(seconds);
  if (whole % 3600 == 0) return format("{}h", whole / 3600);
  return whole % 60 == 0 ? format("{}min", whole / 60) : format("{}s", whole);
}

std::string quoted(const std::string& text) {
  return "\"" + text + "\"";
}

std::string class_name(const std::string& partition) {
  std::string name = partition;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') c = '_';
  return name;
}

const SlurmPartition* default_partition(const std::vector<SlurmPartition>& partitions) {
  for (const SlurmPartition& one : partitions)
    if (one.is_default) return &one;
  return partitions.empty() ? nullptr : &partitions.front();
}

Value probed_class(const SlurmPartition& partition, const Shape& of_class, const Shape& of_site) {
  Value table = Value::make_table();
  table.set("partition", partition.name);
  if (!partition.qos.empty()) table.set("description", "its limits are also those of the QOS " + partition.qos);
  if (partition.max_time_s > 0) table.set("max_wall", duration(static_cast<double>(partition.max_time_s)));
  const int nodes_max = partition.nodes_max > 0 ? partition.nodes_max : partition.nodes_total;
  if (nodes_max > 0) table.set("max_nodes", nodes_max);
  if (partition.nodes_min > 1) table.set("min_nodes", partition.nodes_min);
  if (of_class.cpus > 0 && of_class.cpus != of_site.cpus) table.set("cores", of_class.cpus);
  if (of_class.cpus > 0 && of_class.gpus != of_site.gpus) table.set("gpus_per_node", of_class.gpus);
  if (partition.exclusive) table.set("exclusive", "yes");
  return table;
}

class Comparison {
 public:
  Comparison(const Site& site, const ClusterFacts& facts) : site_(site), facts_(facts) {}

  std::vector<SiteFinding> run() {
    compare_partitions();
    for (const JobClass& one : site_.config.classes) compare_class(one);
    compare_capabilities();
    compare_launcher();
    return std::move(findings_);
  }

 private:
  void change(const std::string& path, const std::string& said, const std::string& found, const std::string& remedy) {
    const auto origin = site_.origins.find(path);
    findings_.push_back({SiteFinding::Kind::change, path, said, found, remedy,
                         origin == site_.origins.end() ? SourcePos() : origin->second.where});
  }

  // What Slurm does not show to everybody is not known to be missing.
  bool hides(const std::string& what) const { return shows_less(facts_.configuration, what); }
  void ask(const std::string& path, const std::string& said, const std::string& found, const std::string& remedy) {
    change(path, said, found, remedy);
    findings_.back().kind = SiteFinding::Kind::ask;
  }
  void hidden_partition(const std::string& path, const std::string& name) {
    ask(path, name, "not among those that Slurm shows to you (PrivateData=partitions)",
        "ask whoever may see all: scontrol -a show partitions");
  }

  void compare_partitions() {
    if (facts_.nodes.empty() && hides("nodes"))
      ask("node", "", "Slurm shows you no nodes (PrivateData=nodes)",
          "look at them from inside of a job: longhaul doctor --job");
    for (const SlurmPartition& one : facts_.partitions) live_.push_back(one.name);
    const auto& said = site_.config.partitions;
    for (const std::string& name : said) {
      if (std::find(live_.begin(), live_.end(), name) != live_.end()) continue;
      if (hides("partitions"))
        hidden_partition("partitions", name);
      else
        change("partitions", name, "no such partition", "remove it; there are: " + join(live_, ", "));
    }
    if (said.empty()) return;
    for (const std::string& name : live_)
      if (std::find(said.begin(), said.end(), name) == said.end())
        change("partitions", "", name, "add " + quoted(name));
  }

  void compare_class(const JobClass& one) {
    if (one.partition.empty() && (!one.qos.empty() || !one.constraint.empty())) return;  // the submit filter routes it
    const std::string path = "classes." + one.name + ".";
    const SlurmPartition* usual = default_partition(facts_.partitions);
    std::string name = one.partition.empty() && usual ? usual->name : one.partition;
    name = split(name, ',').front();
    const auto live = std::find_if(facts_.partitions.begin(), facts_.partitions.end(),
                                   [&](const SlurmPartition& p) { return p.name == name; });
    if (live == facts_.partitions.end()) {
      if (hides("partitions")) return hidden_partition(path + "partition", name);
      const std::string nearest = nearest_word(name, live_);
      change(path + "partition", name, "no such partition",
             nearest.empty() ? "one of: " + join(live_, ", ") : "did you mean " + quoted(nearest) + "?");
      return;
    }
    if (!starts_with(live->state, "UP"))
      change(path + "partition", name, "its state is " + live->state, "use another one, or wait");
    const auto max = static_cast<double>(live->max_time_s);
    if (max > 0 && (one.max_wall.value == 0 || one.max_wall.value > max))
      change(path + "max_wall", one.max_wall.value == 0 ? "no limit" : duration(one.max_wall.value), duration(max),
             "write max_wall = " + quoted(duration(max)));
    const int nodes = live->nodes_max > 0 ? std::min(live->nodes_max, live->nodes_total) : live->nodes_total;
    if (one.max_nodes > 0 && nodes > 0 && one.max_nodes > nodes)
      change(path + "max_nodes", std::to_string(one.max_nodes), std::to_string(nodes),
             format("write max_nodes = {}", nodes));
    compare_shape(one, path, usual_shape(facts_.nodes, name));
  }

  void compare_shape(const JobClass& one, const std::string& path, const Shape& live) {
    const SiteConfig& config = site_.config;
    if (live.cpus == 0) return;
    const int cpus = one.cores > 0 ? one.cores * config.node.threads_per_core : config.node.cpus();
    if (cpus > 0 && cpus != live.cpus)
      change(one.cores > 0 ? path + "cores" : "node.cores", format("{} CPUs", cpus), format("{} CPUs", live.cpus),
             "write cores so that cores x node.threads_per_core is what the cluster says");
    const int gpus = one.gpus_per_node >= 0 ? one.gpus_per_node : config.node.gpus;
    if (gpus != live.gpus && !(gpus == 0 && one.gpus_per_node == 0))
      change(one.gpus_per_node >= 0 ? path + "gpus_per_node" : "node.gpus", std::to_string(gpus),
             std::to_string(live.gpus), format("write {}", live.gpus));
    if (!config.ask.gpu_type.empty() && live.gpus > 0 && config.ask.gpu_type != live.gpu_type)
      change("ask.gpu_type", config.ask.gpu_type, live.gpu_type.empty() ? "no type" : live.gpu_type,
             live.gpu_type.empty() ? "remove it" : "write gpu_type = " + quoted(live.gpu_type));
    const double said = static_cast<double>(config.node.memory.value),
                 found = static_cast<double>(live.memory_mib) * 1048576;
    if (one.cores == 0 && said > 0 && (said > found * 1.1 || said < found * 0.8))
      change("node.memory", human_bytes(said), human_bytes(found), format("write memory = \"{}MiB\"", live.memory_mib));
  }

  void compare_capabilities() {
    const auto compare = [&](const std::string& path, const std::string& said, bool live) {
      const std::string found = live ? "yes" : "no";
      if (!said.empty() && said != found) change(path, said, found, "write " + quoted(found));
    };
    compare("can.scrontab", site_.config.can.scrontab, facts_.configuration.scrontab);
    if (site_.config.max_submitted > facts_.configuration.max_job_count && facts_.configuration.max_job_count > 0)
      change("max_submitted", std::to_string(site_.config.max_submitted),
             std::to_string(facts_.configuration.max_job_count), "write fewer: it is what the whole cluster may hold");
    const auto said = site_.config.slurmd_timeout.value;
    const auto live = static_cast<double>(facts_.configuration.slurmd_timeout_s);
    if (said > 0 && live > 0 && said != live)
      change("slurmd_timeout", duration(said), duration(live), "write " + quoted(duration(live)));
    const auto age = static_cast<double>(facts_.configuration.min_job_age_s);
    if (age > 0 && site_.config.poll_interval.value * 2 > age)
      change("poll_interval", duration(site_.config.poll_interval.value), "MinJobAge is " + duration(age),
             "ask more often than every " + duration(age / 2) + ", so that no end of a job is missed");
  }

  void compare_launcher() {
    const std::string& mpi = site_.config.launcher.mpi;
    const std::string remedy = mpi_type_remedy(mpi, facts_.mpi_types);
    if (site_.config.launcher.kind == "srun" && !remedy.empty())
      change("launcher.mpi", mpi, "srun has no such plugin", remedy);
    if (const std::string old = too_old_for_agents(facts_.configuration); !old.empty())
      change("scheduler", "jobs of several nodes", "Slurm " + facts_.configuration.version, old);
  }

  const Site& site_;
  const ClusterFacts& facts_;
  std::vector<std::string> live_;
  std::vector<SiteFinding> findings_;
};

}  // namespace

GresGpus gpus_of_gres(const std::string& gres) {
  GresGpus gpus;
  std::string plain;  // without "(S:0-1)", which may hold commas
  int depth = 0;
  for (char c : gres) {
    if (c == '(') ++depth;
    if (depth == 0) plain += c;
    if (c == ')') --depth;
  }
  for (const std::string& one : split(plain, ',')) {
    const auto parts = split(one, ':');
    if (parts.size() < 2 || parts[0] != "gpu") continue;
    gpus.count += std::atoi(parts.back().c_str());
    if (parts.size() > 2 && gpus.type.empty()) gpus.type = parts[1];
  }
  return gpus;
}

Result<ClusterFacts> ask_cluster(SlurmPort& port) {
  ClusterFacts facts;
  LH_TRY(facts.configuration, port.configuration());
  LH_TRY(facts.partitions, port.partitions());
  auto nodes = port.nodes();
  if (!nodes.ok() && !shows_less(facts.configuration, "nodes")) return nodes.error();
  if (nodes.ok()) facts.nodes = *std::move(nodes);
  return facts;
}

std::string probed_site_text(const std::string& name, const ClusterFacts& facts) {
  const SlurmPartition* usual = default_partition(facts.partitions);
  const Shape shape = usual_shape(facts.nodes, usual ? usual->name : "");
  const std::string source =
      "asked of slurmctld " + facts.configuration.version + " of the cluster " + facts.configuration.cluster;
  Value site = Value::make_table();
  site.set("name", name);
  site.set("description", "the cluster " + facts.configuration.cluster);
  site.set("inherits", "slurm-generic");
  if (usual) site.set("default_class", class_name(usual->name));
  Value& partitions = site.set("partitions", Value::make_array());
  for (const SlurmPartition& one : facts.partitions) partitions.push_back(one.name);
  site.set("unverified", ValueArray{"ask.gpu_request", "launcher.mpi", "node.threads_per_core", "can.shared_nodes"});
  const bool hidden = facts.nodes.empty() && shows_less(facts.configuration, "nodes");
  if (!hidden) {
    Value& node = site.set("node", Value::make_table());
    node.set("cores", shape.cpus);
    node.set("threads_per_core", 1);
    node.set("memory", format("{}MiB", shape.memory_mib));
    node.set("gpus", shape.gpus);
    Value& ask = site.set("ask", Value::make_table());
    ask.set("gpu_request", shape.gpus > 0 ? "gres" : "none");
    if (!shape.gpu_type.empty()) ask.set("gpu_type", shape.gpu_type);
  }
  Value& launcher = site.set("launcher", Value::make_table());
  const std::string& mpi = facts.configuration.mpi_default;
  launcher.set("mpi", mpi.empty() || mpi == "none" || mpi == "(null)" ? "pmix" : mpi);
  Value& can = site.set("can", Value::make_table());
  can.set("scrontab", facts.configuration.scrontab ? "yes" : "no");
  can.set("shared_nodes", usual && usual->exclusive ? "no" : "yes");
  Value classes = Value::make_table();
  for (const SlurmPartition& one : facts.partitions)
    classes.set(class_name(one.name), probed_class(one, usual_shape(facts.nodes, one.name), shape));
  site.set("classes", std::move(classes));
  Value& sources = site.set("sources", Value::make_table());
  for (const char* path : {"default_class", "partitions", "node", "ask", "can", "classes"})
    if (site.find(path)) sources.set(path, source);
  return "# Written by `longhaul sites probe`: what slurmctld says. Only people know the rest; `longhaul doctor "
         "--site " +
         name +
         "`\n# asks about it: account and account_required, ask.forbid and ask.cpus_per_gpu of the submit filter, "
         "modules and "
         "environment\n# of the network, container.runtime, paths, can.submit_from_compute, can.no_kill, can.exclude, "
         "can.internet.\n" +
         (hidden ? "# It shows you no nodes (PrivateData=nodes): write [node] and [ask] yourself, or have `longhaul "
                   "doctor --job` look at one.\n"
                 : "") +
         to_toml(site);
}

std::vector<SiteFinding> unverified_values(const Site& site) {
  std::vector<SiteFinding> findings;
  for (const auto& [path, origin] : site.origins) {
    if (origin.verified) continue;
    Value holder = Value::make_table();
    holder.set("x", origin.written);
    const std::string text = trim(to_toml(holder).substr(3));
    findings.push_back({SiteFinding::Kind::ask, path, text, origin.source,
                        "check it on the machine, then name its source in " + origin.site + ".toml", origin.where});
  }
  return findings;
}

std::vector<SiteFinding> compare_site(const Site& site, const ClusterFacts& facts) {
  std::vector<SiteFinding> findings = Comparison(site, facts).run();
  const auto ask = unverified_values(site);
  findings.insert(findings.end(), ask.begin(), ask.end());
  return findings;
}

}  // namespace longhaul
