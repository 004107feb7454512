// Communicators over MPI, with standard calls only. Every operation is made of MPI_Isend and MPI_Irecv between staging
// buffers, so that it can be polled, the ranks not heard of can be named, and a late message never lands in memory that
// the caller has given up. One control communicator is used for nothing but making the next epoch's (MPI_Comm_idup,
// polled as well); sub-groups need none, they are distinguished by tags.
//
// With more ranks than cores start with `mpirun --mca mpi_yield_when_idle 1 --bind-to none`.
#pragma once

#include <memory>

#include "engine/comm/communicator.h"

namespace longhaul {

struct MpiState;

// MPI_Init_thread and MPI_Finalize. One per process, made by main, destroyed after every communicator. The process
// ignores SIGPIPE from then on: between hosts Open MPI writes to sockets whose other end has finished already, and the
// signal would end a rank that has done all its work.
class MpiRuntime {
 public:
  static Result<std::unique_ptr<MpiRuntime>> start(int* argc, char*** argv);
  ~MpiRuntime();
  int rank() const;
  int size() const;

  // All ranks, as a fresh communicator. Every rank asks for the same epochs in the same order. A timeout here means
  // that the control communicator is lost: the process has to be started anew. meet_ms: how long to wait for the others
  // here; 0: the options' timeout.
  Result<std::unique_ptr<Communicator>> world(std::uint64_t epoch, const CommOptions& options,
                                              std::int64_t meet_ms = 0);

  // Operations that were given up and whose memory is kept: until their messages have come and gone, which is looked at
  // whenever a world is made, or until the end.
  std::size_t quarantined() const;

 private:
  explicit MpiRuntime(std::shared_ptr<MpiState> state) : state_(std::move(state)) {}
  std::shared_ptr<MpiState> state_;
};

}  // namespace longhaul
