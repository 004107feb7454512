#include "worker/launch/rank_group.h"

#include <signal.h>
#include <unistd.h>

#include <cctype>

#include "base/files.h"
#include "base/text.h"
#include "contracts/settings/command.h"
#include "resiliency/beat/heartbeat_page.h"

namespace longhaul {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

// Every process of an attempt carries its key, so that a later attempt can end what a lost one left behind.
Environment common_environment(const LaunchSpec& spec) {
  // Threads that wait spinning starve their neighbours wherever cores are shared: the quantize stage took 131 s instead
  // of 13 s on a busy machine.
  return {{"LONGHAUL_ATTEMPT_KEY", spec.attempt.key},
          {"OMP_NUM_THREADS", std::to_string(spec.task.resources.threads)},
          {"OMP_WAIT_POLICY", "passive"}};
}

std::string input_variable(const std::string& name) {
  std::string variable = "LONGHAUL_INPUT_";
  for (const char c : name)
    variable += std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::toupper(c)) : '_';
  return variable;
}

SpawnSpec rank_spawn(const LaunchSpec& spec, int rank) {
  SpawnSpec spawn_spec;
  spawn_spec.environment = common_environment(spec);
  spawn_spec.own_group = true;
  spawn_spec.dies_with_starter = true;
  spawn_spec.stdout_path = spawn_spec.stderr_path = rank_log_path(spec.launch.launch_dir, rank);
  return spawn_spec;
}

// A rank of a `command` stage; below a launcher the wrapper adds what differs from rank to rank.
Result<SpawnSpec> command_spawn(const LaunchSpec& spec, int rank) {
  LH_TRY(const CommandSettings settings, command_fields().parse(spec.task.settings, "settings"));
  SpawnSpec s = rank_spawn(spec, rank);
  if (!settings.argv.empty())
    s.argv = settings.argv;
  else if (!settings.script.empty())
    s.argv = {"bash", "-euo", "pipefail", "-c", settings.script};
  else
    return make_error(ErrorCode::invalid_input, "stage " + spec.attempt.stage + " has neither argv nor script",
                      "give one of them");
  for (const auto& [name, value] : settings.environment) s.environment.emplace_back(name, value);
  for (const TaskInput& input : spec.task.inputs)
    s.environment.emplace_back(input_variable(input.name), join(input.paths, " "));
  s.environment.emplace_back("LONGHAUL_OUT", spec.launch.output_dir);
  s.environment.emplace_back("LONGHAUL_STATE", spec.launch.state_dir);
  if (spec.attempt.launcher.empty()) {
    s.environment.emplace_back("LONGHAUL_RANK", std::to_string(rank));
    s.environment.emplace_back("LONGHAUL_BEAT", beat_page_path(spec.launch.launch_dir, rank));
  }
  s.environment.emplace_back("LONGHAUL_RANKS", std::to_string(spec.launch.ranks));
  s.environment.emplace_back("LONGHAUL_EVENTS", spec.launch.events_path);
  s.working_directory = spec.launch.output_dir;
  return s;
}

// Puts the site's launcher and the wrapper before a program: one process then starts all ranks, on all nodes.
SpawnSpec launched(const LaunchSpec& spec, SpawnSpec program) {
  std::vector<std::string> argv = spec.attempt.launcher;
  argv.insert(argv.end(), spec.attempt.container.begin(), spec.attempt.container.end());
  argv.insert(argv.end(), {spec.worker_program, "rank", "--log-dir", spec.launch.launch_dir, "--"});
  argv.insert(argv.end(), program.argv.begin(), program.argv.end());
  program.argv = std::move(argv);
  program.stdout_path = program.stderr_path = launcher_log_path(spec.launch.launch_dir);
  return program;
}

SpawnSpec engine_spawn(const LaunchSpec& spec) {
  SpawnSpec s = rank_spawn(spec, 0);
  const std::vector<std::string> engine = {spec.attempt.engine,    "run",      "--task",
                                           spec.attempt.task_path, "--launch", spec.launch_path};
  if (!spec.attempt.launcher.empty()) {
    s.argv = engine;
    return launched(spec, std::move(s));
  }
  if (spec.launch.ranks == 1) {
    s.argv = spec.attempt.container;
    s.argv.insert(s.argv.end(), engine.begin(), engine.end());
    s.argv.insert(s.argv.end(), {"--rank", "0"});
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
            "--"};
  s.argv.insert(s.argv.end(), spec.attempt.container.begin(), spec.attempt.container.end());
  s.argv.insert(s.argv.end(), engine.begin(), engine.end());
  if (::geteuid() == 0) {
    s.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT", "1");
    s.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  return s;
}

}  // namespace

std::string rank_log_path(const std::string& launch_dir, int rank) {
  return join_path(launch_dir, "rank-" + std::to_string(rank) + ".log");
}

std::string launcher_log_path(const std::string& launch_dir) {
  return join_path(launch_dir, "mpirun.log");
}

Status RankGroup::start(const LaunchSpec& spec) {
  std::vector<SpawnSpec> programs;
  // srun kills its tasks when it is told to end (SIGTERM); other signals it passes on to them.
  if (!spec.attempt.launcher.empty() && file_name(spec.attempt.launcher.front()) == "srun") stop_signal_ = SIGUSR1;
  if (spec.task.kind == "command" && !spec.attempt.launcher.empty()) {
    LH_TRY(SpawnSpec program, command_spawn(spec, 0));
    programs.push_back(launched(spec, std::move(program)));
  } else if (spec.task.kind == "command") {
    for (int rank = 0; rank < spec.launch.ranks; ++rank) {
      LH_TRY(SpawnSpec program, command_spawn(spec, rank));
      programs.push_back(std::move(program));
    }
  } else {
    programs.push_back(engine_spawn(spec));
  }
  for (std::size_t i = 0; i < programs.size(); ++i) {
    auto pid = spawn(programs[i]);
    if (!pid.ok()) {
      kill_all();
      return pid.error();
    }
    children_.push_back({*pid, static_cast<int>(i), false, true});
  }
  return {};
}

void RankGroup::signal_all(int signal_number) {
  // A group outlives its leader, and its id is not used again while it has members: signalling it is safe as long as
  // the leader was not reaped or the group was never seen empty.
  for (Child& child : children_)
    if (child.group && ::kill(-child.pid, signal_number) != 0 && child.ended) child.group = false;
}

void RankGroup::stop() {
  if (stop_asked_ns_) return;
  stop_asked_ns_ = clock_.monotonic_ns();
  signal_all(stop_signal_);
}

void RankGroup::kill_all() {
  signal_all(SIGKILL);
  for (Child& child : children_) {
    while (!child.ended) {
      const auto exit = poll_exit(child.pid);
      if (!exit.ok() || exit->has_value())
        child.ended = true;
      else
        ::usleep(1000);
    }
  }
}

Result<std::optional<LaunchEnd>> RankGroup::poll(double grace_s) {
  bool running = false;
  for (Child& child : children_) {
    if (child.ended) continue;
    LH_TRY(const auto exit, poll_exit(child.pid));
    if (!exit) {
      running = true;
      continue;
    }
    child.ended = true;
    if (!exit->success() && (!first_end_ || first_end_->ok())) first_end_ = LaunchEnd{child.rank, *exit};
  }
  if (running) {
    if (first_end_ && !first_end_->ok()) stop();
    if (stop_asked_ns_ && !killed_ && static_cast<double>(clock_.monotonic_ns() - *stop_asked_ns_) * 1e-9 > grace_s) {
      signal_all(SIGKILL);
      killed_ = true;
    }
    return std::optional<LaunchEnd>{};
  }
  // What a rank left running in its own group ends with it; who wants to stay (a server left running) has a session of
  // its own.
  signal_all(SIGKILL);
  return std::optional<LaunchEnd>(first_end_.value_or(LaunchEnd{0, ExitStatus{0, 0}}));
}

}  // namespace longhaul
