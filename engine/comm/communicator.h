// Room engine/comm
// Groups of ranks that work together and can always be left: every operation is polled, with a deadline.
// communicator.h is the contract; mpi_, threads_ and staged_communicator.h implement it. mpi_library.h knows which MPI
// was loaded. tree_sum.h makes sums independent of the layout; contribution_check.h finds bits that changed on the way.
// It may not include NCCL's implementation (engine/comm/nccl), which a build without CUDA does not have.
//
// A group of ranks that work together, and that can always be left.
//
// Every operation only starts and returns a Request; waiting polls it with a deadline and an abort flag and never
// blocks in a library. When a wait fails the communicator is broken: what was under way is abandoned (its staging
// memory is kept out of reach of late messages), everything started later fails at once, and the way on is a
// communicator of the next epoch. All ranks of a group must start the same collectives in the same order; sends and
// receives match by (peer, tag) in order. Sums are f32 along one binary tree over the ranks (tree_sum.h): the same bits
// every time, on every backend.
//
// Spans lie in the memory of the host or, where a backend is made for a device (staged_communicator.h, nccl/), each as
// a whole in the host's or in that device's, which distinguishes the two (Device::owns). What was asked of the device
// before an operation is started is done before it begins.
//
// A communicator belongs to one thread at a time. Buffers must stay alive and unchanged until the request is done or
// has failed; after a failure the communicator does not touch them again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/system/clock.h"
#include "contracts/plan/collective_kind.h"
#include "engine/comm/contribution_check.h"
#include "engine/comm/message_pieces.h"
#include "engine/core/tensor/trace.h"

namespace longhaul {

// How many operations were started and finished: the heartbeat page shows them; the rank that is behind is the culprit.
struct CommCounters {
  std::atomic<std::uint64_t> enqueued{0};
  std::atomic<std::uint64_t> completed{0};
  std::atomic<std::uint64_t> waited_ns{0};  // in wait(): communication that nothing hid
  std::atomic<std::uint64_t> given{0};      // bytes that this rank gave to operations (of a receive: none)
  std::atomic<std::uint64_t> sent{0};  // and those of them that it sends to others (contracts/plan/collective_kind.h)
};

struct MemoryAccount;
class HeartbeatPage;

struct CommOptions {
  const Clock* clock = nullptr;              // required; outlives the communicator
  std::int64_t timeout_ms = 60'000;          // of every wait that names none
  const std::atomic<bool>* abort = nullptr;  // raised from outside: every wait ends with ErrorCode::aborted
  // Raised from outside to the epoch of the communicators that are to follow: every wait of an earlier epoch ends with
  // ErrorCode::aborted, those of that epoch go on. Outlives the communicator.
  const std::atomic<std::int64_t>* newest_epoch = nullptr;
  Trace* trace = nullptr;           // spans of every operation, on a lane of the communicator's name; borrowed
  MemoryAccount* memory = nullptr;  // of copies of what is under way, where a backend keeps any; borrowed
  // Where the rank's collectives are counted and its waits are shown, under the name of the communicator; borrowed, and
  // written by the communicator's thread alone.
  HeartbeatPage* beat = nullptr;
  std::size_t piece_bytes_max = message_bytes_max;  // longer messages travel as several (smaller in tests)
};

// What a backend does for one operation; only backends and Communicator see it.
class CommOperation {
 public:
  virtual ~CommOperation() = default;
  virtual Result<bool> poll() = 0;             // true: done, outputs written
  virtual std::vector<int> waiting_for() = 0;  // ranks of the group not heard of, as far as known
  // Sleeps until poll() may answer otherwise, a millisecond at most; false: this backend is not notified, ask it again.
  virtual bool doze() { return false; }
  virtual void abandon(const std::string& reason) = 0;  // never touches the caller's buffers again
};

// A started operation. Destroying one that is not done abandons it and breaks the communicator.
class Request {
 public:
  Request() = default;
  ~Request();
  Request(Request&&) = default;
  Request& operator=(Request&&) = default;
  bool pending() const { return operation_ != nullptr; }

 private:
  friend class Communicator;
  CollectiveKind kind_{};
  int peer_ = 0;
  std::uint64_t sequence_ = 0;
  std::int64_t begun_ns_ = 0;
  std::unique_ptr<CommOperation> operation_;
  std::optional<Error> error_;  // it could not even start
};

// Of messages that a rank waits for before it starts others: at most one to it and one from it are under way.
inline constexpr int waited_for_tag = 0;

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }  // within this group
  int size() const { return size_; }
  const std::vector<int>& members() const { return members_; }  // as ranks of the world, in the group's order
  std::uint64_t epoch() const { return epoch_; }
  const std::string& name() const { return name_; }
  const CommCounters& counters() const { return counters_; }
  bool broken() const { return broken_.has_value(); }

  // data on every rank = sum (largest) over ranks, in place. A record (borrowed until the request is done) is filled in
  // but for `given`: on all ranks or on none.
  Request all_reduce_sum(std::span<float> data, ContributionRecord* record = nullptr);
  Request all_reduce_max(std::span<float> data);
  // in [size, n]: row r goes to rank r; out [n] = sum over ranks of their row for this rank.
  Request reduce_scatter_sum(std::span<const float> in, std::span<float> out, ContributionRecord* record = nullptr);
  // out [size, n]: row r = what rank r gave.
  Request all_gather(ConstBytes in, Bytes out);
  Request broadcast(Bytes data, int root);
  // in, out [size, n]: row r of `in` goes to rank r, row r of `out` comes from rank r.
  Request all_to_all(ConstBytes in, Bytes out);
  // Rows of unlike size: in_bytes[r] bytes of `in` go to rank r, out_bytes[r] of `out` come from rank r, in the order
  // of the ranks. What a rank sends must be what the other expects; the sizes are read when it starts.
  Request all_to_all_v(ConstBytes in, std::span<const std::size_t> in_bytes, Bytes out,
                       std::span<const std::size_t> out_bytes);
  Request barrier();
  Request send(ConstBytes data, int to, int tag = 0);  // tag in [0, 1024)
  Request recv(Bytes data, int from, int tag = 0);     // the message must have exactly this size
  // Both at once: `give` goes to one rank, `take` comes from another, or from the same; an empty one does not travel.
  // Exchanges match exchanges. All ranks of the group start those of a tag in one order, each rank as the source of
  // what its neighbour takes: on a device they share a communicator of all ranks, and are carried out one after the
  // other (engine/comm/nccl_lanes.h).
  Request exchange(ConstBytes give, int to, Bytes take, int from, int tag);

  // Is it done? Errors as in wait, but no deadline.
  Result<bool> test(Request& request);
  // Until done. ErrorCode::timeout names the operation and the ranks not heard of; ErrorCode::aborted says who stopped.
  Status wait(Request request) { return wait(std::move(request), options_.timeout_ms); }
  Status wait(Request request, std::int64_t timeout_ms);

  // The ranks of a sub-group, as ranks of this group, in their new order; this rank must be among them. No message is
  // sent: `axis` distinguishes groups of the same parent (0 is a world's own; 1 .. 15 free, one per axis of the mesh),
  // all its members must use the same. A group of 0 takes the world's place among its members, which start nothing in
  // the world itself. `name` is for errors. Lives no longer than the world it came from.
  virtual std::unique_ptr<Communicator> subgroup(int axis, const std::string& name, std::span<const int> ranks) = 0;

  const CommOptions& options() const { return options_; }

 protected:
  struct Arguments {
    CollectiveKind kind;
    std::uint64_t sequence;
    ConstBytes in;
    Bytes out;
    int peer = 0;  // root, destination or source
    int tag = 0;
    std::span<const std::size_t> in_bytes = {}, out_bytes = {};  // all_to_all_v; valid during start()
    ContributionRecord* record = nullptr;                        // of a sum; may be null
    int from = -1;  // of an exchange: `out` comes from there, `in` goes to `peer`
  };
  Communicator(int rank, std::vector<int> members, std::uint64_t epoch, std::string name, const CommOptions& options);
  virtual Result<std::unique_ptr<CommOperation>> start(const Arguments& arguments) = 0;
  // By default a receive and a send, each as start() has it.
  virtual Result<std::unique_ptr<CommOperation>> start_exchange(const Arguments& arguments);
  // For a communicator that stands on another one, which then counts and shows nothing of its own.
  static Result<std::unique_ptr<CommOperation>> start_of(Communicator& other, const Arguments& arguments) {
    return arguments.from >= 0 ? other.start_exchange(arguments) : other.start(arguments);
  }
  // Where the heartbeat page shows how many collectives are completed; null where it does not. From count_on_device()
  // on the device writes it, as each is completed.
  std::atomic<std::uint64_t>* completed_word() const;
  void count_on_device() { counted_on_device_ = true; }
  static bool counts_on_device(const Communicator& other) { return other.counted_on_device_; }

 private:
  Request begin(CollectiveKind kind, ConstBytes in, Bytes out, int peer, int tag);
  Request begin(Arguments arguments);
  std::uint64_t bytes_sent_by(const Arguments& arguments) const;
  Status wait_for(Request request, std::int64_t timeout_ms);
  Error fail(Request& request, Error error);
  void show_wait(const Request& request) const;
  std::optional<Error> asked_to_leave(const Request& request) const;
  std::string text_of(const Request& request) const;

  int rank_, size_;
  std::vector<int> members_;
  std::uint64_t epoch_;
  std::string name_;
  CommOptions options_;
  CommCounters counters_;
  int shown_as_ = -1;  // on the heartbeat page
  bool counted_on_device_ = false;
  std::uint64_t sequence_ = 0;
  std::optional<Error> broken_;
};

template <class T>
ConstBytes as_const_bytes(std::span<T> data) {
  return std::as_bytes(data);
}

}  // namespace longhaul
