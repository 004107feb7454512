#include "worker/doctor/job_look.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <functional>
#include <optional>
#include <vector>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/settings/job/port_range.h"
#include "worker/doctor/node_facts.h"
#include "worker/doctor/node_look.h"
#include "worker/doctor/pair_checks.h"
#include "worker/doctor/slurm_facts.h"
#include "worker/launch/agent_launcher.h"

namespace longhaul {
namespace {

constexpr std::int64_t command_ms = 20'000;  // of one command of Slurm
constexpr std::int64_t agents_ms = 60'000;   // until all are there
constexpr std::int64_t ranks_ms = 60'000;    // from their start to their end
constexpr std::int64_t meet_ms = 30'000;     // of agents, and of ranks
constexpr std::int64_t cancelled_ms = 120'000;
constexpr std::int64_t job_look_ms = 100;
constexpr std::int64_t stands_after_ms = 2'000;  // of the other agents, once one was killed
constexpr std::int64_t again_ms = 30'000;        // until another one is at work on its node
constexpr const char* go_home = "go-home";
constexpr const char* fall = "fall";  // the agent that it names in its text ends as if it were killed

std::string nodes_folder(const DoctorOrder& order) {
  return join_path(order.folder, "nodes");
}

// Where agents are to listen, as a lead would have it (contracts/records/attempt.h).
std::string ports_path(const DoctorOrder& order) {
  return join_path(order.folder, "ports");
}

std::string sight_path(const DoctorOrder& order, const std::string& role, int task) {
  return join_path(nodes_folder(order), format("{}-{}.json", role, task));
}

std::vector<Value> sights_of(const DoctorOrder& order, const std::string& role, int count) {
  std::vector<Value> sights;
  for (int task = 0; task < count; ++task) {
    const std::string path = sight_path(order, role, task);
    const auto text = read_file(path);
    if (const auto sight = text.ok() ? parse_json(*text, path) : Result<Value>(text.error()); sight.ok())
      sights.push_back(*sight);
  }
  return sights;
}

int count_files(const std::string& folder, const std::string& prefix) {
  const auto names = list_directory(folder);
  if (!names.ok()) return 0;
  return static_cast<int>(std::count_if(names->begin(), names->end(), [&](const std::string& name) {
    return starts_with(name, prefix) && name.find(".tmp") == std::string::npos;
  }));
}

std::string last_line(const std::string& path) {
  const auto text = read_file(path);
  if (!text.ok()) return "nothing was said";
  std::string last = "nothing was said";
  for (const std::string& line : split(*text, '\n'))
    if (!trim(line).empty()) last = trim(line);
  return last;
}

// A step of the job, ended with this object.
class Step {
 public:
  Step(std::vector<std::string> arguments, std::string log_path) {
    SpawnSpec spec;
    spec.argv = std::move(arguments);
    spec.stdout_path = spec.stderr_path = std::move(log_path);
    spec.own_group = true;
    if (::geteuid() == 0)  // mpirun refuses root otherwise, as it would the ranks of any job (rank_programs.cc)
      spec.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
    if (const auto pid = spawn(spec); pid.ok()) pid_ = *pid;
  }
  ~Step() {
    if (running()) ::kill(-pid_, SIGKILL);
    while (running()) {
    }
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  bool running() {
    if (pid_ <= 0) return false;
    const auto exit = poll_exit(pid_);
    if (exit.ok() && !exit->has_value()) return true;
    ended_well_ = exit.ok() && (*exit)->success();
    pid_ = -1;
    return false;
  }
  bool ended_well() const { return ended_well_; }

 private:
  pid_t pid_ = -1;
  bool ended_well_ = false;
};

class JobLook {
 public:
  JobLook(const DoctorOrder& order, std::string worker, const Variable& variable, const std::atomic<bool>& stop,
          Clock& clock, Logger& log)
      : order_(order), worker_(std::move(worker)), variable_(variable), stop_(stop), clock_(clock), log_(log) {}

  Status run() {
    LH_CHECK(make_directories(nodes_folder(order_)));
    ask_slurm();
    submit_from_inside();
    look_at_nodes();
    return wait_to_be_cancelled();
  }

 private:
  void add(std::vector<DoctorFact> facts) {
    for (DoctorFact& fact : facts) {
      log_.info(format("event=fact name={} answer='{}' detail='{}'", fact.name, fact.answer, fact.detail));
      facts_.push_back(std::move(fact));
    }
    if (const Status written = write_doctor_facts(order_.folder, facts_); !written.ok())
      log_.error("event=facts_not_written error='" + written.error().message() + "'");
  }

  // What it prints on either stream; `why`: that it does not.
  bool says(std::vector<std::string> arguments, std::string& said, std::string& why) const {
    SpawnSpec spec;
    spec.argv = std::move(arguments);
    const auto output = run_captured(std::move(spec), command_ms);
    if (!output.ok()) return why = output.error().message(), false;
    said = output->out, why = trim(output->err);
    if (!output->status.success() && why.empty()) why = output->status.text();
    return output->status.success();
  }

  void ask_slurm() {
    std::string config, why, listed, clusters;
    const bool has_config = says({"scontrol", "show", "config"}, config, why);
    add({{"scontrol_inside", has_config ? "yes" : "no", has_config ? "scontrol answers inside of the job" : why}});
    std::vector<std::string> known;
    std::string unused;
    if (says({"sacctmgr", "--noheader", "--parsable2", "show", "clusters", "format=Cluster"}, clusters, unused))
      for (const std::string& line : split(clusters, '\n'))
        if (!trim(line).empty()) known.push_back(trim(line));
    if (order_.ports.empty() && has_config) ports_ = slurm_port_range(config).text();
    (void)write_file_renamed(ports_path(order_), ports_).ok();  // without it agents listen anywhere
    if (has_config) add(facts_of_slurm(slurm_settings(config), known, !variable_("SLURM_JWT").empty()));
    if (!variable_("SLURM_STEPMGR").empty())
      add({{"stepmgr_of_job", variable_("SLURM_STEPMGR"), "this job's steps are made there: SLURM_STEPMGR is set"}});
    const std::string job = variable_("SLURM_JOB_ID");
    const bool asked = says({"squeue", "--noheader", "--jobs=" + job, "--format=%i %k"}, listed, why);
    add({{"squeue_inside", asked ? "yes" : "no", asked ? "squeue answers inside of the job" : why}});
    std::string plugins;
    const bool lists = says({"srun", "--mpi=list"}, plugins, why);
    const std::vector<std::string> all = mpi_plugins(plugins + "\n" + why);
    if (lists && !all.empty()) add({{"mpi_plugins", join(all, " "), "of srun --mpi=list"}});
  }

  // Held, and cancelled at once: that sbatch takes it is all that is asked.
  void submit_from_inside() {
    std::vector<std::string> arguments = order_.sbatch;
    const std::string script = join_path(order_.folder, "held.sbatch");
    if (arguments.empty() || !write_file_renamed(script, "#!/bin/sh\nexit 0\n", 0755).ok()) return;
    arguments.insert(arguments.end(), {"--hold", "--parsable", "--job-name=lh-doctor-held",
                                       "--output=" + join_path(order_.folder, "held.out"), script});
    SpawnSpec spec;
    spec.argv = arguments;
    spec.environment_removed = {"SLURM_*", "SBATCH_*"};
    spec.environment_kept = {"SLURM_CONF", "SLURM_JWT"};
    const auto output = run_captured(std::move(spec), command_ms);
    DoctorFact fact{"submit_from_compute", "unknown", "", "can.submit_from_compute", {}};
    if (!output.ok()) {
      fact.detail = output.error().message(), fact.key.clear();
      return add({fact});
    }
    std::string id;
    for (const std::string& line : split(output->out, '\n'))
      if (!trim(line).empty()) id = split(trim(line), ';').front();
    const bool took =
        output->status.success() && !id.empty() && id.find_first_not_of("0123456789") == std::string::npos;
    // A limit of how many jobs one may have says nothing of where they come from.
    const std::string slurm_text = trim(output->err + " " + output->out);
    const bool limit = !took && (slurm_text.find("MaxSubmit") != std::string::npos ||
                                 slurm_text.find("QOS policy") != std::string::npos);
    fact.answer = took ? "yes" : limit ? "unknown" : "no";
    if (limit)
      fact.key.clear();
    else
      fact.value = fact.answer;
    fact.detail = took ? "sbatch inside of a job took another one (" + id + ", held and cancelled again)"
                       : "sbatch: " + slurm_text;
    std::string unused, why;
    if (took && !says({"scancel", id}, unused, why)) fact.detail += "; it could not be cancelled: " + why;
    add({fact});
  }

  bool wait_for(std::int64_t ms, const std::function<bool()>& what) {
    for (const Deadline deadline(clock_, ms); !deadline.passed() && !stop_.load(std::memory_order_relaxed);
         clock_.sleep_ms(job_look_ms))
      if (what()) return true;
    return false;
  }

  std::vector<std::string> step_arguments(const std::vector<std::string>& launcher, const std::string& role) const {
    std::vector<std::string> arguments = launcher;
    arguments.insert(arguments.end(), {worker_, "doctor", "--order", doctor_order_path(order_.folder), "--as", role});
    return arguments;
  }

  void look_at_nodes() {
    const std::string agents_log = join_path(order_.folder, "agents.log");
    const std::string ranks_log = join_path(order_.folder, "ranks.log");
    std::vector<std::string> agent_launcher = order_.agent_launcher;
    if (agent_launcher.empty()) agent_launcher = {"srun", "--overlap", "--nodes=1", "--ntasks=1", "--mpi=none"};
    Step agents(step_arguments(agent_launcher, "agent"), agents_log);
    (void)wait_for(agents_ms,
                   [&] { return count_files(nodes_folder(order_), "ready-") >= order_.nodes || !agents.running(); });
    DoctorSights sights;
    {
      Step ranks(step_arguments(order_.launcher, "rank"), ranks_log);
      bool beside = false;
      (void)wait_for(ranks_ms, [&] {
        const bool came = count_files(nodes_folder(order_), "rank-") > 0;
        if (came) beside = beside || agents.running();
        return !ranks.running();
      });
      sights.ranks_done = !ranks.running() && ranks.ended_well();
      sights.beside = beside;
    }
    kill_an_agent(agents, sights);
    (void)write_file_renamed(join_path(nodes_folder(order_), go_home), "").ok();
    (void)wait_for(2 * meet_ms, [&] { return !agents.running(); });
    sights.agents = sights_of(order_, "agent", order_.nodes);
    sights.ranks = sights_of(order_, "rank", order_.ranks);
    sights.ports = ports_;
    sights.ranks_said = last_line(ranks_log), sights.agents_said = last_line(agents_log);
    add(facts_of_nodes(order_, sights));
  }

  // The last one, by SIGKILL, as when a node runs out of memory; and another one in its place, as a lead starts it.
  void kill_an_agent(Step& agents, DoctorSights& sights) {
    (void)wait_for(2 * meet_ms,
                   [&] { return count_files(nodes_folder(order_), "agent-") >= order_.nodes || !agents.running(); });
    const std::vector<Value> there = sights_of(order_, "agent", order_.nodes);
    if (order_.nodes < 2 || order_.agent_launcher.empty() || static_cast<int>(there.size()) < order_.nodes ||
        !agents.running())
      return;
    const Value* place = there.back().find("place");
    const std::string node = place ? place->get_string("node") : "";
    if (node.empty() ||
        !write_file_renamed(join_path(nodes_folder(order_), fall), std::to_string(order_.nodes - 1)).ok())
      return;
    sights.agent_killed = true;
    (void)wait_for(2 * stands_after_ms,
                   [&] { return count_files(nodes_folder(order_), "stands-") >= order_.nodes - 1; });
    sights.stood = count_files(nodes_folder(order_), "stands-");
    const std::string log = join_path(order_.folder, "agent-again.log");
    const std::int64_t begin_ns = clock_.monotonic_ns();
    Step again(step_arguments(launcher_on(order_.agent_launcher, node), "again"), log);
    if (wait_for(again_ms, [&] { return count_files(nodes_folder(order_), "again-") > 0 || !again.running(); }) &&
        count_files(nodes_folder(order_), "again-") > 0)
      sights.again_s = static_cast<double>(clock_.monotonic_ns() - begin_ns) * 1e-9;
    sights.again_said = last_line(log);
  }

  // Beside a step that does not listen to SIGTERM, as ranks in a call of a driver do not. Only once it is there is the
  // job done: whoever waits for that cancels it, and measures how long it stays.
  Status wait_to_be_cancelled() {
    Step stubborn(step_arguments({"srun", "--overlap", "--nodes=1", "--ntasks=1", "--mpi=none"}, "stubborn"),
                  join_path(order_.folder, "stubborn.log"));
    (void)wait_for(again_ms, [&] { return count_files(nodes_folder(order_), "stubborn") > 0 || !stubborn.running(); });
    LH_CHECK(write_file_renamed(doctor_done_path(order_.folder), "done\n"));
    (void)wait_for(cancelled_ms, [] { return false; });
    return {};
  }

  const DoctorOrder& order_;
  std::string worker_;
  const Variable& variable_;
  const std::atomic<bool>& stop_;
  Clock& clock_;
  Logger& log_;
  std::vector<DoctorFact> facts_;
  std::string ports_ = order_.ports;
};

// Until all tasks of the role have left their sight: a step whose ranks come one after the other has not started them.
bool all_came(const DoctorOrder& order, const std::string& role, int count, Clock& clock) {
  for (const Deadline deadline(clock, meet_ms);; clock.sleep_ms(job_look_ms)) {
    if (count_files(nodes_folder(order), role + "-") >= count) return true;
    if (deadline.passed()) return false;
  }
}

// "/local/$SLURM_JOB_ID", as a site's documentation writes it.
std::string with_variables(const std::string& path, const Variable& variable) {
  std::string out;
  for (std::size_t i = 0; i < path.size();) {
    if (path[i] != '$') {
      out += path[i++];
      continue;
    }
    const bool braced = i + 1 < path.size() && path[i + 1] == '{';
    const std::size_t begin = i + (braced ? 2 : 1);
    std::size_t end = begin;
    while (end < path.size() && (std::isalnum(static_cast<unsigned char>(path[end])) || path[end] == '_')) ++end;
    out += variable(path.substr(begin, end - begin).c_str());
    i = end + (braced && end < path.size() ? 1 : 0);
  }
  return out;
}

// Until all go home. The agent that `fall` names ends as if it were killed, and the others say two seconds later that
// they stand.
Status stay(const DoctorOrder& order, int task, Clock& clock) {
  const std::string folder = nodes_folder(order), stands_path = join_path(folder, format("stands-{}", task));
  std::optional<Deadline> stands;
  for (const Deadline deadline(clock, agents_ms + ranks_ms + again_ms); !deadline.passed();
       clock.sleep_ms(job_look_ms)) {
    if (count_files(folder, go_home) > 0) break;
    if (stands && stands->passed() && !file_exists(stands_path)) LH_CHECK(write_file_renamed(stands_path, ""));
    if (stands) continue;
    const auto falls = read_file(join_path(folder, fall));
    if (!falls.ok()) continue;
    if (std::atoi(falls->c_str()) == task) ::raise(SIGKILL);
    stands.emplace(clock, stands_after_ms);
  }
  return {};
}

Status be_agent(DoctorOrder order, int task, Value sight, const Variable& variable, Clock& clock) {
  const auto written = read_file(ports_path(order));
  LH_TRY(const PortRange ports, parse_port_range(written.ok() ? *written : order.ports));
  order.node_local = with_variables(order.node_local, variable);
  sight.set("node", look_at_node(order));
  PairOrder pair{nodes_folder(order), task, order.nodes, ports, meet_ms};
  sight.set("pair", check_pair(pair, clock));
  LH_CHECK(write_file_renamed(sight_path(order, "agent", task), to_json_pretty(sight)));
  return stay(order, task, clock);
}

}  // namespace

Status look_at_job(const DoctorOrder& order, const std::string& worker_program, const Variable& variable,
                   const std::atomic<bool>& stop, Clock& clock, Logger& log) {
  return JobLook(order, worker_program, variable, stop, clock, log).run();
}

Status look_as(const std::string& role, const DoctorOrder& order, const Variable& variable, Clock& clock) {
  if (role == "stubborn") {
    ::signal(SIGTERM, SIG_IGN);
    LH_CHECK(write_file_renamed(join_path(nodes_folder(order), "stubborn"), ""));
    clock.sleep_ms(cancelled_ms);
    return {};
  }
  // Below mpirun Slurm numbers its daemons, and not the ranks.
  const std::string number = role == "rank" ? launcher_rank(variable) : variable("SLURM_PROCID");
  const int task = std::atoi(number.c_str());
  Value sight = Value::make_table();
  sight.set("place", look_at_place(variable));
  if (role == "again") return write_file_renamed(sight_path(order, "again", task), to_json_pretty(sight));
  if (role == "agent") return be_agent(order, task, std::move(sight), variable, clock);
  if (role != "rank") return make_error(ErrorCode::invalid_input, "nobody is '" + role + "' in a doctor's job");
  LH_CHECK(write_file_renamed(sight_path(order, "rank", task), to_json_pretty(sight)));
  if (all_came(order, "rank", order.ranks, clock)) return {};
  return make_error(ErrorCode::timeout,
                    format("task {} saw not all of the {} ranks within {} s", task, order.ranks, meet_ms / 1'000));
}

}  // namespace longhaul
