#include "engine/comm/mpi_communicator.h"

#define OMPI_SKIP_MPICXX 1  // the C interface only; other libraries know the same wish by the next name
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/text/text.h"
#include "engine/comm/mpi_library.h"
#include "engine/comm/poll_pause.h"
#include "engine/comm/tree_sum.h"
#include "engine/core/tensor/memory_accounts.h"

namespace longhaul {
namespace {

// The staging memory and the messages of one operation. Kept alive as long as a message may arrive.
struct Messages {
  struct Receive {
    int rank;  // of the group
    std::size_t offset, bytes;
    MPI_Request request;
  };
  std::vector<std::byte> outgoing, incoming;
  std::vector<MPI_Request> sends;
  std::vector<Receive> receives;
  int epochs = 0;  // that began since it was given up

  // What has come or gone by now is done with; true when nothing is left.
  bool settled() {
    bool all = true;
    const auto test = [&all](MPI_Request& request) {
      int done = 0;
      if (request != MPI_REQUEST_NULL && MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) done = 0;
      all = all && request == MPI_REQUEST_NULL;
    };
    for (Receive& receive : receives) test(receive.request);
    for (MPI_Request& request : sends) test(request);
    return all;
  }
  void cancel_receives() {
    for (Receive& receive : receives)
      if (receive.request != MPI_REQUEST_NULL) MPI_Cancel(&receive.request);
  }
};

}  // namespace

struct MpiState {
  MPI_Comm control = MPI_COMM_NULL;
  int rank = 0, size = 1;
  bool control_lost = false;
  bool parted = false;  // something was given up since the last world: others may not come to a meeting
  std::vector<MPI_Comm> worlds;
  std::vector<std::unique_ptr<Messages>> quarantine;

  // All ranks have left what came before and met again. Messages that were on their way find their receives in the next
  // moments; what nobody has sent until the epoch after this is not going to come, and such receives are cancelled.
  void begin_epoch() {
    parted = false;
    std::erase_if(quarantine, [](const std::unique_ptr<Messages>& messages) {
      if (messages->settled()) return true;
      if (++messages->epochs < 2) return false;
      messages->cancel_receives();
      return messages->settled();
    });
  }

  ~MpiState() {
    if (!parted && !control_lost) meet();
    for (auto& messages : quarantine) {
      for (auto& receive : messages->receives) {
        if (receive.request == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&receive.request);
        MPI_Request_free(&receive.request);
      }
      for (MPI_Request& request : messages->sends) {
        if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
      }
    }
    // Worlds with given-up messages are left to MPI_Finalize: freeing them would wait for the other side.
    if (quarantine.empty() && !control_lost) {
      for (MPI_Comm& world : worlds) MPI_Comm_free(&world);
      MPI_Comm_free(&control);
    }
    // It waits for all ranks, and those that have met without this one do not come: its exit code has to end them.
    if (!control_lost) MPI_Finalize();
  }

  // All ranks have sent what they have to send: a rank that finalizes earlier closes sockets that others still write
  // to, and those may wait for ever. For ten seconds at most; a rank that is gone must not keep the others.
  void meet() {
    MPI_Request barrier = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(control, &barrier) != MPI_SUCCESS) return;
    constexpr int polls_max = 10'000;
    for (int polls = 0, done = 0; done == 0 && polls < polls_max; ++polls) {
      if (MPI_Test(&barrier, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
      const struct timespec pause{0, 1'000'000};
      if (done == 0) nanosleep(&pause, nullptr);
    }
  }
};

namespace {

std::string mpi_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return format("MPI error {}", code);
  return std::string(text, static_cast<std::size_t>(length));
}
#define LH_MPI(call)                                                                                            \
  do {                                                                                                          \
    const int lh_mpi_code = (call);                                                                             \
    if (lh_mpi_code != MPI_SUCCESS) return make_error(ErrorCode::internal, #call ": " + mpi_text(lh_mpi_code)); \
  } while (0)

// Where a group lies in its world.
struct Place {
  std::shared_ptr<MpiState> state;
  MPI_Comm world = MPI_COMM_NULL;
  std::vector<int> members;  // world ranks
  int axis = 0, rank = 0;
};

constexpr int kMailTags = 16 * 1024;  // below: collectives, 1024 per axis; above: sends and receives, 1024 per axis

// Copies to and from staging memory, one or two rounds of messages between all pairs, sums in rank order.
class MpiOperation final : public CommOperation {
 public:
  MpiOperation(const Place& place, CollectiveKind kind, ConstBytes in, Bytes out, int peer, int tag,
               std::size_t piece_bytes_max, MemoryAccount* memory, ContributionRecord* record)
      : place_(place),
        kind_(kind),
        in_(in),
        out_(out),
        peer_(peer),
        tag_(tag),
        piece_bytes_max_(piece_bytes_max),
        messages_(std::make_unique<Messages>()),
        memory_(memory),
        record_(record) {}

  Status begin(std::span<const std::size_t> in_bytes, std::span<const std::size_t> out_bytes) {
    const Status begun = begin_messages(in_bytes, out_bytes);
    memory_.set(bytes_of_vector(messages_->outgoing) + bytes_of_vector(messages_->incoming));
    return begun;
  }

  Status begin_messages(std::span<const std::size_t> in_bytes, std::span<const std::size_t> out_bytes) {
    const std::size_t size = place_.members.size();
    messages_->outgoing.assign(in_.begin(), in_.end());
    if (record_)
      record_->sent = contribution_checksums(kind_, messages_->outgoing, static_cast<int>(size), record_->by);
    switch (kind_) {
      case CollectiveKind::barrier: return exchange([](std::size_t) { return Piece{}; }, 0);
      case CollectiveKind::all_gather: return exchange([&](std::size_t) { return Piece{0, in_.size()}; }, in_.size());
      case CollectiveKind::all_to_all_v: return exchange_unlike_rows(in_bytes, out_bytes);
      case CollectiveKind::all_to_all:
      case CollectiveKind::reduce_scatter_sum: {
        const std::size_t row = in_.size() / size;
        return exchange([row](std::size_t r) { return Piece{r * row, row}; }, row);
      }
      case CollectiveKind::all_reduce_sum:
      case CollectiveKind::all_reduce_max:
        if (in_.size() * size <= small_all_reduce_bytes)
          return exchange([&](std::size_t) { return Piece{0, in_.size()}; }, in_.size());
        in_pieces_ = true;
        return exchange([this](std::size_t r) { return piece(r); }, piece(own()).bytes);
      case CollectiveKind::broadcast:
        if (place_.rank != peer_) {
          messages_->outgoing.clear();
          messages_->incoming.resize(out_.size());
          return receive(static_cast<std::size_t>(peer_), 0, out_.size());
        }
        for (std::size_t r = 0; r < size; ++r) {
          if (r != own()) LH_CHECK(send(r, {0, in_.size()}));
        }
        return {};
      case CollectiveKind::send: return send(static_cast<std::size_t>(peer_), {0, in_.size()});
      case CollectiveKind::recv:
        messages_->incoming.resize(out_.size());
        return receive(static_cast<std::size_t>(peer_), 0, out_.size());
    }
    return {};
  }

  Result<bool> poll() override {
    LH_TRY(const bool arrived, all_arrived());
    if (!arrived) return false;
    if (record_ && !second_round_) note_received();
    if (in_pieces_ && !second_round_) {
      second_round_ = true;
      LH_CHECK(start_second_round());
      return poll();
    }
    deliver();
    return true;
  }

  std::vector<int> waiting_for() override {
    std::vector<int> ranks;
    for (const auto& receive : messages_->receives) {
      if (receive.request != MPI_REQUEST_NULL) ranks.push_back(receive.rank);
    }
    return ranks;
  }

  void abandon(const std::string&) override {
    if (!messages_) return;
    place_.state->quarantine.push_back(std::move(messages_));
    place_.state->parted = true;
  }

 private:
  struct Piece {
    std::size_t offset = 0, bytes = 0;
  };

  std::size_t own() const { return static_cast<std::size_t>(place_.rank); }
  // The elements that rank r sums, when a big array is reduced in pieces.
  Piece piece(std::size_t r) const {
    const auto [begin, size] =
        contribution_to(kind_, in_.size(), static_cast<int>(place_.members.size()), static_cast<int>(r));
    return {begin, size};
  }
  int tag() const { return tag_ + (second_round_ ? 1 : 0); }

  // MPI counts in int; messages of one tag between two ranks arrive in their order.
  Status send(std::size_t rank, Piece p) {
    return for_message_pieces(p.bytes, piece_bytes_max_, [&](std::size_t begin, std::size_t bytes) -> Status {
      messages_->sends.push_back(MPI_REQUEST_NULL);
      LH_MPI(MPI_Isend(messages_->outgoing.data() + p.offset + begin, static_cast<int>(bytes), MPI_BYTE,
                       place_.members[rank], tag(), place_.world, &messages_->sends.back()));
      return {};
    });
  }
  Status receive(std::size_t rank, std::size_t offset, std::size_t all) {
    return for_message_pieces(all, piece_bytes_max_, [&](std::size_t begin, std::size_t bytes) -> Status {
      messages_->receives.push_back({static_cast<int>(rank), offset + begin, bytes, MPI_REQUEST_NULL});
      LH_MPI(MPI_Irecv(messages_->incoming.data() + offset + begin, static_cast<int>(bytes), MPI_BYTE,
                       place_.members[rank], tag(), place_.world, &messages_->receives.back().request));
      return {};
    });
  }

  // Sends piece to_rank(r) of the outgoing bytes to every rank r and receives `row` bytes from each, in rank order.
  template <class F>
  Status exchange(const F& to_rank, std::size_t row) {
    const std::size_t size = place_.members.size();
    messages_->incoming.resize(row * size);
    messages_->receives.reserve(size);
    messages_->sends.reserve(2 * size);
    for (std::size_t r = 0; r < size; ++r) {
      if (r != own()) LH_CHECK(receive(r, r * row, row));
    }
    for (std::size_t r = 0; r < size; ++r) {
      if (r != own()) LH_CHECK(send(r, to_rank(r)));
    }
    const Piece mine = to_rank(own());
    if (row > 0) std::memcpy(messages_->incoming.data() + own() * row, messages_->outgoing.data() + mine.offset, row);
    return {};
  }

  Status exchange_unlike_rows(std::span<const std::size_t> in_bytes, std::span<const std::size_t> out_bytes) {
    const std::size_t size = place_.members.size();
    messages_->incoming.resize(out_.size());
    messages_->receives.reserve(size);
    messages_->sends.reserve(size);
    std::size_t from = 0, to = 0, own_from = 0, own_to = 0;
    for (std::size_t r = 0; r < size; ++r) {
      if (r == own()) own_to = to;
      if (r != own()) LH_CHECK(receive(r, to, out_bytes[r]));
      to += out_bytes[r];
    }
    for (std::size_t r = 0; r < size; ++r) {
      if (r == own()) own_from = from;
      if (r != own()) LH_CHECK(send(r, {from, in_bytes[r]}));
      from += in_bytes[r];
    }
    if (in_bytes[own()] != out_bytes[own()])
      return make_error(ErrorCode::internal, format("rank {} sends itself {} bytes and expects {}", own(),
                                                    in_bytes[own()], out_bytes[own()]));
    if (in_bytes[own()] > 0)
      std::memcpy(messages_->incoming.data() + own_to, messages_->outgoing.data() + own_from, in_bytes[own()]);
    return {};
  }

  Result<bool> all_arrived() {
    bool all = true;
    for (auto& receive : messages_->receives) {
      if (receive.request == MPI_REQUEST_NULL) continue;
      int done = 0;
      MPI_Status status;
      LH_MPI(MPI_Test(&receive.request, &done, &status));
      all = all && done != 0;
      if (done == 0) continue;
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      if (static_cast<std::size_t>(bytes) != receive.bytes) {
        return make_error(ErrorCode::internal,
                          format("rank {} sent {} bytes, {} were expected", receive.rank, bytes, receive.bytes),
                          "all ranks of a group must start the same collectives in the same order");
      }
    }
    for (MPI_Request& request : messages_->sends) {
      if (request == MPI_REQUEST_NULL) continue;
      int done = 0;
      LH_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
      all = all && done != 0;
    }
    return all;
  }

  void note_received() {
    const std::size_t row = messages_->incoming.size() / place_.members.size();
    record_->received.clear();
    for (std::size_t r = 0; r < place_.members.size(); ++r)
      record_->received.push_back(
          contribution_checksum(std::span(messages_->incoming).subspan(r * row, row), record_->by));
  }

  // The sum of the incoming rows, one per rank, each as long as `out`.
  void reduce_rows(std::span<float> out) const {
    std::vector<const float*> terms;
    for (std::size_t r = 0; r < place_.members.size(); ++r) {
      terms.push_back(reinterpret_cast<const float*>(messages_->incoming.data()) + r * out.size());
    }
    kind_ == CollectiveKind::all_reduce_max ? tree_max(terms, out) : tree_sum(terms, out);
  }

  // What was sent has gone: its memory holds the sum.
  Status start_second_round() {
    messages_->outgoing.resize(piece(own()).bytes);
    const std::span<const std::byte> bytes = messages_->outgoing;
    reduce_rows({reinterpret_cast<float*>(messages_->outgoing.data()), bytes.size() / sizeof(float)});
    messages_->incoming.resize(in_.size());
    memory_.set(bytes_of_vector(messages_->outgoing) + bytes_of_vector(messages_->incoming));
    messages_->receives.clear();
    messages_->sends.clear();
    for (std::size_t r = 0; r < place_.members.size(); ++r) {
      if (r != own()) LH_CHECK(receive(r, piece(r).offset, piece(r).bytes));
    }
    for (std::size_t r = 0; r < place_.members.size(); ++r) {
      if (r != own()) LH_CHECK(send(r, {0, bytes.size()}));
    }
    if (!bytes.empty()) std::memcpy(messages_->incoming.data() + piece(own()).offset, bytes.data(), bytes.size());
    return {};
  }

  void deliver() {
    if (out_.empty() || kind_ == CollectiveKind::send) return;
    const bool reduces = kind_ == CollectiveKind::all_reduce_sum || kind_ == CollectiveKind::all_reduce_max ||
                         kind_ == CollectiveKind::reduce_scatter_sum;
    if (reduces && !in_pieces_) {
      reduce_rows({reinterpret_cast<float*>(out_.data()), out_.size() / sizeof(float)});
    } else if (kind_ != CollectiveKind::broadcast || place_.rank != peer_) {
      std::memcpy(out_.data(), messages_->incoming.data(), out_.size());
    }
  }

  Place place_;
  CollectiveKind kind_;
  ConstBytes in_;
  Bytes out_;
  int peer_, tag_;
  std::size_t piece_bytes_max_;
  std::unique_ptr<Messages> messages_;
  MemoryCharge memory_;
  ContributionRecord* record_;  // may be null
  bool in_pieces_ = false, second_round_ = false;
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(Place place, std::uint64_t epoch, const std::string& name, const CommOptions& options)
      : Communicator(place.rank, place.members, epoch, name, options), place_(std::move(place)) {}

  std::unique_ptr<Communicator> subgroup(int axis, const std::string& name, std::span<const int> ranks) override {
    Place place{place_.state, place_.world, {}, axis, -1};
    for (int r : ranks) {
      LH_ASSERT(r >= 0 && r < size(), format("{}: rank {} of {}", name, r, size()));
      if (r == rank()) place.rank = static_cast<int>(place.members.size());
      place.members.push_back(place_.members[static_cast<std::size_t>(r)]);
    }
    LH_ASSERT(place.rank >= 0 && axis >= 0 && axis < 16,
              format("{}: axis {}, rank {} must be a member", name, axis, rank()));
    return std::make_unique<MpiCommunicator>(place, epoch(), name, options());
  }

 protected:
  Result<std::unique_ptr<CommOperation>> start(const Arguments& a) override {
    const bool mail = a.kind == CollectiveKind::send || a.kind == CollectiveKind::recv;
    const int tag =
        mail ? kMailTags + place_.axis * 1024 + a.tag : place_.axis * 1024 + static_cast<int>(collectives_++ % 512) * 2;
    auto operation = std::make_unique<MpiOperation>(place_, a.kind, a.in, a.out, a.peer, tag, options().piece_bytes_max,
                                                    options().memory, a.record);
    const Status begun = operation->begin(a.in_bytes, a.out_bytes);
    if (!begun) {
      operation->abandon(begun.error().what);
      return begun.error();
    }
    return std::unique_ptr<CommOperation>(std::move(operation));
  }

 private:
  Place place_;
  std::uint64_t collectives_ = 0;
};

// Open MPI asks the other side before it sends more than 64 KiB over TCP, and neither asks nor answers but while it is
// called: two products go by before the first byte moves. Up to a few MiB it had better send at once. What is in the
// environment already stays, and other transports and libraries do not look at it.
void send_at_once_over_tcp() {
  constexpr const char* bytes = "4194304";
  for (const char* name :
       {"OMPI_MCA_btl_tcp_eager_limit", "OMPI_MCA_btl_tcp_rndv_eager_limit", "OMPI_MCA_btl_tcp_max_send_size"})
    setenv(name, bytes, 0);
}

}  // namespace

Result<std::unique_ptr<MpiRuntime>> MpiRuntime::start(int* argc, char*** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  send_at_once_over_tcp();
  place_own_mpi();
  int provided = 0;
  LH_MPI(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided));
  auto state = std::make_shared<MpiState>();
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  LH_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &state->control));
  LH_MPI(MPI_Comm_set_errhandler(state->control, MPI_ERRORS_RETURN));
  LH_MPI(MPI_Comm_rank(state->control, &state->rank));
  LH_MPI(MPI_Comm_size(state->control, &state->size));
  return std::unique_ptr<MpiRuntime>(new MpiRuntime(std::move(state)));
}

MpiRuntime::~MpiRuntime() = default;
int MpiRuntime::rank() const {
  return state_->rank;
}
int MpiRuntime::size() const {
  return state_->size;
}
std::size_t MpiRuntime::quarantined() const {
  return state_->quarantine.size();
}

Result<std::unique_ptr<Communicator>> MpiRuntime::world(std::uint64_t epoch, const CommOptions& options,
                                                        std::int64_t meet_ms) {
  LH_ASSERT(options.clock != nullptr, "a communicator needs a clock");
  if (state_->control_lost) {
    return make_error(ErrorCode::unavailable, "the control communicator is lost", "start the process anew");
  }
  // MPI writes the handle when the request is done: it must live as long as the request may.
  auto* fresh = new MPI_Comm(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  LH_MPI(MPI_Comm_idup(state_->control, fresh, &request));
  if (meet_ms <= 0) meet_ms = options.timeout_ms;
  const Deadline deadline(*options.clock, meet_ms);
  PollPause pause;
  for (;;) {
    int done = 0;
    LH_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done != 0) break;
    const bool stop = options.abort != nullptr && options.abort->load(std::memory_order_acquire);
    if (stop || deadline.passed()) {
      state_->control_lost = true;  // the pending request and `fresh` stay with MPI
      return make_error(
          stop ? ErrorCode::aborted : ErrorCode::timeout,
          format("new communicator of epoch {}: not all of {} ranks came within {} ms", epoch, state_->size, meet_ms),
          "start the process anew");
    }
    pause.next();
  }
  Place place{state_, *fresh, std::vector<int>(static_cast<std::size_t>(state_->size)), 0, state_->rank};
  delete fresh;
  LH_MPI(MPI_Comm_set_errhandler(place.world, MPI_ERRORS_RETURN));
  std::iota(place.members.begin(), place.members.end(), 0);
  state_->worlds.push_back(place.world);
  state_->begin_epoch();
  return std::unique_ptr<Communicator>(new MpiCommunicator(std::move(place), epoch, "world", options));
}

}  // namespace longhaul
