// Lines as programs write them, to class and role.
#include "resiliency/taxonomy/log_line.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {
using F = FaultClass;
using R = LineRole;
}  // namespace

TEST_CASE("a line that reports the cause is a root, the echo of another's fault a cascade") {
  struct Case {
    const char* line;
    F fault;
    R role;
  };
  const Case cases[] = {
      {"NVRM: Xid (PCI:0000:41:00): 79, pid=1234, GPU has fallen off the bus.", F::gpu_lost, R::root},
      {"NVRM: Xid (PCI:0000:41:00): 94, pid=1234", F::gpu_memory_contained, R::root},
      {"NVRM: Xid (PCI:0000:41:00): 45, pid=1234, Ch 00000008", F::gpu_event, R::confirmation},
      {"RuntimeError: CUDA error: an illegal memory access was encountered", F::gpu_program, R::root},
      {"../aten/src/Indexing.cu:1: block: [0,0,0]: device-side assert triggered", F::gpu_program, R::root},
      {"CUDA error: uncorrectable ECC error encountered", F::gpu_memory_error, R::root},
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", F::out_of_memory, R::root},
      {"terminate called after throwing an instance of 'std::bad_alloc'", F::out_of_memory, R::root},
      {"slurmstepd: error: Detected 1 oom_kill event in StepId=12.0", F::out_of_memory, R::root},
      {"OSError: [Errno 28] No space left on device: '/data/x'", F::disk_full, R::root},
      {"Error while creating /dev/shm/nccl-x (size 5): No space left on device", F::shm_full, R::root},
      {"OSError: [Errno 116] Stale file handle: '/lustre/x'", F::file_system, R::root},
      {"n1:7:99 [0] NCCL WARN NET/IB : mlx5_0:1 Got async event : port error", F::nic_down, R::root},
      {"NCCL error: unhandled system error (run with NCCL_DEBUG=INFO)", F::nccl_error, R::root},
      {"socketProgress: Connection closed by remote peer n2<4242>", F::connection_lost, R::cascade},
      {"ncclRemoteError: A call failed possibly due to a network error or a remote process exited", F::connection_lost,
       R::cascade},
      {"[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)", F::nccl_timeout, R::cascade},
      {"[n1][[1,1],2][btl_tcp_frag.c:242] readv failed: Connection reset by peer (104)", F::connection_lost,
       R::cascade},
      {"BrokenPipeError: [Errno 32] Broken pipe", F::connection_lost, R::cascade},
      {"*** An error occurred in MPI_Allreduce", F::mpi_error, R::root},
      {"MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD", F::mpi_error, R::confirmation},
      {"mpirun noticed that process rank 1 with PID 7 on node a exited on signal 9", F::program, R::confirmation},
      {"prterun noticed that process rank 1 with PID 7 on node a exited on", F::program, R::confirmation},
      {"slurmstepd-n1: error:  mpi/pmix_v4: _slurm_send: n1 [0]: pmixp_server.c:1581: Cannot send message to /x, size "
       "= 74",
       F::ranks_not_started, R::root},
      {"[mpiexec@n1] match_arg (utils/args/args.c:163): unrecognized argument mca", F::ranks_not_started, R::root},
      {"srun: error: n1: task 3: Exited with exit code 1", F::program, R::confirmation},
      {"slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-03-02T04:11:09 ***", F::interrupted, R::cascade},
      {"slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-03-02T04:11:09 DUE TO TIME LIMIT ***", F::wall_time,
       R::root},
      {"slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-03-02T04:11:09 DUE TO PREEMPTION ***", F::preempted,
       R::root},
      {"Traceback (most recent call last):", F::exception, R::confirmation},
      {"ValueError: step 7 is odd", F::exception, R::root},
      {"[rank3]: my.package.CustomException: no", F::exception, R::root},
      {"AssertionError", F::exception, R::root},
      {"Segmentation fault (core dumped)", F::crash, R::root},
      {"bash: line 1: python4: command not found", F::cannot_execute, R::root},
      {"./a.out: error while loading shared libraries: libx.so.1: cannot open shared object file", F::cannot_execute,
       R::root},
      {"RuntimeError: The server socket has failed to listen: Address already in use", F::port_in_use, R::root},
      {"longhaul-engine rank 1: stage train: rank 2: asked to stop by SIGTERM: stopped after step 20 of 60; a "
       "checkpoint "
       "of it was saved",
       F::interrupted, R::root},
      {"longhaul-engine rank 1: asked to stop", F::interrupted, R::cascade},
      {"longhaul-engine rank 1: told to stop", F::interrupted, R::cascade},  // of an older program
      {"longhaul-engine: rank 2 left: its process ended", F::connection_lost, R::cascade},
      {"longhaul-engine rank 2: step 7: silent corruption: the sum of the gradients of step 7", F::silent_corruption,
       R::root},
      {"longhaul-engine rank 1: step 7: rank 2 left: the sum of the gradients of step 7", F::connection_lost,
       R::cascade},
      {"longhaul-engine: this and that is wrong", F::exception, R::root},
      {"longhaul-engine rank 1: faulted, waits for an order to restart: a: rank 2: No space left on device",
       F::exception, R::cascade},
      {"Killed", F::killed, R::root},
  };
  for (const Case& c : cases) {
    CAPTURE(c.line);
    const auto found = classify_line(c.line);
    REQUIRE(found.has_value());
    CHECK(std::string(to_string(found->fault)) == to_string(c.fault));
    CHECK(std::string(to_string(found->role)) == to_string(c.role));
  }
}

TEST_CASE("lines of a healthy run say nothing") {
  for (const char* line :
       {"", "step 12 loss 2.04 grad_norm 0.7", "Error rate 0.1", "checkpoint of step 400 is whole",
        "UserWarning: out of memory handling is off", "WARNING: connection reset by peer, trying again",
        "xid (no number", "see FooError: it says more", "rank 3: batches left: 7", "rank 3 joined"}) {
    CAPTURE(line);
    CHECK(!classify_line(line));
  }
}

TEST_CASE("any bytes are read without harm") {
  std::string line;
  for (int c = 0; c < 256; ++c) line += static_cast<char>(c);
  CHECK(!classify_line(line));
  CHECK(classify_line(line + " out of memory")->fault == F::out_of_memory);
  CHECK(classify_line("xid (): 999999999999999999999999")->fault == F::gpu_event);
}

}  // namespace longhaul
