#include "worker/launch/rank_exec.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/files/owned_files.h"
#include "base/text/print.h"
#include "resiliency/beat/beat_folder.h"
#include "resiliency/beat/beat_line.h"
#include "resiliency/beat/heartbeat_page.h"
#include "worker/launch/near_gpu.h"
#include "worker/launch/rank_files.h"
#include "worker/launch/rank_place.h"

namespace longhaul {

Status exec_rank(const RankArguments& arguments, const Variable& variable) {
  const std::string rank_text = launcher_rank(variable), step = slurm_step(variable);
  if (rank_text.empty() || rank_text.find_first_not_of("0123456789") != std::string::npos)
    return make_error(ErrorCode::invalid_input, "no rank in the environment of this process",
                      "`rank` is started by mpirun or srun only");
  if (arguments.program.empty()) return make_error(ErrorCode::invalid_input, "no program after --");
  if (!step.empty() && rank_text == "0") LH_CHECK(write_file_renamed(slurm_step_path(arguments.log_dir), step + "\n"));
  const std::string path = rank_log_path(arguments.log_dir, std::atoi(rank_text.c_str()));
  LH_TRY(FileDescriptor fd, open_to_append(path));
  if (::dup2(fd.get(), 1) < 0 || ::dup2(fd.get(), 2) < 0)
    return errno_error(ErrorCode::io, "cannot redirect to " + path, errno);
  fd.reset();
  if (const std::string line = arguments.near_gpu ? stay_near_gpu(variable) : ""; !line.empty())
    print_text(stderr, line + "\n");
  ::setenv("LONGHAUL_RANK", rank_text.c_str(), 1);
  // Of a command alone: the engine asks MPI. What the stage says itself stays.
  if (!variable("LONGHAUL_RANKS").empty())
    for (const auto& [name, value] : rank_place(variable)) ::setenv(name.c_str(), value.c_str(), 0);
  LH_TRY(const HeldFolder pages, hold_beat_folder(arguments.beat_dir, HeldFolder::Until::children_end));
  // The program finds its page made: an end before its first beat is seen, too.
  const int rank = std::atoi(rank_text.c_str());
  const std::string page = beat_page_path(arguments.beat_dir, rank);
  LH_CHECK(HeartbeatPage::create(page, rank));
  ::setenv("LONGHAUL_BEAT", page.c_str(), 1);
  ::setenv(beat_socket_variable, beat_socket_path(arguments.beat_dir, rank).c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& argument : arguments.program) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  return errno_error(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, "cannot start " + arguments.program[0],
                     errno);
}

}  // namespace longhaul
