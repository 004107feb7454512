// Which CPUs a rank gets beside its GPU, on nodes of several kinds; what is read of a node; and that the kernel is
// asked for them.
#include "worker/launch/rank_cpus.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "base/files/files.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"
#include "worker/launch/gpu_places.h"
#include "worker/launch/near_gpu.h"
#include "worker/launch/rank_arguments.h"

using namespace longhaul;

namespace {

CpuNumbers cpus(const std::string& list) {
  return read_cpu_numbers(list);
}

// A node whose hardware threads of a core are `apart` numbers apart; 0: one thread a core.
RankSeat seat_on(const std::string& all, int apart, const std::vector<std::string>& beside, int ranks, int threads) {
  RankSeat seat;
  seat.local_ranks = ranks, seat.threads = threads, seat.now = seat.all = cpus(all);
  for (const int cpu : seat.all) {
    if (apart > 0 && cpu >= apart) break;
    seat.cores.push_back(apart > 0 ? CpuNumbers{cpu, cpu + apart} : CpuNumbers{cpu});
  }
  for (const std::string& list : beside) seat.beside_gpus.push_back(cpus(list));
  return seat;
}

std::vector<std::string> placed(RankSeat seat) {
  std::vector<std::string> of_ranks;
  for (seat.local_rank = 0; seat.local_rank < seat.local_ranks; ++seat.local_rank) {
    const auto found = cpus_beside_gpu(seat);
    of_ranks.push_back(found ? cpu_numbers_text(*found) : "stays");
  }
  return of_ranks;
}

using Lists = std::vector<std::string>;

// The files of a node with these GPUs, below a folder: address, minor number, local_cpulist.
void make_gpu(const testing::Scratch& root, const std::string& address, int minor, const std::string& beside,
              int numa) {
  const std::string driver = root.file("proc/driver/nvidia/gpus/" + address),
                    bus = root.file("sys/bus/pci/devices/" + address);
  for (const std::string& folder : {driver, bus, root.file("dev")}) REQUIRE(make_directories(folder).ok());
  REQUIRE(write_file_atomic(driver + "/information", format("Model: \t\t NVIDIA H100\nIRQ:   \t\t 7\nGPU UUID: \t "
                                                            "GPU-{}000\nBus Location: \t {}\nDevice Minor: \t {}\n",
                                                            minor, address, minor))
              .ok());
  REQUIRE(write_file_atomic(bus + "/local_cpulist", beside + "\n").ok());
  REQUIRE(write_file_atomic(bus + "/numa_node", std::to_string(numa) + "\n").ok());
  REQUIRE(write_file_atomic(root.file("dev/nvidia" + std::to_string(minor)), "").ok());
}

Lists own_cpus() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {};
  Lists ours;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) ours.push_back(std::to_string(cpu));
  return ours;
}

std::string addresses(const std::vector<GpuPlace>& gpus) {
  Lists all;
  for (const GpuPlace& gpu : gpus) all.push_back(gpu.address);
  return join(all, " ");
}

Variable variables(std::map<std::string, std::string> all) {
  return [all = std::move(all)](const char* name) {
    const auto found = all.find(name);
    return found == all.end() ? std::string() : found->second;
  };
}

}  // namespace

TEST_CASE("rank cpus: lists as the kernel writes them") {
  CHECK(cpus("0-3,8\n") == CpuNumbers{0, 1, 2, 3, 8});
  CHECK(cpus("5,1-2,2") == CpuNumbers{1, 2, 5});
  for (const char* wrong : {"", "a", "1-", "-1", "1;2", "1-2-3", "99999999999"})
    CHECK_MESSAGE(cpus(wrong).empty(), wrong);
  CHECK(cpu_numbers_text(cpus("0-3,8,10-11")) == "0-3,8,10-11");
  CHECK(cpu_numbers_text({}).empty());
}

TEST_CASE("rank cpus: the first GPU is beside the last CPUs, as on Perlmutter's nodes") {
  const Lists beside = {"48-63,112-127", "32-47,96-111", "16-31,80-95", "0-15,64-79"};
  CHECK(placed(seat_on("0-127", 64, beside, 4, 32)) == beside);
}

TEST_CASE("rank cpus: GPUs that share a socket share its cores, whole ones, and no two ranks have one") {
  const Lists beside = {"4-7,12-15", "0-3,8-11", "0-3,8-11", "4-7,12-15"};
  CHECK(placed(seat_on("0-15", 8, beside, 4, 4)) == Lists{"4-5,12-13", "0-1,8-9", "2-3,10-11", "6-7,14-15"});
  // More threads than a share has: all ranks of a socket have all of it.
  CHECK(placed(seat_on("0-15", 8, beside, 4, 8)) == beside);
  // More threads than the socket: better everywhere than crowded.
  CHECK(placed(seat_on("0-15", 8, beside, 4, 9)) == Lists(4, "stays"));
  // Three ranks and two cores.
  CHECK(placed(seat_on("0-3", 0, {"0-1", "0-1", "0-1"}, 3, 1)) == Lists(3, "0-1"));
}

TEST_CASE("rank cpus: who stays") {
  CHECK(placed(seat_on("0-15", 8, {"0-15", "0-15"}, 2, 1)) == Lists(2, "stays"));  // one memory for all
  CHECK(placed(seat_on("0-15", 8, {"0-7", "8-15"}, 1, 1)) == Lists{"stays"});      // alone: it may use all GPUs
  CHECK(placed(seat_on("0-15", 8, {"0-7", "8-15"}, 3, 1)) == Lists(3, "stays"));   // more ranks than GPUs
  CHECK(placed(seat_on("0-15", 8, {"", ""}, 2, 1)) == Lists(2, "stays"));          // nobody knows where they are
  CHECK(placed(seat_on("0-7", 0, {"8-15", "8-15"}, 2, 1)) == Lists(2, "stays"));   // its step has none beside them
  RankSeat there = seat_on("0-7", 0, {"0-3", "4-7"}, 2, 2);
  there.now = cpus("0-3");
  CHECK(!cpus_beside_gpu(there));
}

TEST_CASE("rank cpus: a rank that sees one GPU alone is put beside it, or stays with what its launcher chose there") {
  RankSeat seat = seat_on("0-7", 0, {"4-7"}, 2, 2);
  seat.now = cpus("0-1");
  CHECK(cpus_beside_gpu(seat) == cpus("4-7"));
  seat.now = cpus("6-7");
  CHECK(!cpus_beside_gpu(seat));
}

TEST_CASE("gpu places: those that may be opened, by address, and those that CUDA shows of them") {
  const testing::Scratch root;
  CHECK(openable_gpus(root.path()).empty());
  make_gpu(root, "0000:c1:00.0", 0, "0-15", 0);
  make_gpu(root, "0000:07:00.0", 1, "48-63", 3);
  make_gpu(root, "0000:81:00.0", 2, "16-31", 1);
  const auto gpus = openable_gpus(root.path());
  REQUIRE(gpus.size() == 3);
  CHECK(addresses(gpus) == "0000:07:00.0 0000:81:00.0 0000:c1:00.0");
  CHECK(gpus[0].numa_node == 3);
  CHECK(gpus[0].uuid == "GPU-1000");
  CHECK(gpus[0].cpus == cpus("48-63"));
  CHECK(addresses(visible_gpus(gpus, "")) == addresses(gpus));
  CHECK(addresses(visible_gpus(gpus, "2,0")) == "0000:c1:00.0 0000:07:00.0");
  CHECK(addresses(visible_gpus(gpus, "GPU-2, GPU-0000")) == "0000:81:00.0 0000:c1:00.0");
  for (const char* unknown : {"3", "0,7", "MIG-1/2/3", "x", "-1", "0,"})
    CHECK_MESSAGE(visible_gpus(gpus, unknown).empty(), unknown);
  REQUIRE(remove_tree(root.file("dev/nvidia2")).ok());
  CHECK(addresses(openable_gpus(root.path())) == "0000:07:00.0 0000:c1:00.0");
}

TEST_CASE("near gpu: which rank of its node a process is, as each launcher says it") {
  const auto local = [](std::map<std::string, std::string> all) {
    const LocalRank found = local_rank(variables(std::move(all)));
    return std::pair(found.rank, found.ranks);
  };
  CHECK(local({}) == std::pair(0, 0));
  CHECK(local({{"SLURM_LOCALID", "3"}, {"SLURM_NODEID", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "8(x2),4"}}) ==
        std::pair(3, 4));
  CHECK(local({{"SLURM_LOCALID", "3"}, {"SLURM_NODEID", "1"}, {"SLURM_STEP_TASKS_PER_NODE", "8(x2),4"}}) ==
        std::pair(3, 8));
  CHECK(local({{"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}}) == std::pair(1, 2));
  // Below mpirun Slurm's numbers are those of its daemon.
  CHECK(local({{"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
               {"SLURM_LOCALID", "0"},
               {"SLURM_NODEID", "0"},
               {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}}) == std::pair(1, 4));
}

// Of a process of its own, for it changes where that may run.
TEST_CASE("near gpu: the kernel is asked, and says so" * doctest::skip(own_cpus().size() < 2)) {
  const Lists ours = own_cpus();
  const testing::Scratch root;
  make_gpu(root, "0000:07:00.0", 0, ours.back(), 1);
  make_gpu(root, "0000:c1:00.0", 1, ours.front(), 0);
  int back[2];
  REQUIRE(::pipe(back) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const std::string line = stay_near_gpu(
        variables({{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMP_NUM_THREADS", "1"}}),
        root.path());
    cpu_set_t now;
    (void)::sched_getaffinity(0, sizeof now, &now);
    const bool there = CPU_COUNT(&now) == 1 && CPU_ISSET(static_cast<std::size_t>(std::stoi(ours.back())), &now);
    const std::string said = (there ? "there: " : "elsewhere: ") + line;
    ::_exit(::write(back[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  ::close(back[1]);
  std::string said(512, '\0');
  const ssize_t got = ::read(back[0], said.data(), said.size());
  ::close(back[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(got > 0);
  said.resize(static_cast<std::size_t>(got));
  CHECK(starts_with(
      said, "there: longhaul: this rank runs on CPUs " + ours.back() + ", beside GPU 0000:07:00.0 of NUMA node 1"));
}
