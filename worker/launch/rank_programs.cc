#include "worker/launch/rank_programs.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/settings/stages/command.h"
#include "resiliency/beat/beat_line.h"
#include "resiliency/beat/heartbeat_page.h"
#include "worker/launch/input_lists.h"

namespace longhaul {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

// Every process of an attempt carries its key, so that a later attempt can end what a lost one left behind.
Environment common_environment(const LaunchSpec& spec, int threads) {
  // Threads that wait spinning starve their neighbours wherever cores are shared: the quantize stage took 131 s instead
  // of 13 s on a busy machine.
  return {{"LONGHAUL_ATTEMPT_KEY", spec.attempt.key},
          {"OMP_NUM_THREADS", std::to_string(threads)},
          {"OMP_WAIT_POLICY", "passive"}};
}

SpawnSpec rank_spawn(const LaunchSpec& spec, const std::string& log_dir, int rank, int threads) {
  SpawnSpec spawn_spec;
  spawn_spec.environment = common_environment(spec, threads);
  spawn_spec.own_group = true;
  spawn_spec.dies_with_starter = true;
  spawn_spec.stdout_path = spawn_spec.stderr_path = rank_log_path(log_dir, rank);
  return spawn_spec;
}

bool is_srun(const std::vector<std::string>& launcher) {
  return !launcher.empty() && file_name(launcher.front()) == "srun";
}

// mpirun refuses root otherwise: containers and clusters of tests.
void allow_root(SpawnSpec& mpirun) {
  if (::geteuid() != 0) return;
  mpirun.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT", "1");
  mpirun.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
}

// What Open MPI reads its nodes from, as in a batch script: a lead that has taken over is a task of a step, whose
// variables are other ones.
void add_allocation(const Launch& launch, SpawnSpec& mpirun) {
  const int nodes = static_cast<int>(launch.hosts.size());
  if (nodes == 0) return;
  for (const char* name : {"SLURM_NODELIST", "SLURM_JOB_NODELIST"})
    mpirun.environment.emplace_back(name, join(launch.hosts, ","));
  for (const char* name : {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"})
    mpirun.environment.emplace_back(name, std::to_string(nodes));
  mpirun.environment.emplace_back("SLURM_TASKS_PER_NODE", format("{}(x{})", (launch.ranks + nodes - 1) / nodes, nodes));
}

// The container's arguments with the folder where the program is to start.
std::vector<std::string> container_arguments(const LaunchSpec& spec, const SpawnSpec& program) {
  std::vector<std::string> arguments = spec.attempt.container;
  for (std::string& argument : arguments)
    if (ends_with(argument, container_folder_mark))
      argument.replace(argument.size() - 1, 1,
                       program.working_directory.empty() ? spec.attempt.run_dir : program.working_directory);
  return arguments;
}

std::vector<std::string> in_container(const LaunchSpec& spec, const SpawnSpec& program) {
  std::vector<std::string> argv = container_arguments(spec, program);
  argv.insert(argv.end(), program.argv.begin(), program.argv.end());
  return argv;
}

// Options of srun, and no program.
bool is_of_launcher(const std::vector<std::string>& container) {
  return !container.empty() && starts_with(container.front(), "-");
}

// A container may have another C library than this host, or none: one that needs none is taken where it was built.
std::string starter_in_container(const LaunchSpec& spec) {
  const std::string starter = join_path(parent_path(spec.worker_program), "longhaul-rank");
  return file_exists(starter) ? starter : spec.worker_program;
}

// Ranks on GPUs are put beside them, unless the site has said where its launcher is to put them.
bool goes_near_gpu(const LaunchSpec& spec, const std::vector<std::string>& launcher) {
  if (spec.task.settings.get_string("device") != "gpu") return false;
  std::string bound;  // the last one counts
  for (std::size_t i = 0; i < launcher.size(); ++i) {
    if (starts_with(launcher[i], "--cpu-bind") || starts_with(launcher[i], "--cpu_bind")) return false;
    if (launcher[i] == "--bind-to" && i + 1 < launcher.size()) bound = launcher[i + 1];
  }
  return bound.empty() || bound == "none";
}

// Puts a launcher and the wrapper before a program: one process then starts all ranks, on all nodes.
SpawnSpec launched(const LaunchSpec& spec, const std::vector<std::string>& launcher, const std::string& log_dir,
                   SpawnSpec program) {
  const std::string& beat_dir = spec.launch.beat_dir.empty() ? log_dir : spec.launch.beat_dir;
  const std::vector<std::string> container = container_arguments(spec, program);
  const bool inside = is_of_launcher(container);
  std::vector<std::string> argv = launcher;
  if (inside) argv.insert(argv.end(), container.begin(), container.end());
  argv.insert(argv.end(), {inside ? starter_in_container(spec) : spec.worker_program, "rank", "--log-dir", log_dir,
                           "--beat-dir", beat_dir});
  if (goes_near_gpu(spec, launcher)) argv.emplace_back("--near-gpu");
  argv.emplace_back("--");
  if (!inside) argv.insert(argv.end(), container.begin(), container.end());
  argv.insert(argv.end(), program.argv.begin(), program.argv.end());
  program.argv = std::move(argv);
  program.stdout_path = program.stderr_path = launcher_log_path(log_dir);
  // Where a standby takes over, the ranks outlive a lead that dies; the job's end is theirs, too.
  if (!spec.attempt.agent_launcher.empty()) program.dies_with_starter = false;
  if (is_srun(launcher)) return program;
  allow_root(program);
  add_allocation(spec.launch, program);
  return program;
}

// One program of a `command` stage: the only one, or a step.
struct CommandPart {
  std::string what;  // for messages
  const std::vector<std::string>& argv;
  const std::string& script;
  std::map<std::string, std::string> environment;
  int ranks, threads;
  std::string log_dir;
  std::vector<std::string> launcher;
  const JobStep* step;  // null: the only one
  std::string folder;   // in which it starts; "": that of the artifact
};

void add_stage_environment(const LaunchSpec& spec, Environment& environment) {
  for (const TaskInput& input : spec.task.inputs) {
    environment.emplace_back("LONGHAUL_INPUT_" + step_variable(input.name), join(input.paths, " "));
    environment.emplace_back("LONGHAUL_PATHS_" + step_variable(input.name),
                             input_list_path(spec.launch.launch_dir, input));
  }
  environment.emplace_back("LONGHAUL_OUT", spec.launch.output_dir);
  environment.emplace_back("LONGHAUL_STATE", spec.launch.state_dir);
  environment.emplace_back("LONGHAUL_EVENTS", spec.launch.events_path);
}

// Who one is, and where the others are.
void add_step_environment(const LaunchSpec& spec, const JobStep& own, Environment& environment) {
  std::vector<std::string> names;
  for (const JobStep& step : spec.attempt.steps) {
    const std::string variable = step_variable(step.name);
    environment.emplace_back("LONGHAUL_STEP_HOSTS_" + variable, join(step_hosts(spec.launch, step), " "));
    environment.emplace_back("LONGHAUL_STEP_RANKS_" + variable, std::to_string(step.ranks));
    names.push_back(step.name);
  }
  environment.emplace_back("LONGHAUL_STEP", own.name);
  environment.emplace_back("LONGHAUL_STEPS", join(names, " "));
  environment.emplace_back("LONGHAUL_SHARED", shared_folder(spec.launch.launch_dir));
}

// Where the ranks of a program meet, in the variables that torchrun sets. The port is one of a range that systems do
// not hand out by themselves, by the attempt's key: all ranks agree upon it, and neighbours hardly meet on it.
void add_meeting_place(const LaunchSpec& spec, const CommandPart& part, Environment& environment) {
  constexpr std::uint32_t first_port = 20'000, ports = 10'000;
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!part.environment.contains(name)) environment.emplace_back(name, value);
  };
  std::uint32_t mixed = 2166136261U;  // FNV-1a
  for (const unsigned char c : spec.attempt.key + " " + spec.launch.launch_dir + " " + part.what)
    mixed = (mixed ^ c) * 16777619U;
  const std::vector<std::string> hosts = part.step ? step_hosts(spec.launch, *part.step) : spec.launch.hosts;
  add("WORLD_SIZE", std::to_string(part.ranks));
  add("MASTER_ADDR", part.launcher.empty() || hosts.empty() ? "127.0.0.1" : hosts.front());
  add("MASTER_PORT", std::to_string(first_port + mixed % ports));
}

void add_place_on_one_machine(const CommandPart& part, int rank, Environment& environment) {
  const std::string own = std::to_string(rank);
  const std::vector<std::pair<std::string, std::string>> place = {
      {"RANK", own}, {"LOCAL_RANK", own}, {"LOCAL_WORLD_SIZE", std::to_string(part.ranks)}, {"NODE_RANK", "0"}};
  for (const auto& [name, value] : place)
    if (!part.environment.contains(name)) environment.emplace_back(name, value);
}

// Below a launcher the wrapper adds what differs from rank to rank.
Result<SpawnSpec> command_spawn(const LaunchSpec& spec, const CommandPart& part, int rank) {
  SpawnSpec s = rank_spawn(spec, part.log_dir, rank, part.threads);
  if (!part.argv.empty())
    s.argv = part.argv;
  else if (!part.script.empty())
    s.argv = {"bash", "-euo", "pipefail", "-c", part.script};
  else
    return make_error(ErrorCode::invalid_input, part.what + " has neither argv nor script", "give one of them");
  s.environment.insert(s.environment.end(), part.environment.begin(), part.environment.end());
  add_stage_environment(spec, s.environment);
  if (part.step) add_step_environment(spec, *part.step, s.environment);
  if (part.launcher.empty()) {
    s.environment.emplace_back("LONGHAUL_RANK", std::to_string(rank));
    add_place_on_one_machine(part, rank, s.environment);
    s.environment.emplace_back("LONGHAUL_BEAT", beat_page_path(part.log_dir, rank));
    s.environment.emplace_back(beat_socket_variable, beat_socket_path(part.log_dir, rank));
  }
  s.environment.emplace_back("LONGHAUL_RANKS", std::to_string(part.ranks));
  add_meeting_place(spec, part, s.environment);
  s.working_directory = part.folder.empty() ? spec.launch.output_dir : part.folder;
  return s;
}

Status add_programs(const LaunchSpec& spec, const CommandPart& part, std::vector<RankProgram>& programs) {
  RankProgram program;
  if (part.step) {
    program.step = part.step->name;
    program.service = part.step->service;
  }
  const int count = part.launcher.empty() ? part.ranks : 1;
  for (program.rank = 0; program.rank < count; ++program.rank) {
    LH_TRY(program.spawn, command_spawn(spec, part, program.rank));
    std::vector<std::string>& argv = program.spawn.argv;
    if (part.launcher.empty())
      argv = in_container(spec, program.spawn);
    else
      program.spawn = launched(spec, part.launcher, part.log_dir, std::move(program.spawn));
    // What the container was given is a folder of its own; the host need not have it.
    if (!spec.attempt.container.empty()) program.spawn.working_directory = spec.launch.output_dir;
    program.by_srun = is_srun(part.launcher);
    if (program.by_srun && part.step) program.slurm_step_path = slurm_step_path(part.log_dir);
    programs.push_back(program);
  }
  return {};
}

// The step's launcher with the names of its nodes.
std::vector<std::string> step_arguments(const Launch& launch, const JobStep& step) {
  std::vector<std::string> arguments = step.launcher;
  if (is_srun(arguments) && step.own_nodes)
    arguments.insert(arguments.begin() + 1, "--nodelist=" + join(step_hosts(launch, step), ","));
  return arguments;
}

Result<std::vector<RankProgram>> command_programs(const LaunchSpec& spec) {
  LH_TRY(const CommandSettings settings, command_fields().parse(spec.task.settings, "settings"));
  const std::string stage = "stage " + spec.attempt.stage;
  std::vector<RankProgram> programs;
  if (spec.attempt.steps.empty()) {
    LH_CHECK(add_programs(
        spec,
        {stage, settings.argv, settings.script, settings.environment, spec.launch.ranks, spec.task.resources.threads,
         spec.launch.launch_dir, spec.attempt.launcher, nullptr, working_folder(settings)},
        programs));
    return programs;
  }
  for (const JobStep& step : spec.attempt.steps) {
    const auto found = std::find_if(settings.steps.begin(), settings.steps.end(),
                                    [&](const CommandStep& candidate) { return candidate.name == step.name; });
    if (found == settings.steps.end())
      return make_error(ErrorCode::corrupt, stage + ": its task has no step '" + step.name + "'");
    auto environment = found->environment;
    environment.insert(settings.environment.begin(), settings.environment.end());  // what the step does not say
    LH_CHECK(add_programs(spec,
                          {stage + ", step " + step.name, found->argv, found->script, std::move(environment),
                           step.ranks, step.cpus_per_rank, step_folder(spec.launch.launch_dir, step.name),
                           step_arguments(spec.launch, step), &step, working_folder(settings)},
                          programs));
  }
  return programs;
}

SpawnSpec engine_spawn(const LaunchSpec& spec) {
  SpawnSpec s = rank_spawn(spec, spec.launch.launch_dir, 0, spec.task.resources.threads);
  const std::vector<std::string> engine = {spec.attempt.engine,    "run",      "--task",
                                           spec.attempt.task_path, "--launch", spec.launch_path};
  if (!spec.attempt.launcher.empty()) {
    s.argv = engine;
    return launched(spec, spec.attempt.launcher, spec.launch.launch_dir, std::move(s));
  }
  if (spec.launch.ranks == 1) {
    s.argv = engine;
    s.argv.insert(s.argv.end(), {"--rank", "0"});
    s.argv = in_container(spec, s);
    return s;
  }
  // mpirun's own output is apart; the wrapper sends every rank's to a file of its own.
  s.stdout_path = s.stderr_path = launcher_log_path(spec.launch.launch_dir);
  s.argv = {spec.mpirun,
            "-np",
            std::to_string(spec.launch.ranks),
            "--oversubscribe",
            "--bind-to",
            "none",
            "--mca",
            "mpi_yield_when_idle",
            "1",
            spec.worker_program,
            "rank",
            "--log-dir",
            spec.launch.launch_dir,
            "--beat-dir",
            beat_folder(spec.launch),
            "--"};
  const std::vector<std::string> container = container_arguments(spec, s);
  s.argv.insert(s.argv.end(), container.begin(), container.end());
  s.argv.insert(s.argv.end(), engine.begin(), engine.end());
  allow_root(s);
  return s;
}

}  // namespace

Result<std::vector<RankProgram>> rank_programs(const LaunchSpec& spec) {
  if (spec.task.kind == "command") return command_programs(spec);
  RankProgram engine;
  engine.spawn = engine_spawn(spec);
  engine.by_srun = is_srun(spec.attempt.launcher);
  engine.by_mpirun = !engine.by_srun && spec.launch.ranks > 1;
  return std::vector<RankProgram>{std::move(engine)};
}

std::vector<std::string> step_hosts(const Launch& launch, const JobStep& step) {
  const std::size_t begin = std::min(launch.hosts.size(), static_cast<std::size_t>(step.first_node));
  const std::size_t end = std::min(launch.hosts.size(), begin + static_cast<std::size_t>(step.nodes));
  return {launch.hosts.begin() + static_cast<std::ptrdiff_t>(begin),
          launch.hosts.begin() + static_cast<std::ptrdiff_t>(end)};
}

std::string step_folder(const std::string& launch_dir, const std::string& step) {
  return join_path(launch_dir, "steps/" + step);
}

std::string shared_folder(const std::string& launch_dir) {
  return join_path(launch_dir, "shared");
}

std::string launcher_log_path(const std::string& launch_dir) {
  return join_path(launch_dir, "mpirun.log");
}
}  // namespace longhaul
