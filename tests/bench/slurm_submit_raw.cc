// The plain loop that longhaul-slurm is held against: slurm_submit_batch_job for `count` jobs with the given script,
// this process's environment and nothing else; held, to begin tomorrow, or free to start (slurmctld then
// looks for a place at once). Prints the seconds it took.
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>

extern char** environ;

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: slurm_submit_raw COUNT SCRIPT FOLDER held|later|free\n");
    return 2;
  }
  std::ifstream file(argv[2]);
  std::string script((std::istreambuf_iterator<char>(file)), {});
  std::string folder = argv[3], name = "raw", output = "/dev/null";
  slurm_init(nullptr);
  const int count = std::atoi(argv[1]);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) {
    std::string comment = "raw-" + std::to_string(i);
    job_desc_msg_t job;
    slurm_init_job_desc_msg(&job);
    job.script = script.data();
    job.environment = environ;
    for (job.env_size = 0; environ[job.env_size]; ++job.env_size) {
    }
    job.user_id = ::getuid();
    job.group_id = ::getgid();
    job.work_dir = folder.data();
    job.name = name.data();
    job.comment = comment.data();
    job.std_out = output.data();
    if (argv[4] == std::string("held")) job.priority = 0;
    if (argv[4] == std::string("later")) job.begin_time = std::time(nullptr) + 86'400;
    job.min_nodes = job.max_nodes = 1;
    job.time_limit = 10;
    char* words[] = {argv[2], folder.data()};
    job.argc = 2;
    job.argv = words;
    submit_response_msg_t* answer = nullptr;
    if (slurm_submit_batch_job(&job, &answer) != SLURM_SUCCESS) {
      std::fprintf(stderr, "submission %d: %s\n", i, slurm_strerror(errno));
      return 1;
    }
    slurm_free_submit_response_response_msg(answer);
  }
  std::printf("%.6f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return 0;
}
