// The numbers of a job, without a site.
#include "orchestrator/job/request/job_shape.h"

#include <doctest/doctest.h>

#include "orchestrator/job/request/job_length.h"

using namespace longhaul;

TEST_CASE("job shape: a rank gets the CPUs that the site asks for with its GPUs, rounded up") {
  const CpuShare share =
      cpu_share({.cpus = 72, .gpus = 4, .job_gpus = 4, .cpus_per_gpu = 18, .threads = 0, .ranks = 4});
  CHECK(share.bound);
  CHECK(share.of_job == 72);
  CHECK(share.per_rank == 18);
  CHECK(cpu_share({.cpus = 72, .gpus = 4, .job_gpus = 4, .cpus_per_gpu = 18, .threads = 0, .ranks = 5}).per_rank == 15);
}

TEST_CASE("job shape: without such a ratio it gets an even share of the node, by the share of its GPUs") {
  const CpuShare half = cpu_share({.cpus = 64, .gpus = 8, .job_gpus = 4, .cpus_per_gpu = 0, .threads = 0, .ranks = 4});
  CHECK_FALSE(half.bound);
  CHECK(half.of_job == 32);
  CHECK(half.per_rank == 8);
  CHECK(cpu_share({.cpus = 64, .gpus = 0, .job_gpus = 0, .cpus_per_gpu = 0, .threads = 0, .ranks = 3}).per_rank == 21);
  // More ranks than CPUs: one for each, and the check of the node says so.
  CHECK(cpu_share({.cpus = 4, .gpus = 0, .job_gpus = 0, .cpus_per_gpu = 0, .threads = 0, .ranks = 8}).per_rank == 1);
}

TEST_CASE("job shape: a job on processors that names its threads takes no share of the node") {
  const CpuShare named = cpu_share({.cpus = 64, .gpus = 0, .job_gpus = 0, .cpus_per_gpu = 0, .threads = 2, .ranks = 4});
  CHECK(named.of_job == 1);
  CHECK(named.per_rank == 1);
  CHECK(cpu_share({}).per_rank == 1);
}

TEST_CASE("job length: the warning is the user's, or the site's but a quarter of the job, or a record's time") {
  CHECK(warning_s(3600, true, 0, 300) == 300);
  CHECK(warning_s(600, true, 0, 300) == 150);
  CHECK(warning_s(3600, false, 0, 300) == 60);
  CHECK(warning_s(100, false, 0, 300) == 25);
  CHECK(warning_s(3600, false, 900, 300) == 900);
  CHECK(warning_s(0, true, 900, 300) == 0);
}
