#include "worker/doctor/node_facts.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "worker/launch/rank_cpus.h"

namespace longhaul {
namespace {

const Value& part(const Value& sight, const char* name) {
  static const Value none = Value::make_table();
  const Value* found = sight.find(name);
  return found && found->is_table() ? *found : none;
}

std::string answer_if(bool is) {
  return is ? "yes" : "no";
}

std::string size_text(std::int64_t count) {
  return count < 0 ? "unknown" : human_bytes(static_cast<double>(count));
}

// The least and the largest of a number over the agents; nothing where none has it.
struct Spread {
  std::int64_t least = -1, most = -1;
  bool any() const { return least >= 0; }
};
Spread spread_of(const std::vector<Value>& sights, const char* table, const char* key) {
  Spread spread;
  for (const Value& sight : sights) {
    const std::int64_t one = part(sight, table).get_integer(key, -1);
    if (one < 0) continue;
    if (!spread.any() || one < spread.least) spread.least = one;
    spread.most = std::max(spread.most, one);
  }
  return spread;
}

DoctorFact overlap(const DoctorOrder& order, const DoctorSights& sights) {
  if (order.agent_launcher.empty()) return {"agents_beside_ranks", "unknown", "one node has no agents' step"};
  if (static_cast<int>(sights.agents.size()) < order.nodes)
    return {"agents_beside_ranks", "no",
            format("{} of {} nodes had an agent: {}", sights.agents.size(), order.nodes, sights.agents_said)};
  if (!sights.beside || sights.ranks.empty())
    return {"agents_beside_ranks", "no", "the ranks' step did not start beside the agents': " + sights.ranks_said};
  return {"agents_beside_ranks", "yes",
          format("srun --overlap ran {} agents beside {} ranks", order.nodes, order.ranks)};
}

// What a lead relies on when an agent dies: that Slurm ends no other for it, and makes another step on its node.
DoctorFact killed_agent(const DoctorOrder& order, const DoctorSights& sights) {
  if (!sights.agent_killed) return {"killed_agent", "unknown", "no agent was there beside another one to be killed"};
  const int others = order.nodes - 1;
  const std::string stood = format("{} of the {} other{} went on", sights.stood, others, others == 1 ? "" : "s");
  if (sights.stood < others)
    return {"killed_agent", "no", "an agent was killed: " + stood + ", which leads expect of all"};
  if (sights.again_s < 0)
    return {"killed_agent", "no",
            "an agent was killed: " + stood + ", and no other one started on its node: " + sights.again_said};
  return {
      "killed_agent", "yes",
      format("an agent was killed: {}, and another one was at work on its node {:.1f} s later", stood, sights.again_s)};
}

DoctorFact ranks_started(const DoctorOrder& order, const DoctorSights& sights) {
  DoctorFact fact{"mpi_starts_ranks", "no", ""};
  std::set<std::string> ranks, by;
  for (const Value& rank : sights.ranks) {
    ranks.insert(part(rank, "place").get_string("rank"));
    by.insert(part(rank, "place").get_string("rank_by"));
  }
  if (static_cast<int>(ranks.size()) < order.ranks || !sights.ranks_done) {
    const bool by_srun = order.launcher.empty() || file_name(order.launcher.front()) == "srun";
    fact.detail =
        format("{}: {} of {} ranks came: {}", by_srun ? "--mpi=" + order.mpi : file_name(order.launcher.front()),
               ranks.size(), order.ranks, sights.ranks_said);
    return fact;
  }
  if (!order.launcher.empty() && file_name(order.launcher.front()) != "srun") {
    fact.answer = "yes";
    fact.detail =
        format("{} started {} ranks on {} nodes", file_name(order.launcher.front()), order.ranks, order.nodes);
    return fact;
  }
  const bool answered = by.size() == 1 && (*by.begin() != "SLURM_PROCID" || order.mpi == "none");
  fact.answer = answer_if(answered);
  fact.detail = answered
                    ? format("--mpi={} started {} ranks on {} nodes, each with its {}", order.mpi, order.ranks,
                             order.nodes, *by.begin())
                    : format(
                          "--mpi={} started {} ranks, and gives them no knowledge of each other: MPI would start {} "
                          "times with one rank",
                          order.mpi, order.ranks, order.ranks);
  if (answered) fact.key = "launcher.mpi", fact.value = order.mpi;
  return fact;
}

DoctorFact gpus_of(const char* name, const char* who, int wanted, const std::vector<Value>& sights) {
  if (wanted == 0) return {name, "none", "the job asked for no GPUs"};
  if (sights.empty()) return {name, "unknown", format("no {} came", who)};
  int least = wanted;
  for (const Value& sight : sights) least = std::min(least, gpus_seen(part(sight, "place")));
  return {name, std::to_string(least), format("{} see {} of the {} GPUs of a node", who, least, wanted)};
}

const ValueArray& gpu_places_of(const Value& sight) {
  static const Value none = Value::make_array();
  const Value* places = part(sight, "place").find("gpu_places");
  return (places && places->is_array() ? *places : none).as_array();
}

// Agents see all GPUs of a node where Slurm shares them; where it does not, a rank may.
DoctorFact cpus_beside_gpus(const DoctorOrder& order, const DoctorSights& sights) {
  DoctorFact fact{"cpus_beside_gpus", "unknown", "NVIDIA's driver names no GPU of a node in its files"};
  if (order.gpus_per_node == 0) return {fact.name, "none", "the job asked for no GPUs"};
  std::set<std::vector<std::string>> nodes;
  for (const auto* all : {&sights.agents, &sights.ranks})
    for (const Value& sight : *all) {
      std::vector<std::string> cpus;
      for (const Value& gpu : gpu_places_of(sight)) cpus.push_back(gpu.get_string("cpus"));
      if (static_cast<int>(cpus.size()) == order.gpus_per_node) nodes.insert(std::move(cpus));
    }
  if (nodes.empty()) return fact;
  if (nodes.size() > 1) {
    fact.answer = "differs";
    fact.detail =
        "nodes have other CPUs beside their GPUs: " + join(*nodes.begin(), " ") + " and " + join(*nodes.rbegin(), " ");
    return fact;
  }
  const std::vector<std::string>& cpus = *nodes.begin();
  if (std::any_of(cpus.begin(), cpus.end(), [](const std::string& one) { return one.empty(); })) {
    fact.detail = "the kernel does not say which CPUs are beside the GPUs (local_cpulist)";
    return fact;
  }
  fact.answer = join(cpus, " "), fact.detail = "CPUs beside each GPU of a node, in CUDA's order";
  Value list = Value::make_array();
  for (const std::string& one : cpus) list.push_back(one);
  fact.key = "facts.gpu_cpus", fact.value = std::move(list);
  return fact;
}

// Ranks as the launcher starts them, before anything of ours moves them.
DoctorFact ranks_beside_gpus(const DoctorOrder& order, const DoctorSights& sights) {
  DoctorFact fact{"ranks_beside_gpus", "unknown", "no rank sees where its GPU is"};
  if (order.gpus_per_node == 0) return {fact.name, "none", "the job asked for no GPUs"};
  int known = 0, beside = 0;
  for (const Value& rank : sights.ranks) {
    const ValueArray& gpus = gpu_places_of(rank);
    const Value& place = part(rank, "place");
    const auto index = gpus.size() == 1 ? 0 : static_cast<std::size_t>(place.get_integer("local_rank"));
    const CpuNumbers now = read_cpu_numbers(place.get_string("cpus"));
    const CpuNumbers near = index < gpus.size() ? read_cpu_numbers(gpus[index].get_string("cpus")) : CpuNumbers();
    if (now.empty() || near.empty()) continue;
    ++known;
    beside += std::includes(near.begin(), near.end(), now.begin(), now.end());
  }
  if (known == 0) return fact;
  fact.answer = answer_if(beside == known);
  fact.detail = format("the launcher binds {} of {} ranks to CPUs beside their GPUs{}", beside, known,
                       beside == known ? "" : "; Longhaul moves ranks there where launcher.cpu_bind is empty");
  fact.key = "facts.gpus_bound", fact.value = fact.answer;
  return fact;
}

DoctorFact ports(const DoctorSights& sights, const DoctorOrder& order) {
  int pairs = 0, reached = 0, by_name = 0;
  std::string why;
  for (const Value& agent : sights.agents) {
    const Value* connects = part(agent, "pair").find("connects");
    if (!connects || !connects->is_array()) continue;
    std::set<std::int64_t> to, got, named;
    for (const Value& one : connects->as_array()) {
      to.insert(one.get_integer("to"));
      if (one.get_bool("ok")) got.insert(one.get_integer("to"));
      if (one.get_bool("ok") && one.get_string("how") == "name") named.insert(one.get_integer("to"));
      if (!one.get_bool("ok") && why.empty())
        why = one.get_string("host") + " by " + one.get_string("how") + ": " + one.get_string("why");
    }
    pairs += static_cast<int>(to.size()), reached += static_cast<int>(got.size());
    by_name += static_cast<int>(named.size());
  }
  if (pairs == 0) return {"ports_both_ways", "unknown", "there were no two nodes to try it"};
  DoctorFact fact{"ports_both_ways", answer_if(reached == pairs),
                  format("{} of {} ways between nodes are open to ports of {}, {} by the node's name{}", reached, pairs,
                         sights.ports.empty() ? "any" : sights.ports, by_name, why.empty() ? "" : "; " + why)};
  if (reached == pairs && !order.ports.empty()) fact.key = "network.ports", fact.value = order.ports;
  return fact;
}

void add_file_system(const DoctorSights& sights, std::vector<DoctorFact>& facts) {
  std::int64_t exclusive = 0, linked = 0, torn = 0, rounds = 0;
  int off_least = 0, off_most = 0, modes_wrong = 0, modes = 0;
  double seen_s = 0;
  bool met = !sights.agents.empty(), first = true;
  std::string wrong;
  for (const Value& agent : sights.agents) {
    const Value& pair = part(agent, "pair");
    met = met && pair.get_bool("met") && pair.find("rounds");
    exclusive += pair.get_integer("exclusive"), linked += pair.get_integer("linked");
    torn += pair.get_integer("torn"), rounds = std::max(rounds, pair.get_integer("rounds"));
    seen_s = std::max(seen_s, pair.get_number("seen_after_s"));
    const int off = static_cast<int>(pair.get_integer("file_clock_off_ms"));
    off_least = first ? off : std::min(off_least, off), off_most = first ? off : std::max(off_most, off);
    first = false;
    if (const Value* all = pair.find("modes"); all && all->is_array())
      for (const Value& one : all->as_array()) {
        ++modes;
        if (!one.get_bool("ok")) ++modes_wrong, wrong = one.get_string("mode");
      }
  }
  if (!met) {
    facts.push_back({"shared_files", "unknown", "the nodes did not meet in the folder of the run within the time"});
    return;
  }
  facts.push_back({"exclusive_create", answer_if(exclusive == rounds),
                   format("{} of {} names were won, once each, by nodes that raced for them", exclusive, rounds)});
  facts.push_back({"exclusive_link", answer_if(linked == rounds), format("{} of {} names by link(2)", linked, rounds)});
  facts.push_back(
      {"whole_renames", answer_if(torn == 0), format("{} reads of a file that was renamed over were torn", torn)});
  facts.push_back({"modes_survive", answer_if(modes > 0 && modes_wrong == 0),
                   modes_wrong == 0 ? "a file of mode 0600 is 0600 on every node"
                                    : "a file of mode 0600 is " + wrong + " on another node: an ACL, perhaps"});
  facts.push_back({"files_seen_after", format("{:.2f} s", seen_s), "until every node saw the files of the others"});
  facts.push_back({"clock_skew", format("{} ms", off_most - off_least),
                   format("between nodes; against the file system {} to {} ms", off_least, off_most)});
}

void add_sizes(const DoctorOrder& order, const DoctorSights& sights, std::vector<DoctorFact>& facts) {
  const Spread cpus = spread_of(sights.agents, "node", "cpus"), memory = spread_of(sights.agents, "node", "memory");
  const Spread threads = spread_of(sights.agents, "node", "threads_per_core");
  const Spread shm = spread_of(sights.agents, "node", "shm"), limit = spread_of(sights.agents, "node", "memory_limit");
  if (cpus.any() && cpus.least == cpus.most)
    facts.push_back({"processors", std::to_string(cpus.least),
                     format("of a node, {} thread{} a core", threads.least, threads.least == 1 ? "" : "s")});
  if (memory.any()) facts.push_back({"memory", size_text(memory.least), "of a node"});
  facts.push_back({"memory_limit", limit.any() ? size_text(limit.least) : "none", "of the job's cgroup on a node"});
  facts.push_back({"shm", size_text(shm.least), "of /dev/shm; heartbeat pages and node-local copies lie there"});
  std::set<std::string> archs;
  for (const Value& agent : sights.agents) archs.insert(part(agent, "node").get_string("arch"));
  if (archs.size() == 1) {
    DoctorFact arch{"arch", *archs.begin(), "of the nodes' processors"};
    arch.key = "node.arch", arch.value = *archs.begin();
    facts.push_back(std::move(arch));
  }
  if (order.node_local.empty()) return;
  bool good = !sights.agents.empty();
  std::int64_t entries = 0, space = -1;
  for (const Value& agent : sights.agents) {
    const Value& local = part(part(agent, "node"), "node_local");
    good = good && local.get_bool("there") && local.get_bool("writable");
    entries = std::max(entries, local.get_integer("entries"));
    space = local.get_integer("bytes", -1);
  }
  DoctorFact fact{"node_local", answer_if(good),
                  good ? format("{}: {}, {} entries at the job's start", order.node_local, size_text(space), entries)
                       : order.node_local + " is not there, or cannot be written to"};
  if (good) fact.key = "paths.node_local", fact.value = order.node_local;
  facts.push_back(std::move(fact));
}

}  // namespace

int gpus_seen(const Value& place) {
  if (const std::int64_t nvml = place.get_integer("nvml", -1); nvml >= 0) return static_cast<int>(nvml);
  if (const std::int64_t devices = place.get_integer("devices"); devices > 0) return static_cast<int>(devices);
  return static_cast<int>(std::max<std::int64_t>(0, place.get_integer("named")));
}

std::vector<DoctorFact> facts_of_nodes(const DoctorOrder& order, const DoctorSights& sights) {
  std::vector<DoctorFact> facts = {overlap(order, sights),
                                   ranks_started(order, sights),
                                   killed_agent(order, sights),
                                   gpus_of("gpus_seen_by_agents", "agents", order.gpus_per_node, sights.agents),
                                   gpus_of("gpus_seen_by_ranks", "ranks", order.gpus_per_node, sights.ranks),
                                   cpus_beside_gpus(order, sights),
                                   ranks_beside_gpus(order, sights),
                                   ports(sights, order)};
  add_file_system(sights, facts);
  add_sizes(order, sights, facts);
  if (!order.modules.empty()) {
    DoctorFact modules{"modules", "yes", "loaded on the first node: " + join(order.modules, " ")};
    Value list = Value::make_array();
    for (const std::string& one : order.modules) list.push_back(one);
    modules.key = "modules", modules.value = std::move(list);
    facts.push_back(std::move(modules));
  }
  return facts;
}

}  // namespace longhaul
