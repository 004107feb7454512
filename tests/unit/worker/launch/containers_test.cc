// In which order launcher, container, starter and program stand; and a starter that starts where there is no C library.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/settings/stages/command.h"
#include "resiliency/beat/heartbeat_page.h"
#include "tests/support/scratch.h"
#include "worker/launch/rank_arguments.h"
#include "worker/launch/rank_files.h"
#include "worker/launch/rank_programs.h"

using namespace longhaul;

namespace {

using Arguments = std::vector<std::string>;

const std::string programs = parent_path(own_program_path());

std::string words_of(const Arguments& launcher, const Arguments& container, const std::string& device = "cpu") {
  LaunchSpec spec;
  spec.attempt.launcher = launcher;
  spec.attempt.container = container;
  spec.attempt.stage = "s";
  spec.task.kind = "command";
  CommandSettings settings;
  settings.argv = {"train"};
  settings.device = device;
  spec.task.settings = command_fields().to_value(settings);
  spec.launch.launch_dir = "/run/launches/1";
  spec.launch.output_dir = "/run/out";
  spec.worker_program = join_path(programs, "longhaul-worker");
  const auto made = rank_programs(spec);
  REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().message()));
  REQUIRE(made->size() == 1);
  return replace_all(join(made->front().spawn.argv, " "), programs + "/", "");
}

// Static programs are not built everywhere (worker/starter/CMakeLists.txt).
bool has_starter() {
  return file_exists(join_path(programs, "longhaul-rank"));
}

// What a container runtime does: a root of its own, in which only these folders are shown.
void enter_root(const std::string& root, const Arguments& shown) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ::_exit(77);
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(77);
  for (const std::string& folder : shown) {
    if (!make_directories(root + folder).ok()) ::_exit(78);
    if (::mount(folder.c_str(), (root + folder).c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) ::_exit(77);
  }
  if (::chroot(root.c_str()) != 0 || ::chdir("/") != 0) ::_exit(77);
}

struct Entered {
  int code = -1;
  std::string log;
};

Entered started_in_bare_root(const std::string& starter, const std::string& folder, const Arguments& program) {
  const std::string root = join_path(folder, "root");
  const pid_t pid = ::fork();
  if (pid == 0) {
    enter_root(root, {programs, folder});
    ::setenv("SLURM_PROCID", "0", 1);
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) ::unsetenv(name);
    Arguments arguments = {starter, "rank", "--log-dir", folder, "--beat-dir", join_path(folder, "beat"), "--"};
    arguments.insert(arguments.end(), program.begin(), program.end());
    std::vector<char*> argv;
    for (std::string& word : arguments) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(errno == ENOENT ? 99 : 98);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  Entered entered;
  entered.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  if (const auto log = read_file(rank_log_path(folder, 0)); log.ok()) entered.log = *log;
  return entered;
}

}  // namespace

TEST_CASE("containers: one that srun makes holds the starter; one that is a program is started by it") {
  const std::string starter = has_starter() ? "longhaul-rank" : "longhaul-worker";
  const std::string rank = " rank --log-dir /run/launches/1 --beat-dir /run/launches/1 -- ";
  CHECK(words_of({"srun", "--ntasks=2"}, {"--container-image=x", "--container-workdir=@"}) ==
        "srun --ntasks=2 --container-image=x --container-workdir=/run/out " + starter + rank + "train");
  CHECK(words_of({"srun"}, {"apptainer", "exec", "x.sif"}) ==
        "srun longhaul-worker" + rank + "apptainer exec x.sif train");
  CHECK(words_of({}, {"podman-hpc", "run", "--workdir=@", "x"}) == "podman-hpc run --workdir=/run/out x train");
  CHECK(words_of({"srun"}, {}) == "srun longhaul-worker" + rank + "train");
}

TEST_CASE("containers: a workdir is the container's, and the host need not have it") {
  LaunchSpec spec;
  spec.attempt.container = {"podman-hpc", "run", "--workdir=@", "x"};
  spec.task.kind = "command";
  CommandSettings settings;
  settings.argv = {"train"}, settings.workdir = "/of-the-image";
  spec.task.settings = command_fields().to_value(settings);
  spec.launch.launch_dir = "/run/launches/1", spec.launch.output_dir = "/run/out";
  const auto made = rank_programs(spec);
  REQUIRE(made.ok());
  CHECK(join(made->front().spawn.argv, " ") == "podman-hpc run --workdir=/of-the-image x train");
  CHECK(made->front().spawn.working_directory == "/run/out");
}

TEST_CASE("containers: a starter in a root without any C library makes log and page, and becomes the program") {
  if (!has_starter()) {
    MESSAGE("skipped: no static libraries on this host, so no longhaul-rank");
    return;
  }
  testing::Scratch scratch;
  const std::string starter = join_path(programs, "longhaul-rank"), folder = scratch.path();
  // The program is the starter again, without its arguments: it needs no library either, and says how it is used.
  const Entered entered = started_in_bare_root(starter, folder, {starter});
  if (entered.code == 77) {
    MESSAGE("skipped: this machine allows no mount namespaces");
    return;
  }
  CHECK(entered.code == 2);
  CHECK(entered.log.find("usage: longhaul-rank") != std::string::npos);
  CHECK(file_exists(beat_page_path(join_path(folder, "beat"), 0)));
  // What the static link is for.
  CHECK(started_in_bare_root(join_path(programs, "longhaul-worker"), folder, {starter}).code == 99);
  // What it cannot start it says in the rank's log.
  const Entered absent = started_in_bare_root(starter, folder, {"/no-such-program"});
  CHECK(absent.code == 127);
  CHECK(absent.log.find("cannot start /no-such-program") != std::string::npos);
}

TEST_CASE("ranks on GPUs are put beside them, where the site has not said where its launcher puts ranks") {
  const auto near = [](const Arguments& launcher, const std::string& device) {
    return words_of(launcher, {}, device).find(" --near-gpu -- train") != std::string::npos;
  };
  CHECK(near({"srun", "--ntasks=8"}, "gpu"));
  CHECK(near({"mpirun", "-np", "8", "--bind-to", "none"}, "gpu"));
  CHECK(!near({"srun", "--ntasks=8"}, "cpu"));
  CHECK(!near({"srun", "--ntasks=8", "--cpu-bind=map_ldom:3,2,1,0"}, "gpu"));
  CHECK(!near({"mpirun", "-np", "8", "--bind-to", "none", "--bind-to", "numa"}, "gpu"));
}

TEST_CASE("containers: arguments of a starter") {
  const Arguments good = {"rank", "--log-dir", "/l", "--beat-dir", "/b", "--", "train", "--", "x"};
  const auto arguments = parse_rank_arguments(good);
  REQUIRE(arguments);
  CHECK(arguments->log_dir == "/l");
  CHECK(arguments->beat_dir == "/b");
  CHECK(arguments->program == Arguments{"train", "--", "x"});
  CHECK(!arguments->near_gpu);
  const auto beside =
      parse_rank_arguments({"rank", "--log-dir", "/l", "--beat-dir", "/b", "--near-gpu", "--", "train"});
  REQUIRE(beside);
  CHECK(beside->near_gpu);
  CHECK(beside->program == Arguments{"train"});
  CHECK(!parse_rank_arguments({"rank", "--log-dir", "/l", "--beat-dir", "/b", "--"}));
  CHECK(!parse_rank_arguments({"rank", "--log-dir", "/l", "--beat-dir", "/b", "--near-gpu", "--"}));
  CHECK(!parse_rank_arguments({}));
  const auto only = [](const std::string& name, const std::string& value) {
    return [=](const char* asked) { return name == asked ? value : std::string(); };
  };
  CHECK(launcher_rank(only("PMIX_RANK", "3")) == "3");
  CHECK(launcher_rank(only("SLURM_PROCID", "0")) == "0");
  CHECK(launcher_rank(only("HOME", "/")).empty());
}
