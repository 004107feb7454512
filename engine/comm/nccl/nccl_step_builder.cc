#include "engine/comm/nccl/nccl_step_builder.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "base/text/text.h"

namespace longhaul {
namespace {

std::int64_t length(std::size_t bytes) {
  return static_cast<std::int64_t>(bytes);
}
constexpr std::int64_t digest_bytes = sizeof(std::uint64_t);

std::int64_t elements(std::size_t bytes) {
  return length(bytes / sizeof(float));
}
bool is_sum_or_max(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce_sum || kind == CollectiveKind::all_reduce_max ||
         kind == CollectiveKind::reduce_scatter_sum;
}
bool overlap(ConstBytes a, ConstBytes b) {
  const std::less<> before;
  return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

struct Part {
  const std::byte* data;
  std::size_t bytes;
};
struct Place {
  std::byte* data;
  std::size_t bytes;
};

Status accepted(const NcclLibrary& nccl, const char* call, ncclResult_t result, ncclComm_t communicator) {
  if (result == ncclSuccess || result == ncclInProgress) return {};
  return nccl.failed(call, result, communicator);
}

// Every rank sends part(r) to each rank r and takes place(r) of it, all at once; a rank's own is copied.
template <class Parts, class Places>
Status exchange(const NcclLibrary& nccl, const NcclGroup& group, ncclComm_t communicator, DeviceQueue& queue,
                const Parts& part, const Places& place) {
  const Part mine = part(group.rank());
  if (const Place own = place(group.rank()); mine.bytes > 0 && own.data != mine.data)
    queue.copy(mine.data, own.data, length(mine.bytes));
  LH_CHECK(accepted(nccl, "ncclGroupStart", nccl.ncclGroupStart(), communicator));
  Status asked;
  for (int r = 0; r < group.size() && asked.ok(); ++r) {
    if (r == group.rank()) continue;
    const Part to = part(r);
    const Place from = place(r);
    if (to.bytes > 0)
      asked = accepted(nccl, "ncclSend", nccl.ncclSend(to.data, to.bytes, ncclInt8, r, communicator, queue.stream()),
                       communicator);
    if (asked.ok() && from.bytes > 0)
      asked = accepted(nccl, "ncclRecv",
                       nccl.ncclRecv(from.data, from.bytes, ncclInt8, r, communicator, queue.stream()), communicator);
  }
  const Status ended = accepted(nccl, "ncclGroupEnd", nccl.ncclGroupEnd(), communicator);
  return asked.ok() ? ended : asked;
}

// One message to a rank and one from a rank, in one kernel.
Status pass_on(const NcclLibrary& nccl, NcclWork& w, ncclComm_t communicator, cudaStream_t stream) {
  const NcclRequest& request = w.request;
  if (request.in.empty() && request.out.empty()) return {};
  LH_CHECK(accepted(nccl, "ncclGroupStart", nccl.ncclGroupStart(), communicator));
  Status asked;
  if (!request.in.empty())
    asked =
        accepted(nccl, "ncclSend", nccl.ncclSend(w.in, request.in.size(), ncclInt8, request.peer, communicator, stream),
                 communicator);
  if (asked.ok() && !request.out.empty())
    asked =
        accepted(nccl, "ncclRecv",
                 nccl.ncclRecv(w.out, request.out.size(), ncclInt8, request.from, communicator, stream), communicator);
  const Status ended = accepted(nccl, "ncclGroupEnd", nccl.ncclGroupEnd(), communicator);
  return asked.ok() ? ended : asked;
}

// Where the digests of what this rank takes up and of what has come to it stand, one for each rank, and behind them
// what taking them needs.
std::uint64_t* digests_of(const NcclWork& work) {
  return reinterpret_cast<std::uint64_t*>(work.digests.data());
}

// A kernel that adds up rows of `bytes` each.
void add_rows(const NcclKernels& kernels, DeviceQueue& queue, CollectiveKind kind, int rows, std::size_t bytes,
              const std::byte* terms, std::byte* out) {
  if (bytes == 0) return;
  queue.run([=, tree_rows = kernels.tree_rows](CUstream_st* stream) {
    tree_rows(stream, kind == CollectiveKind::all_reduce_max, rows, length(bytes / sizeof(float)),
              reinterpret_cast<const float*>(terms), reinterpret_cast<float*>(out));
  });
}

}  // namespace

Status NcclStepBuilder::build() {
  LH_CHECK(place_spans());
  LH_CHECK(add_steps());
  add_end();
  return {};
}

void NcclStepBuilder::add(const char* call, std::function<Status(NcclWork&, ncclComm_t, DeviceQueue&)> step) {
  group_.add(call, [work = work_, step = std::move(step)](ncclComm_t communicator, DeviceQueue& queue) {
    return step(*work, communicator, queue);
  });
}

// Spans of the host get memory of the device, and pinned memory on the way.
Status NcclStepBuilder::place_spans() {
  NcclWork& w = *work_;
  const ConstBytes in = w.request.in;
  const Bytes out = w.request.out;
  const auto on_device = [&](ConstBytes bytes) { return state_.device.owns(bytes.data()); };
  const bool in_place = in.data() == out.data() && in.size() == out.size();
  w.in = in.data(), w.out = out.data();
  bool copy_within = false;
  if (!in.empty() && !on_device(in)) {
    LH_TRY(w.in_block, group_.staging(StagingRole::in, length(in.size())));
    LH_TRY(w.in_on_host, state_.on_host.take(length(in.size())));
    std::memcpy(w.in_on_host.data(), in.data(), in.size());
    w.in = w.in_block.data();
  } else if (!in_place && !is_sum_or_max(w.request.kind) && overlap(in, out)) {
    LH_TRY(w.in_block, group_.staging(StagingRole::in, length(in.size())));
    w.in = w.in_block.data(), copy_within = true;
  }
  if (!out.empty() && !on_device(out)) {
    LH_TRY(w.out_on_host, state_.on_host.take(length(out.size())));
    if (!in_place) {
      LH_TRY(w.out_block, group_.staging(StagingRole::out, length(out.size())));
    }
    w.out = in_place ? w.in_block.data() : w.out_block.data();
  }
  add(nullptr, [copy_within](NcclWork& work, ncclComm_t, DeviceQueue& queue) -> Status {
    queue.follow_operations();
    const ConstBytes given = work.request.in;
    if (work.in_on_host.data() != nullptr)
      queue.copy(work.in_on_host.data(), work.in_block.data(), length(given.size()));
    if (copy_within) queue.copy(given.data(), work.in_block.data(), length(given.size()));
    return {};
  });
  return {};
}

Status NcclStepBuilder::add_steps() {
  const NcclRequest& request = work_->request;
  const std::shared_ptr<const NcclLibrary> nccl = state_.nccl;
  NcclGroup* const group = &group_;
  if (is_sum_or_max(request.kind) && state_.options.sums == NcclSums::tree)
    return request.kind == CollectiveKind::reduce_scatter_sum ? add_tree_reduce_scatter() : add_tree_all_reduce();
  if (request.record != nullptr)
    return make_error(ErrorCode::unsupported, "NCCL's own sums do not show what each rank gave",
                      "check contributions with sums along the tree (NcclSums::tree)");
  const auto call = [&](const char* name, const auto& ask) {
    add(name, [nccl, name, ask](NcclWork& w, ncclComm_t communicator, DeviceQueue& queue) {
      return accepted(*nccl, name, ask(w, communicator, queue.stream()), communicator);
    });
  };
  switch (request.kind) {
    case CollectiveKind::all_reduce_sum:
    case CollectiveKind::all_reduce_max:
      call("ncclAllReduce", [nccl](NcclWork& w, ncclComm_t c, cudaStream_t s) {
        const ncclRedOp_t op = w.request.kind == CollectiveKind::all_reduce_max ? ncclMax : ncclSum;
        return nccl->ncclAllReduce(w.in, w.out, w.request.in.size() / sizeof(float), ncclFloat32, op, c, s);
      });
      return {};
    case CollectiveKind::reduce_scatter_sum:
      call("ncclReduceScatter", [nccl](NcclWork& w, ncclComm_t c, cudaStream_t s) {
        return nccl->ncclReduceScatter(w.in, w.out, w.request.out.size() / sizeof(float), ncclFloat32, ncclSum, c, s);
      });
      return {};
    case CollectiveKind::all_gather:
      call("ncclAllGather", [nccl](NcclWork& w, ncclComm_t c, cudaStream_t s) {
        return nccl->ncclAllGather(w.in, w.out, w.request.in.size(), ncclInt8, c, s);
      });
      return {};
    case CollectiveKind::broadcast:
      call("ncclBroadcast", [nccl](NcclWork& w, ncclComm_t c, cudaStream_t s) {
        return nccl->ncclBroadcast(w.in, w.out, w.request.in.size(), ncclInt8, w.request.peer, c, s);
      });
      return {};
    case CollectiveKind::barrier: {
      LH_TRY(work_->rows, group_.staging(StagingRole::rows, sizeof(float)));
      call("ncclAllReduce", [nccl](NcclWork& w, ncclComm_t c, cudaStream_t s) {
        return nccl->ncclAllReduce(w.rows.data(), w.rows.data(), 1, ncclInt32, ncclSum, c, s);
      });
      return {};
    }
    case CollectiveKind::all_to_all:
      add("ncclSend and ncclRecv", [nccl, group](NcclWork& w, ncclComm_t c, DeviceQueue& queue) {
        const std::size_t row = w.request.in.size() / static_cast<std::size_t>(group->size());
        return exchange(
            *nccl, *group, c, queue, [&](int r) { return Part{w.in + static_cast<std::size_t>(r) * row, row}; },
            [&](int r) { return Place{w.out + static_cast<std::size_t>(r) * row, row}; });
      });
      return {};
    case CollectiveKind::all_to_all_v: return add_all_to_all_v();
    case CollectiveKind::send:
      if (request.from >= 0) {
        add("ncclSend and ncclRecv",
            [nccl](NcclWork& w, ncclComm_t c, DeviceQueue& queue) { return pass_on(*nccl, w, c, queue.stream()); });
        return {};
      }
      call("ncclSend", [nccl](NcclWork& w, ncclComm_t c, cudaStream_t s) {
        if (w.request.in.empty()) return ncclSuccess;
        return nccl->ncclSend(w.in, w.request.in.size(), ncclInt8, w.request.nccl_peer, c, s);
      });
      return {};
    case CollectiveKind::recv:
      call("ncclRecv", [nccl](NcclWork& w, ncclComm_t c, cudaStream_t s) {
        if (w.request.out.empty()) return ncclSuccess;
        return nccl->ncclRecv(w.out, w.request.out.size(), ncclInt8, w.request.nccl_peer, c, s);
      });
      return {};
  }
  return {};
}

// NCCL does not say what a rank that sends less than another expects, and may wait for ever: the sizes go first, and
// the host looks at them while the rows are under way.
Status NcclStepBuilder::add_all_to_all_v() {
  const auto size = static_cast<std::size_t>(group_.size());
  const std::size_t bytes = size * sizeof(std::uint64_t);
  NcclWork& w = *work_;
  LH_TRY(w.sizes, group_.staging(StagingRole::sizes, length(2 * bytes)));
  LH_TRY(w.sizes_on_host, state_.on_host.take(length(2 * bytes)));
  for (std::size_t r = 0; r < size; ++r) {
    const std::uint64_t value = w.request.in_bytes[r];
    std::memcpy(w.sizes_on_host.data() + r * sizeof value, &value, sizeof value);
  }
  const std::shared_ptr<const NcclLibrary> nccl = state_.nccl;
  NcclGroup* const group = &group_;
  add("ncclSend and ncclRecv of sizes", [nccl, group, bytes](NcclWork& work, ncclComm_t c, DeviceQueue& queue) {
    queue.copy(work.sizes_on_host.data(), work.sizes.data(), length(bytes));
    const auto at = [](int r) { return static_cast<std::size_t>(r) * sizeof(std::uint64_t); };
    return exchange(
        *nccl, *group, c, queue, [&](int r) { return Part{work.sizes.data() + at(r), sizeof(std::uint64_t)}; },
        [&](int r) { return Place{work.sizes.data() + bytes + at(r), sizeof(std::uint64_t)}; });
  });
  add("ncclSend and ncclRecv", [nccl, group, bytes](NcclWork& work, ncclComm_t c, DeviceQueue& queue) {
    queue.copy(work.sizes.data() + bytes, work.sizes_on_host.data() + bytes, length(bytes));
    work.sizes_came = queue.mark();
    const auto begin = [](const std::vector<std::size_t>& sizes, int r) {
      return std::accumulate(sizes.begin(), sizes.begin() + r, std::size_t{0});
    };
    const NcclRequest& asked = work.request;
    return exchange(
        *nccl, *group, c, queue,
        [&](int r) { return Part{work.in + begin(asked.in_bytes, r), asked.in_bytes[static_cast<std::size_t>(r)]}; },
        [&](int r) {
          return Place{work.out + begin(asked.out_bytes, r), asked.out_bytes[static_cast<std::size_t>(r)]};
        });
  });
  const auto own = static_cast<std::size_t>(group_.rank());
  if (w.request.in_bytes[own] != w.request.out_bytes[own])
    return make_error(ErrorCode::internal, format("rank {} sends itself {} bytes and expects {}", own,
                                                  w.request.in_bytes[own], w.request.out_bytes[own]));
  return {};
}

// Digests of what this rank gives and of what it takes, where somebody wants them.
Status NcclStepBuilder::note_rows(std::size_t rows_bytes) {
  NcclWork& w = *work_;
  w.rows_bytes = rows_bytes;
  if (w.request.record == nullptr) return {};
  if (w.request.record->by != ContributionChecksum::words)
    return make_error(ErrorCode::unsupported, "checksums by xxh3 of contributions that lie on a device",
                      "ask for ContributionChecksum::words");
  const int ranks = group_.size(), parts = contribution_parts(w.request.kind, w.request.in.size(), ranks);
  const std::int64_t given = elements(w.request.in.size());
  const std::int64_t partials = std::max(state_.kernels.digest_partials(given, parts),
                                         state_.kernels.digest_partials(elements(rows_bytes), ranks));
  LH_TRY(w.digests, group_.staging(StagingRole::digests, (2 * ranks + partials) * digest_bytes));
  LH_TRY(w.digests_on_host, state_.on_host.take(2 * ranks * digest_bytes));
  add(nullptr,
      [=, digest_parts = state_.kernels.digest_parts](NcclWork& work, ncclComm_t, DeviceQueue& queue) -> Status {
        queue.run([=, in = reinterpret_cast<const float*>(work.in), out = digests_of(work)](CUstream_st* stream) {
          digest_parts(stream, given, in, parts, out + 2 * ranks, out);
        });
        return {};
      });
  return {};
}

Status NcclStepBuilder::add_tree_reduce_scatter() {
  NcclWork& w = *work_;
  const std::shared_ptr<const NcclLibrary> nccl = state_.nccl;
  NcclGroup* const group = &group_;
  const std::size_t row = w.request.out.size();
  LH_TRY(w.rows, group_.staging(StagingRole::rows, length(w.request.in.size())));
  LH_CHECK(note_rows(w.request.in.size()));
  add("ncclSend and ncclRecv", [nccl, group, row](NcclWork& work, ncclComm_t c, DeviceQueue& queue) {
    return exchange(
        *nccl, *group, c, queue, [&](int r) { return Part{work.in + static_cast<std::size_t>(r) * row, row}; },
        [&](int r) { return Place{work.rows.data() + static_cast<std::size_t>(r) * row, row}; });
  });
  add(nullptr, [kernels = state_.kernels, group, row](NcclWork& work, ncclComm_t, DeviceQueue& queue) -> Status {
    add_rows(kernels, queue, work.request.kind, group->size(), row, work.rows.data(), work.out);
    return {};
  });
  return {};
}

// Small arrays go whole to everybody, as with the other backends; of large ones each rank adds up its piece.
Status NcclStepBuilder::add_tree_all_reduce() {
  NcclWork& w = *work_;
  const std::shared_ptr<const NcclLibrary> nccl = state_.nccl;
  NcclGroup* const group = &group_;
  const std::size_t bytes = w.request.in.size(), size = static_cast<std::size_t>(group_.size());
  const auto piece = [kind = w.request.kind, bytes, ranks = group_.size()](int r) {
    return contribution_to(kind, bytes, ranks, r);
  };
  const std::size_t own = piece(group_.rank()).size;
  const bool in_pieces = length(bytes * size) > small_all_reduce_bytes;
  LH_TRY(w.rows, group_.staging(StagingRole::rows, length(own * size)));
  LH_CHECK(note_rows(own * size));
  if (!in_pieces) {
    add("ncclAllGather", [nccl](NcclWork& work, ncclComm_t c, DeviceQueue& queue) {
      return accepted(
          *nccl, "ncclAllGather",
          nccl->ncclAllGather(work.in, work.rows.data(), work.request.in.size(), ncclInt8, c, queue.stream()), c);
    });
    add(nullptr, [kernels = state_.kernels, group](NcclWork& work, ncclComm_t, DeviceQueue& queue) -> Status {
      add_rows(kernels, queue, work.request.kind, group->size(), work.request.in.size(), work.rows.data(), work.out);
      return {};
    });
    return {};
  }
  add("ncclSend and ncclRecv", [nccl, group, piece, own](NcclWork& work, ncclComm_t c, DeviceQueue& queue) {
    return exchange(
        *nccl, *group, c, queue, [&](int r) { return Part{work.in + piece(r).begin, piece(r).size}; },
        [&](int r) { return Place{work.rows.data() + static_cast<std::size_t>(r) * own, own}; });
  });
  add("ncclSend and ncclRecv of the sum",
      [nccl, kernels = state_.kernels, group, piece, own](NcclWork& work, ncclComm_t c, DeviceQueue& queue) {
        std::byte* const sum = work.out + piece(group->rank()).begin;
        add_rows(kernels, queue, work.request.kind, group->size(), own, work.rows.data(), sum);
        return exchange(
            *nccl, *group, c, queue, [&](int) { return Part{sum, own}; },
            [&](int r) { return Place{work.out + piece(r).begin, piece(r).size}; });
      });
  return {};
}

void NcclStepBuilder::add_end() {
  add(nullptr,
      [write_word = state_.kernels.write_word, digest_parts = state_.kernels.digest_parts, ranks = group_.size()](
          NcclWork& work, ncclComm_t, DeviceQueue& queue) -> Status {
        const NcclRequest& request = work.request;
        if (work.out_on_host.data() != nullptr)
          queue.copy(work.out, work.out_on_host.data(), length(request.out.size()));
        if (std::uint64_t* const digests = digests_of(work)) {
          queue.run([=, n = elements(work.rows_bytes),
                     rows = reinterpret_cast<const float*>(work.rows.data())](CUstream_st* stream) {
            digest_parts(stream, n, rows, ranks, digests + 2 * ranks, digests + ranks);
          });
          queue.copy(digests, work.digests_on_host.data(), 2 * ranks * digest_bytes);
        }
        if (request.word != nullptr)
          queue.run([write_word, word = request.word, count = request.count](CUstream_st* stream) {
            write_word(stream, word, count);
          });
        work.done = queue.mark();
        return {};
      });
}

}  // namespace longhaul
