#include "orchestrator/job/job_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/settings/job/resumable.h"
#include "orchestrator/job/job_class.h"
#include "orchestrator/job/job_options_check.h"
#include "orchestrator/job/job_wall.h"
#include "orchestrator/job/launcher_arguments.h"
#include "orchestrator/job/sbatch_text.h"
#include "orchestrator/job/stage_wall.h"
#include "orchestrator/job/step_plan.h"

namespace longhaul {
namespace {

constexpr double final_signal_s = 60;   // what the lead of a job that cannot go on needs to write its record
constexpr double signal_max_s = 65535;  // of --signal

// A value with the place it was decided at.
struct Chosen {
  std::string value, origin;
  SourcePos where;
  bool by_user = false;
};

class JobPlanner {
 public:
  JobPlanner(const Site& site, const PlannedStage& stage, Diagnostics& diagnostics)
      : site_(site), config_(site.config), stage_(stage), job_(stage.common.job), diagnostics_(diagnostics) {}

  JobPlan run() {
    choose_class();
    plan_shape();
    plan_wall();
    if (config_.is_slurm()) {
      plan_routing();
      plan_resources();
      plan_behaviour();
      plan_options();
      plan_launcher();
    }
    plan_container();
    plan_modules();
    plan_environment();
    return std::move(plan_);
  }

 private:
  std::string name(const std::string& key) const { return "stage." + stage_.stage + "." + key; }
  std::string class_path(const std::string& key) const { return "classes." + class_.name + "." + key; }
  std::string site_text() const { return "site '" + config_.name + "'"; }

  void problem(const std::string& key, const std::string& what, const std::string& hint) {
    diagnostics_.add(stage_.place_of(key), what, hint);
  }
  SourcePos site_place(const std::string& path) const {
    const auto found = site_.origins.find(path);
    if (found != site_.origins.end()) return found->second.where;
    return {site_.files.empty() ? "site " + config_.name : site_.files.front(), 0, 0};
  }
  Chosen of_user(const std::string& value, const std::string& key) const {
    return {value, "workflow: " + name(key), stage_.place_of(key), true};
  }
  Chosen of_site(const std::string& value, const std::string& path) const {
    return {value, site_.origin_of(path), site_place(path), false};
  }
  // The stage's word, else its class's, else the site's.
  Chosen choose(const std::string& user, const std::string& key, const std::string& of_class,
                const std::string& class_key, const std::string& of_all = {}, const std::string& path = {}) const {
    if (!user.empty()) return of_user(user, key);
    if (!of_class.empty()) return of_site(of_class, class_path(class_key));
    if (!of_all.empty()) return of_site(of_all, path);
    return {};
  }
  bool yes(const Chosen& chosen) const { return chosen.value == "yes"; }

  void add(const std::string& option, const Chosen& chosen) {
    if (const auto word = sbatch_quoted(chosen.value); !word.ok()) {
      diagnostics_.add(chosen.where, "--" + option + ": " + word.error().what, word.error().hint);
      return;
    }
    if (std::find(config_.ask.forbid.begin(), config_.ask.forbid.end(), option) != config_.ask.forbid.end()) {
      diagnostics_.add(chosen.where, site_text() + " refuses jobs with --" + option,
                       chosen.by_user ? "remove it" : "take it from the site file, or from its ask.forbid");
      return;
    }
    plan_.directives.push_back({option, chosen.value, chosen.origin});
  }
  void add_if(const std::string& option, const Chosen& chosen) {
    if (!chosen.value.empty()) add(option, chosen);
  }

  void choose_class();
  void plan_shape();
  void plan_ranks();
  void plan_spares();
  void plan_gpus(bool exclusive);
  void plan_cpus();
  void plan_step_cpus(int share, int of_node, bool ratio_binds);
  void plan_wall();
  void plan_routing();
  void plan_resources();
  void plan_behaviour();
  void plan_options();
  void plan_launcher();
  void plan_container();
  void plan_modules();
  void plan_environment();
  void add_gpus();
  Chosen exclusive() const {
    return choose(job_.exclusive, "job.exclusive", class_.exclusive, "exclusive", config_.ask.exclusive ? "yes" : "",
                  "ask.exclusive");
  }

  const Site& site_;
  const SiteConfig& config_;
  const PlannedStage& stage_;
  const JobOptions& job_;
  Diagnostics& diagnostics_;
  JobClass class_;
  JobPlan plan_;
  std::vector<CommandStep> asked_;  // of several programs
  std::string wall_path_;           // what of the site decided the wall time; "": the stage's own time limit
  std::string wall_origin_;         // or what else did
};

void JobPlanner::choose_class() {
  class_ = job_class_of(config_, stage_);
  if (!job_.job_class.empty() && class_.name.empty() && config_.is_slurm()) {
    std::vector<std::string> names;
    for (const JobClass& one : config_.classes) names.push_back(one.name);
    const std::string nearest = nearest_word(job_.job_class, names);
    problem("job.class", site_text() + " has no class '" + job_.job_class + "'",
            !nearest.empty() ? "did you mean '" + nearest + "'?"
            : names.empty()  ? "its file has no [classes.NAME]"
                             : "classes: " + join(names, ", "));
  }
  plan_.job_class = class_.name;
  plan_.running_max = class_.max_running;
}

void JobPlanner::plan_shape() {
  plan_.nodes = stage_.common.nodes;
  asked_ = steps_asked(stage_);
  plan_.steps = lay_out_steps(asked_, plan_.nodes, !config_.is_slurm());
  plan_ranks();
  plan_spares();
  if (config_.is_slurm() && class_.max_nodes > 0 && plan_.nodes + plan_.spares > class_.max_nodes)
    problem("nodes",
            format("{} = {}{}: a job of the class '{}' of {} has at most {} node{}", name("nodes"), plan_.nodes,
                   plan_.spares > 0 ? format(" and {} of spares", plan_.spares) : "", class_.name, site_text(),
                   class_.max_nodes, class_.max_nodes == 1 ? "" : "s"),
            "use fewer nodes, or another job.class");
  if (config_.is_slurm() && plan_.nodes < class_.min_nodes)
    problem("nodes",
            format("{} = {}: a job of the class '{}' of {} has at least {} nodes", name("nodes"), plan_.nodes,
                   class_.name, site_text(), class_.min_nodes),
            "use more nodes, or another job.class");
  plan_gpus(yes(exclusive()));
  plan_cpus();
}

void JobPlanner::plan_ranks() {
  if (!plan_.steps.empty()) {
    plan_.ranks_per_node = ranks_on_node(plan_.steps);
    plan_.ranks = plan_.ranks_per_node * plan_.nodes;
    return;
  }
  plan_.ranks = stage_.common.ranks;
  plan_.ranks_per_node = job_.ranks_per_node > 0 ? job_.ranks_per_node : std::max(1, plan_.ranks / plan_.nodes);
  if (plan_.ranks_per_node * plan_.nodes != plan_.ranks)
    problem(job_.ranks_per_node > 0 ? "job.ranks_per_node" : "ranks",
            format("{} = {} on {} node{} is not {} a node", name("ranks"), plan_.ranks, plan_.nodes,
                   plan_.nodes == 1 ? "" : "s", plan_.ranks_per_node),
            format("use nodes = {}, or ranks = {}", std::max(1, plan_.ranks / plan_.ranks_per_node),
                   plan_.ranks_per_node * plan_.nodes));
}

void JobPlanner::plan_gpus(bool exclusive) {
  const bool known = class_.gpus_per_node >= 0 || site_.origins.count("node.gpus") > 0;
  const int of_node = gpus_of_class(config_, class_);
  const bool whole = exclusive || config_.can.shared_nodes == "no" || config_.ask.gpu_request == "none";
  const int wanted = plan_.steps.empty() ? plan_.ranks_per_node : gpus_wanted(asked_, plan_.steps, of_node);
  plan_.gpus_per_node = whole ? of_node : known ? std::min(of_node, wanted) : plan_.steps.empty() ? 0 : wanted;
  if (job_.gpus_per_node >= 0) plan_.gpus_per_node = job_.gpus_per_node;
  if (config_.is_slurm())
    if (const auto over = share_gpus(asked_, plan_.gpus_per_node, plan_.steps))
      problem(over->key, over->what, over->hint);
  if (known && config_.is_slurm() && job_.gpus_per_node > of_node)
    problem("job.gpus_per_node",
            format("{} = {}: nodes of {} have {} for the class '{}'", name("job.gpus_per_node"), job_.gpus_per_node,
                   site_text(), of_node, class_.name),
            format("use {} or fewer", of_node));
}

// A rank gets the CPUs of its GPUs, or an even share of the node, and never fewer than its threads.
void JobPlanner::plan_cpus() {
  const int of_node = class_.cores > 0 ? class_.cores * config_.node.threads_per_core : config_.node.cpus();
  const int node_gpus = gpus_of_class(config_, class_);
  const int asked_per_gpu = class_.cpus_per_gpu >= 0 ? class_.cpus_per_gpu : config_.ask.cpus_per_gpu;
  int threads = stage_.common.threads;
  for (std::size_t i = 0; i < asked_.size(); ++i)  // 0: somebody wants a share
    threads = i == 0 ? asked_[i].threads : std::min(threads, asked_[i].threads);
  int share = 1;  // CPUs of a node that this job takes
  if (plan_.gpus_per_node > 0 && asked_per_gpu > 0)
    share = plan_.gpus_per_node * asked_per_gpu;
  else if (plan_.gpus_per_node > 0 && node_gpus > 0 && of_node > 0)
    share = of_node * std::min(plan_.gpus_per_node, node_gpus) / node_gpus;
  else if (of_node > 0 && threads == 0)
    share = of_node;
  const bool ratio_binds = plan_.gpus_per_node > 0 && asked_per_gpu > 0;
  if (!plan_.steps.empty()) return plan_step_cpus(share, of_node, ratio_binds);
  const int per_rank = ratio_binds ? (share + plan_.ranks_per_node - 1) / plan_.ranks_per_node
                                   : std::max(1, share / plan_.ranks_per_node);
  plan_.cpus_per_rank = std::max({1, threads, per_rank});
  if (!config_.is_slurm() || of_node == 0 || plan_.cpus_per_rank * plan_.ranks_per_node <= of_node) return;
  if (threads >= per_rank || !ratio_binds)
    problem("threads",
            format("{} ranks x {} CPUs on a node: nodes of {} have {}", plan_.ranks_per_node, plan_.cpus_per_rank,
                   site_text(), of_node),
            format("use threads = {}, or {} of these ranks on a node",
                   std::max(1, of_node / std::max(1, plan_.ranks_per_node)),
                   std::max(1, of_node / std::max(1, plan_.cpus_per_rank))));
  else
    problem("ranks",
            format("{} ranks cannot share {} GPUs with {} CPUs each evenly on nodes of {} CPUs", plan_.ranks_per_node,
                   plan_.gpus_per_node, asked_per_gpu, of_node),
            "use as many ranks on a node as GPUs, or one");
}

void JobPlanner::plan_step_cpus(int share, int of_node, bool ratio_binds) {
  share_cpus(asked_, share, config_.node.threads_per_core, plan_.steps);
  const int needed = std::max(cpus_on_node(plan_.steps), ratio_binds ? share : 1);
  const bool by_task = config_.ask.gpu_request == "gpus_per_task" && plan_.gpus_per_node % plan_.ranks_per_node != 0;
  if (needed % plan_.ranks_per_node != 0 || by_task) plan_.ranks_per_node = 1;  // one place for all
  plan_.ranks = plan_.nodes * plan_.ranks_per_node;
  plan_.cpus_per_rank = needed / plan_.ranks_per_node;
  if (config_.is_slurm() && of_node > 0 && needed > of_node)
    problem("step", format("the steps need {} CPUs on a node: nodes of {} have {}", needed, site_text(), of_node),
            "use fewer ranks or threads in a step");
}

void JobPlanner::plan_wall() {
  plan_.resumable = is_resumable(stage_.kind, job_);
  if (job_.resumable == "yes" && !plan_.resumable) {
    problem("job.resumable", name("job.resumable") + ": a " + stage_.kind + " stage keeps no state between jobs",
            "remove it");
  }
  const double asked = stage_.common.time_limit.value;
  plan_.wall_s = asked;
  if (!config_.is_slurm()) return;
  const int nodes = plan_.nodes + plan_.spares;
  const JobWall wall = choose_wall(config_, class_, nodes, asked, plan_.resumable);
  plan_.wall_s = wall.wall_s;
  plan_.chain = wall.chain;
  wall_path_ = wall.decided_by;
  const double by_forecast = wall_by_forecast(stage_.forecast_s);
  if (asked == 0 && stage_.forecast_s > 0 && !plan_.resumable && by_forecast < wall.wall_s) {
    plan_.longer_wall_s = wall.wall_s, plan_.wall_s = by_forecast;
    wall_origin_ = format("a forecast of {}, times {:g}, at least {}", human_duration(stage_.forecast_s),
                          forecast_wall_factor, human_duration(forecast_wall_min_s));
  }
  if (wall.too_many_nodes)
    problem("nodes",
            format("{} nodes: a job of the class '{}' of {} has at most {} node-minutes", nodes, class_.name,
                   site_text(), class_.max_node_minutes),
            "use fewer nodes, or another job.class");
  if (wall.too_long)
    problem("time_limit",
            name("time_limit") + " = " + sbatch_time(asked) + ": a job of the class '" + class_.name + "' of " +
                site_text() + " ends after " + sbatch_time(wall.longest_s) + ", and a " + stage_.kind +
                " stage cannot go on in another job",
            stage_.kind == "command" ? "use less, another job.class, or job.resumable = \"yes\" if the program goes on "
                                       "from its own saved state"
                                     : "use less, or another job.class");
  if (plan_.wall_s <= 0) return;
  const bool by_user = job_.stop_before.value > 0;
  plan_.stop_before_s = by_user ? job_.stop_before.value : std::min(config_.stop_before.value, plan_.wall_s / 4);
  if (!by_user && !plan_.resumable) plan_.stop_before_s = std::min(plan_.stop_before_s, final_signal_s);
  if (by_user && (plan_.stop_before_s >= plan_.wall_s || plan_.stop_before_s > signal_max_s))
    problem("job.stop_before",
            name("job.stop_before") + " = " + sbatch_time(plan_.stop_before_s) + " of a job of " +
                sbatch_time(plan_.wall_s),
            "use less than the job's time, and at most 18 hours");
}

void JobPlanner::plan_routing() {
  const Chosen account = choose(job_.account, "job.account", class_.account, "account", config_.account, "account");
  const Chosen suffix =
      choose("", "", class_.account_suffix, "account_suffix",
             class_.account.empty() || account.by_user ? config_.account_suffix : "", "account_suffix");
  if (account.value.empty() && config_.account_required) {
    diagnostics_.add(SourcePos{site_.files.empty() ? config_.name : site_.files.front(), 0, 0},
                     site_text() + " takes no job without an account",
                     "add --set 'site.account=\"NAME\"', or a site file of your own with inherits = \"" + config_.name +
                         "\" and account = \"NAME\", or job = { account = \"NAME\" } to the stage");
  } else if (!account.value.empty()) {
    Chosen whole = account;
    if (!suffix.value.empty() && !ends_with(account.value, suffix.value)) {
      whole.value += suffix.value;
      whole.origin += "; '" + suffix.value + "': " + suffix.origin;
    }
    add("account", whole);
  }
  const Chosen partition = choose(job_.partition, "job.partition", class_.partition, "partition");
  plan_.partition = partition.value;
  if (partition.by_user && !config_.partitions.empty())
    for (const std::string& one : split(partition.value, ','))
      if (std::find(config_.partitions.begin(), config_.partitions.end(), one) == config_.partitions.end()) {
        const std::string nearest = nearest_word(one, config_.partitions);
        problem("job.partition", site_text() + " has no partition '" + one_line(one) + "'",
                nearest.empty() ? "partitions: " + join(config_.partitions, ", ") : "did you mean '" + nearest + "'?");
      }
  add_if("partition", partition);
  add_if("qos", choose(job_.qos, "job.qos", class_.qos, "qos"));
  add_if("constraint", choose(job_.constraint, "job.constraint", class_.constraint, "constraint"));
  add_if("reservation", choose(job_.reservation, "job.reservation", class_.reservation, "reservation"));
  add_if("licenses", of_user(job_.licenses, "job.licenses"));
}

// A spare takes the place of a node that fails: another launch, on other nodes of the same job.
void JobPlanner::plan_spares() {
  const int spares = stage_.common.resiliency.spares;
  if ((spares == 0 && !stage_.common.resiliency.shrink) || !config_.is_slurm()) return;
  const std::string where = spares > 0 ? "resiliency.spares" : "resiliency.shrink";
  if (spares > plan_.nodes)
    problem(where, format("{} = {}: more spares than the {} nodes that work", name(where), spares, plan_.nodes),
            "a spare for every node is the most that can be used");
  if (!plan_.steps.empty()) problem(where, "several programs in one job have nodes of their own", "remove it");
  plan_.spares = spares;
}

void JobPlanner::plan_resources() {
  const auto common = [&](const std::string& key, int value) {
    Chosen chosen = of_user(std::to_string(value), key);
    if (!stage_.asked.is_null() && !stage_.asked.find(key)) chosen.origin = "default: " + name(key);
    if (!plan_.steps.empty() && (key != "nodes" || plan_.steps.front().own_nodes))
      chosen.origin = "workflow: " + name("step");
    return chosen;
  };
  if (plan_.spares > 0) {
    add("nodes", of_user(std::to_string(plan_.nodes + plan_.spares), "resiliency.spares"));
    add("ntasks", {std::to_string(plan_.ranks_per_node * (plan_.nodes + plan_.spares)), "room for ranks on spares, too",
                   stage_.where, false});
  } else {
    add("nodes", common("nodes", plan_.nodes));
    add("ntasks", common("ranks", plan_.ranks));
  }
  add("ntasks-per-node",
      job_.ranks_per_node > 0
          ? of_user(std::to_string(plan_.ranks_per_node), "job.ranks_per_node")
          : Chosen{std::to_string(plan_.ranks_per_node),
                   plan_.steps.empty() ? "ranks / nodes" : "room for the steps on each node", stage_.where, false});
  Chosen cpus{std::to_string(plan_.cpus_per_rank),
              plan_.steps.empty() ? "an even share of the node's CPUs" : "room for the steps on each node",
              stage_.where, false};
  if (plan_.cpus_per_rank == stage_.common.threads) cpus = common("threads", plan_.cpus_per_rank);
  if (plan_.cpus_per_rank != stage_.common.threads && plan_.gpus_per_node > 0) {
    if (class_.cpus_per_gpu > 0) cpus.origin = site_.origin_of(class_path("cpus_per_gpu"));
    if (class_.cpus_per_gpu < 0 && config_.ask.cpus_per_gpu > 0) cpus.origin = site_.origin_of("ask.cpus_per_gpu");
  }
  add("cpus-per-task", cpus);
  add_gpus();
  Chosen memory = choose(job_.memory, "job.memory", class_.memory, "memory", config_.ask.memory, "ask.memory");
  if (memory.value.empty() && config_.ask.memory_per_gpu.value > 0 && plan_.gpus_per_node > 0)
    memory = of_site(format("{}M", config_.ask.memory_per_gpu.value * plan_.gpus_per_node >> 20), "ask.memory_per_gpu");
  if (!memory.value.empty() && !is_slurm_memory(memory.value))
    diagnostics_.add(memory.where, "'" + one_line(memory.value) + "' is not an amount of memory",
                     "a number with K, M, G or T, for example \"200G\"; \"0\" is all of a node's");
  else
    add_if("mem", memory);
  if (const Chosen whole = exclusive(); yes(whole)) add("exclusive", {"", whole.origin, whole.where, whole.by_user});
  if (!job_.exclude.empty() && config_.can.exclude == "no")
    problem("job.exclude", site_text() + " refuses jobs that name nodes", "remove job.exclude");
  add_if("exclude", of_user(job_.exclude, "job.exclude"));
  if (!job_.switches.empty() && !is_slurm_switches(job_.switches))
    problem("job.switches", "'" + one_line(job_.switches) + "' is not a number of switches",
            "for example \"1\" or \"1@01:00:00\"");
  else
    add_if("switches", of_user(job_.switches, "job.switches"));
  if (job_.segment > 0) {
    if ((plan_.nodes + plan_.spares) % job_.segment != 0)
      problem("job.segment", format("{} nodes are not whole segments of {}", plan_.nodes + plan_.spares, job_.segment),
              "use a number that divides nodes");
    add("segment", of_user(std::to_string(job_.segment), "job.segment"));
  }
}

void JobPlanner::add_gpus() {
  const std::string& request = config_.ask.gpu_request;
  if (plan_.gpus_per_node == 0 || request == "none") return;
  Chosen chosen{"", "", stage_.where, false};
  if (job_.gpus_per_node >= 0)
    chosen = of_user("", "job.gpus_per_node");
  else
    chosen.origin =
        class_.gpus_per_node >= 0 ? site_.origin_of(class_path("gpus_per_node")) : site_.origin_of("node.gpus");
  chosen.origin += "; " + site_.origin_of("ask.gpu_request");
  const std::string type = config_.ask.gpu_type.empty() ? "" : config_.ask.gpu_type + ":";
  int count = plan_.gpus_per_node;
  std::string option = replace_all(request, "_", "-");
  if (request == "gpus") count *= plan_.nodes + plan_.spares;
  if (request == "gpus_per_task") {
    if (count % plan_.ranks_per_node != 0) {
      problem("ranks", format("{} GPUs of a node cannot be given evenly to {} ranks", count, plan_.ranks_per_node),
              "use as many ranks as GPUs");
      return;
    }
    count /= plan_.ranks_per_node;
  }
  chosen.value = (request == "gres" ? "gpu:" : "") + type + std::to_string(count);
  add(option, chosen);
}

void JobPlanner::plan_behaviour() {
  if (plan_.wall_s > 0) {
    Chosen wall = wall_path_.empty() ? of_user("", "time_limit") : of_site("", wall_path_);
    if (!wall_origin_.empty()) wall.origin = wall_origin_;
    wall.value = sbatch_time(plan_.wall_s);
    add("time", wall);
  }
  if (plan_.stop_before_s >= 1) {
    Chosen signal = job_.stop_before.value > 0 ? of_user("", "job.stop_before") : of_site("", "stop_before");
    if (job_.stop_before.value == 0 && plan_.stop_before_s < config_.stop_before.value)
      signal.origin += plan_.resumable ? ", a quarter of the job at most" : ", 60 s at most where nothing is saved";
    signal.value = format("B:USR1@{:.0f}", std::floor(plan_.stop_before_s));
    add("signal", signal);
  }
  plan_.requeue = job_.requeue.empty() ? config_.ask.requeue : job_.requeue == "yes";
  if (plan_.requeue && config_.can.requeue == "no")
    problem("job.requeue", site_text() + " lets no job be requeued", "remove it");
  Chosen requeue = job_.requeue.empty() ? of_site("", "ask.requeue") : of_user("", "job.requeue");
  add(plan_.requeue ? "requeue" : "no-requeue", requeue);
  if (const std::string key = outlives_nodes_by(stage_.common); !key.empty()) {
    if (config_.can.no_kill == "no") problem(key, site_text() + " ends every job that loses a node", "remove " + key);
    add("no-kill", of_user("", key));
  }
}

void JobPlanner::plan_options() {
  const auto take = [&](const std::vector<std::string>& options, const std::string& origin, const SourcePos& where,
                        bool by_user) {
    for (const std::string& text : options) {
      const auto option = parse_job_option(text, config_.identity == "name");
      if (!option.ok()) {
        diagnostics_.add(where, option.error().what, option.error().hint);
        continue;
      }
      // One --gres line holds all: the GPUs and what else a node has.
      const auto gres = std::find_if(plan_.directives.begin(), plan_.directives.end(),
                                     [](const Directive& d) { return d.option == "gres"; });
      if (option->option == "gres" && gres != plan_.directives.end()) {
        Chosen both{gres->value + "," + option->value, gres->origin + "; " + origin, where, by_user};
        plan_.directives.erase(gres);
        add("gres", both);
        continue;
      }
      if (std::any_of(plan_.directives.begin(), plan_.directives.end(),
                      [&](const Directive& d) { return d.option == option->option; })) {
        diagnostics_.add(where, "--" + option->option + " is set already", "remove it here");
        continue;
      }
      add(option->option, {option->value, origin, where, by_user});
    }
  };
  take(config_.ask.options, site_.origin_of("ask.options"), site_place("ask.options"), false);
  take(class_.options, site_.origin_of(class_path("options")), site_place(class_path("options")), false);
  take(job_.options, "workflow: " + name("job.options"), stage_.place_of("job.options"), true);
}

void JobPlanner::plan_launcher() {
  const bool in_step = !job_.container.empty() && srun_starts_container(config_.container.runtime);
  const bool steps = !plan_.steps.empty();
  plan_.calls_mpi = calls_mpi(stage_);
  if (config_.launcher.kind == "srun" && steps) {
    for (JobStep& step : plan_.steps) step.launcher = step_launcher(step, config_, plan_.gpus_per_node, job_.no_kill);
    return;
  }
  if (steps && plan_.nodes > 1)
    problem("step", "steps on several nodes are started by srun, and " + site_text() + " has another launcher",
            "use one node, or set launcher.kind = \"srun\" in the site file");
  const bool by_mpirun = config_.launcher.kind != "srun";
  if (by_mpirun && in_step)
    problem("job.container", "containers of " + site_text() + " are started by srun, its ranks by mpirun",
            "remove it, or set launcher.kind = \"srun\" in the site file");
  // On one node the lead calls mpirun itself.
  const bool on_one_node = plan_.nodes + plan_.spares == 1;
  if (steps || (by_mpirun && on_one_node) || (plan_.ranks == 1 && !in_step && plan_.spares == 0)) return;
  plan_.launcher = rank_launcher(plan_, config_, !outlives_nodes_by(stage_.common).empty());
  if (plan_.nodes + plan_.spares > 1)
    plan_.agent_launcher = agent_launcher(plan_.nodes + plan_.spares, config_, plan_.gpus_per_node);
}

void JobPlanner::plan_container() {
  if (job_.container.empty()) {
    if (!job_.mounts.empty())
      problem("job.mounts", name("job.mounts") + " without job.container", "remove it, or name a container");
    return;
  }
  const std::string& runtime = config_.container.runtime;
  if (runtime == "none") {
    problem("job.container", site_text() + " says no container runtime",
            "set container.runtime in the site file: pyxis, apptainer, singularity, podman-hpc, shifter or cscs-edf");
    return;
  }
  const std::string& image = job_.container;
  if (!is_one_line(image) || starts_with(image, "-"))
    problem("job.container", "'" + one_line(image) + "' cannot name an image", "use a path or the name of an image");
  else if (starts_with(image, "./") || starts_with(image, "../"))
    problem("job.container", "the image " + image + " is a relative path", "write the whole path");
  else if (starts_with(image, "/") && is_surely_absent(image))
    problem("job.container", "the image " + image + " does not exist", "make or copy it first");
  std::vector<std::string> mounts = config_.container.mounts;
  mounts.insert(mounts.end(), job_.mounts.begin(), job_.mounts.end());
  for (const std::string& mount : job_.mounts)
    if (!is_one_line(mount) || mount.find(',') != std::string::npos || mount.find(':') == std::string::npos ||
        starts_with(mount, ":"))
      problem("job.mounts", "'" + one_line(mount) + "' is not SRC:DST", "without commas and line ends");
  if (runtime == "cscs-edf" && !job_.mounts.empty())
    problem("job.mounts", "an environment file of " + site_text() + " holds its own mounts", "write them there");
  plan_.container_image = image;
  plan_.container_mounts = mounts;
  plan_.container = container_arguments(config_, image, mounts, plan_.gpus_per_node > 0);
}

void JobPlanner::plan_modules() {
  std::vector<std::string>& lines = plan_.prologue;
  const auto load = [&](const std::vector<std::string>& modules, const std::string& origin, const SourcePos& where) {
    if (modules.empty()) return;
    if (lines.empty()) lines = module_preamble();
    lines.push_back("# " + origin);
    for (const std::string& module : modules) {
      if (!is_module_name(module)) {
        diagnostics_.add(where, "'" + one_line(module) + "' cannot name a module",
                         "one module each, without blanks, for example \"cuda/12.6\"");
        continue;
      }
      lines.push_back("load_module " + shell_quote(module) + " || no_module " + shell_quote(module));
    }
  };
  if (config_.is_slurm()) load(config_.modules, site_.origin_of("modules"), site_place("modules"));
  load(job_.modules, "workflow: " + name("job.modules"), stage_.place_of("job.modules"));
  if (!lines.empty()) lines.emplace_back("set -eu");
}

void JobPlanner::plan_environment() {
  std::vector<std::string> origins;  // in the order in which they come up
  std::map<std::string, std::vector<std::string>> lines;
  const auto set_all = [&](const std::map<std::string, std::string>& environment, const std::string& key,
                           bool by_user) {
    for (const auto& [variable, value] : environment) {
      const std::string path = format("{}.{}", key, variable);
      if (const auto good = check_variable(variable, value); !good.ok()) {
        diagnostics_.add(by_user ? stage_.place_of(path) : site_place(path), good.error().what, good.error().hint);
        continue;
      }
      if (!by_user && job_.environment.count(variable) > 0) continue;
      const std::string from =
          by_user ? "workflow: " + name(key) : replace_all(site_.origin_of(path), "." + variable, "");
      if (lines[from].empty()) origins.push_back(from);
      lines[from].push_back("export " + variable + "=" + shell_quote(value));
    }
  };
  set_all(config_.environment, "environment", false);
  set_all(job_.environment, "job.environment", true);
  for (const std::string& origin : origins) {
    plan_.prologue.push_back("# " + origin);
    plan_.prologue.insert(plan_.prologue.end(), lines[origin].begin(), lines[origin].end());
  }
}

}  // namespace

JobPlan plan_job(const Site& site, const PlannedStage& stage, Diagnostics& diagnostics) {
  return JobPlanner(site, stage, diagnostics).run();
}

std::vector<JobPlan> plan_jobs(const Site& site, const RunPlan& plan, Diagnostics& diagnostics) {
  Diagnostics all;
  std::vector<JobPlan> jobs;
  jobs.reserve(plan.stages.size());
  for (const PlannedStage& stage : plan.stages) jobs.push_back(plan_job(site, stage, all));
  std::set<std::string> seen;
  for (const Error& error : all.errors())
    if (seen.insert(error.message()).second) diagnostics.add(error);
  return jobs;
}

}  // namespace longhaul
