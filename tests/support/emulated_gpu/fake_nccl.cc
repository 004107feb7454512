// A simulated NCCL, built as a shared library and loaded in the place of the real one: ranks are threads of one
// process, a stream is a queue of an emulated GPU (emulated_queue.h), memory is the host's. As strict as the real one
// may be:
//   - only communicators that do not block; a call while an earlier one is in progress is an error;
//   - what was asked for gets to the stream only while the caller looks at the communicator (ncclCommGetAsyncError);
//   - a collective is done when all ranks are, a send when it was received; one that nobody matches occupies its stream
//     until the communicator is aborted; so does a receive of another size than what was sent;
//   - an abort ends what this rank has under way, and that of nobody else;
//   - a finalized communicator is quiet once all its ranks have finalized theirs; where one aborted its own, never.
// fake_nccl_misbehave() makes one rank of the next communicators go wrong.
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/emulated_gpu/emulated_queue.h"

namespace {

enum class What { all_reduce, reduce_scatter, all_gather, broadcast };

struct Entry {
  What what{};
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t count = 0;
  ncclDataType_t type{};
  ncclRedOp_t operation{};
  int root = 0;
};

// A collective under way. All arrive, all compute into memory of their own, all write.
struct Meeting {
  std::map<int, Entry> entries;
  int computed = 0, written = 0;
};
struct Message {
  const std::byte* data;
  std::size_t bytes;
  bool taken = false;
};

// All ranks of one communicator; one mutex for everything, and nobody's memory is touched without it.
struct World {
  std::mutex mutex;
  std::condition_variable changed;
  int size = 0, arrived = 0, parted = 0;
  std::map<std::uint64_t, Meeting> meetings;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Message>>> mail;  // by sender and receiver
};

struct Process {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<World>> worlds;
  std::uint64_t ids = 0;
  std::map<std::string, int> misbehaving;  // what -> rank
};
Process& process() {
  static Process one;
  return one;
}
constexpr int everybody = -2;

bool misbehaves(const char* what, int rank) {
  const std::lock_guard lock(process().mutex);
  const auto found = process().misbehaving.find(what);
  return found != process().misbehaving.end() && (found->second == rank || found->second == everybody);
}

std::size_t bytes_of(ncclDataType_t type) {
  return type == ncclInt8 ? 1 : 4;
}

struct PointToPoint {
  bool sends;
  int peer;
  std::byte* data;
  std::size_t bytes;
};

}  // namespace

// What a rank holds of a communicator.
struct ncclComm {
  std::shared_ptr<World> world;
  int rank = 0;
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
  std::function<void()> in_progress;  // what looking at it sets going, after a few looks
  int looks = 0;
  bool initialising = true, finalizing = false, counted = false;
  std::uint64_t collectives = 0;
  ncclResult_t failed = ncclSuccess;
  std::string last_error;

  bool busy() const { return initialising || in_progress || finalizing; }
};

namespace {

using longhaul::testing::EmulatedStream;

thread_local int group_depth = 0;
thread_local ncclComm* group_communicator = nullptr;
thread_local cudaStream_t group_stream = nullptr;
thread_local std::vector<PointToPoint> group_calls;
thread_local std::string said;

ncclResult_t misuse(const std::string& what) {
  said = what;
  return ncclInvalidUsage;
}

constexpr int looks_until_done = 3;

ncclResult_t set_going(ncclComm* c, cudaStream_t stream, std::function<void()> work) {
  c->looks = 0;
  c->in_progress = [stream, work = std::move(work)] { reinterpret_cast<EmulatedStream*>(stream)->enqueue(work); };
  return ncclInProgress;
}

// Sleeps until `holds` or this rank's abort; false: aborted.
bool wait_until(World& world, std::unique_lock<std::mutex>& lock, const std::atomic<bool>& aborted,
                const std::function<bool()>& holds) {
  while (!holds()) {
    if (aborted) return false;
    world.changed.wait_for(lock, std::chrono::milliseconds(1));
  }
  return !aborted;
}

template <class T, class F>
void combine(const std::vector<const std::byte*>& terms, std::size_t count, std::byte* out, const F& f) {
  // From the last rank to the first: another order than the tree's.
  for (std::size_t i = 0; i < count; ++i) {
    T total{};
    for (std::size_t r = terms.size(); r-- > 0;) {
      T value;
      std::memcpy(&value, terms[r] + i * sizeof(T), sizeof(T));
      total = r + 1 == terms.size() ? value : f(total, value);
    }
    std::memcpy(out + i * sizeof(T), &total, sizeof(T));
  }
}

std::vector<std::byte> outcome(const Meeting& meeting, int rank) {
  const Entry& own = meeting.entries.at(rank);
  const std::size_t bytes = own.count * bytes_of(own.type);
  if (own.what == What::broadcast) {
    const std::byte* from = meeting.entries.at(own.root).in;
    return {from, from + bytes};
  }
  std::vector<std::byte> out;
  if (own.what == What::all_gather) {
    for (const auto& [r, entry] : meeting.entries) out.insert(out.end(), entry.in, entry.in + bytes);
    return out;
  }
  out.resize(bytes);
  std::vector<const std::byte*> terms;
  const std::size_t at = own.what == What::reduce_scatter ? static_cast<std::size_t>(rank) * bytes : 0;
  for (const auto& [r, entry] : meeting.entries) terms.push_back(entry.in + at);
  const auto add = [](auto a, auto b) { return a + b; };
  const auto largest = [](auto a, auto b) { return a > b ? a : b; };
  if (own.type == ncclFloat32)
    own.operation == ncclMax ? combine<float>(terms, own.count, out.data(), largest)
                             : combine<float>(terms, own.count, out.data(), add);
  else
    combine<std::uint32_t>(terms, own.count, out.data(), add);
  return out;
}

void leave_meeting(Meeting& meeting, int rank) {
  meeting.entries.erase(rank);
}

void meet(const std::shared_ptr<World>& world, int rank, std::uint64_t number, const Entry& entry,
          const std::atomic<bool>& aborted) {
  std::unique_lock lock(world->mutex);
  if (aborted) return;
  Meeting& meeting = world->meetings[number];
  meeting.entries[rank] = entry;
  world->changed.notify_all();
  const bool all =
      wait_until(*world, lock, aborted, [&] { return static_cast<int>(meeting.entries.size()) == world->size; });
  // Nobody reads the memory of a rank that has left.
  if (!all) return leave_meeting(meeting, rank);
  // Ranks that do not agree never meet.
  bool alike = true;
  for (const auto& [r, other] : meeting.entries)
    alike = alike && other.what == entry.what && other.count == entry.count && other.type == entry.type;
  if (!alike) {
    (void)wait_until(*world, lock, aborted, [] { return false; });
    return leave_meeting(meeting, rank);
  }
  const std::vector<std::byte> out = outcome(meeting, rank);
  ++meeting.computed;
  world->changed.notify_all();
  if (!wait_until(*world, lock, aborted, [&] { return meeting.computed == world->size; }))
    return leave_meeting(meeting, rank);
  if (!out.empty()) std::memcpy(entry.out, out.data(), out.size());
  if (++meeting.written == world->size) world->meetings.erase(number);
}

bool take(const std::shared_ptr<World>& world, int rank, const PointToPoint& call, std::unique_lock<std::mutex>& lock,
          const std::atomic<bool>& aborted) {
  auto& box = world->mail[{call.peer, rank}];
  if (!wait_until(*world, lock, aborted, [&] { return !box.empty() && box.front()->bytes == call.bytes; }))
    return false;
  std::memcpy(call.data, box.front()->data, call.bytes);
  box.front()->taken = true;
  box.pop_front();
  world->changed.notify_all();
  return true;
}

void exchange(const std::shared_ptr<World>& world, int rank, const std::vector<PointToPoint>& calls,
              const std::atomic<bool>& aborted) {
  std::unique_lock lock(world->mutex);
  if (aborted) return;
  std::vector<std::shared_ptr<Message>> sent;
  for (const PointToPoint& call : calls) {
    if (!call.sends) continue;
    sent.push_back(std::make_shared<Message>(Message{call.data, call.bytes}));
    world->mail[{rank, call.peer}].push_back(sent.back());
  }
  world->changed.notify_all();
  bool goes_on = true;
  for (const PointToPoint& call : calls)
    if (goes_on && !call.sends) goes_on = take(world, rank, call, lock, aborted);
  for (const auto& message : sent)
    goes_on = goes_on && wait_until(*world, lock, aborted, [&] { return message->taken; });
  if (goes_on) return;
  for (auto& [pair, box] : world->mail)  // nobody reads this rank's memory any more
    std::erase_if(box, [&](const auto& message) { return std::find(sent.begin(), sent.end(), message) != sent.end(); });
}

ncclResult_t collective(ncclComm* c, cudaStream_t stream, const Entry& entry) {
  if (c->busy()) return misuse("a call while another one is in progress");
  const std::uint64_t number = c->collectives++;
  const bool hangs = misbehaves("hang", c->rank);
  return set_going(c, stream, [world = c->world, rank = c->rank, number, entry, aborted = c->aborted, hangs] {
    if (hangs) {
      std::unique_lock lock(world->mutex);
      (void)wait_until(*world, lock, *aborted, [] { return false; });
      return;
    }
    meet(world, rank, number, entry, *aborted);
  });
}

ncclResult_t end_group() {
  ncclComm* const c = std::exchange(group_communicator, nullptr);
  const std::vector<PointToPoint> calls = std::exchange(group_calls, {});
  if (c == nullptr) return ncclSuccess;
  if (c->busy()) return misuse("a call while another one is in progress");
  return set_going(c, group_stream, [world = c->world, rank = c->rank, calls, aborted = c->aborted] {
    exchange(world, rank, calls, *aborted);
  });
}

ncclResult_t point_to_point(ncclComm* c, cudaStream_t stream, const PointToPoint& call) {
  if (group_communicator != nullptr && (group_communicator != c || group_stream != stream))
    return misuse("a group of calls to two communicators");
  group_communicator = c, group_stream = stream;
  group_calls.push_back(call);
  return group_depth > 0 ? ncclSuccess : end_group();
}

void part(ncclComm* c) {
  if (c->counted) return;
  c->counted = true;
  const std::lock_guard lock(c->world->mutex);
  ++c->world->parted;
  c->world->changed.notify_all();
}

}  // namespace

extern "C" {

// "init": this rank's initialisation never ends. "hang": its collectives do not come. "error": NCCL reports to it an
// error when it looks. "abort": its aborts take a second. "old": an old version (any rank). rank -1: nobody any more;
// -2: everybody.
void fake_nccl_misbehave(const char* what, int rank) {
  const std::lock_guard lock(process().mutex);
  process().misbehaving[what] = rank;
}

ncclResult_t ncclGetVersion(int* version) {
  *version = misbehaves("old", 0) ? 21304 : NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(process().mutex);
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, "fake %llu", static_cast<unsigned long long>(++process().ids));
  process().worlds[id->internal] = std::make_shared<World>();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config == nullptr || config->magic != 0xcafebeef || config->blocking != 0)
    return misuse("only communicators that do not block");
  if (config->maxCTAs < 1 || config->maxCTAs > 16 || config->minCTAs != 1 || config->cgaClusterSize != 0)
    return misuse("only communicators whose kernels have as many thread blocks as all of them have room for");
  auto* c = new ncclComm;
  {
    const std::lock_guard lock(process().mutex);
    const auto found = process().worlds.find(id.internal);
    if (found == process().worlds.end()) {
      delete c;
      said = "an id that nobody made";
      return ncclInvalidArgument;
    }
    c->world = found->second;
  }
  c->rank = rank;
  if (!misbehaves("init", rank)) {
    const std::lock_guard lock(c->world->mutex);
    c->world->size = size;
    ++c->world->arrived;
  }
  *communicator = c;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t* state) {
  *state = ncclInProgress;
  if (misbehaves("error", c->rank) && !c->initialising) {
    c->last_error = "another rank is gone, says the fake";
    *state = ncclRemoteError;
    return ncclSuccess;
  }
  if (c->initialising) {
    const std::lock_guard lock(c->world->mutex);
    c->initialising = c->world->arrived < c->world->size || c->world->size == 0 || misbehaves("init", c->rank);
  } else if (c->in_progress) {
    if (++c->looks >= looks_until_done) std::exchange(c->in_progress, nullptr)();
  } else if (c->finalizing) {
    const std::lock_guard lock(c->world->mutex);
    c->finalizing = c->world->parted < c->world->size;
  }
  if (!c->busy()) *state = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t c) {
  if (c->busy()) return misuse("finalized while a call is in progress");
  c->finalizing = true;
  part(c);
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t c) {
  if (c->busy()) return misuse("destroyed while a call is in progress");
  delete c;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t c) {
  if (misbehaves("abort", c->rank)) std::this_thread::sleep_for(std::chrono::seconds(1));
  {
    const std::lock_guard lock(c->world->mutex);
    *c->aborted = true;
    c->world->changed.notify_all();
  }
  delete c;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclInvalidUsage: return "invalid usage";
    case ncclInvalidArgument: return "invalid argument";
    case ncclRemoteError: return "remote process exited or there was a network error";
    default: return "another error";
  }
}
const char* ncclGetLastError(ncclComm_t c) {
  return c != nullptr && !c->last_error.empty() ? c->last_error.c_str() : said.c_str();
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return --group_depth == 0 ? end_group() : ncclSuccess;
}
ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t stream) {
  auto* from = const_cast<std::byte*>(static_cast<const std::byte*>(data));
  return point_to_point(c, stream, {true, peer, from, count * bytes_of(type)});
}
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t stream) {
  return point_to_point(c, stream, {false, peer, static_cast<std::byte*>(data), count * bytes_of(type)});
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t c,
                           cudaStream_t stream) {
  return collective(c, stream,
                    {What::all_gather, static_cast<const std::byte*>(in), static_cast<std::byte*>(out), count, type});
}
ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t c, cudaStream_t stream) {
  return collective(
      c, stream,
      {What::all_reduce, static_cast<const std::byte*>(in), static_cast<std::byte*>(out), count, type, operation});
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                               ncclComm_t c, cudaStream_t stream) {
  return collective(
      c, stream,
      {What::reduce_scatter, static_cast<const std::byte*>(in), static_cast<std::byte*>(out), count, type, operation});
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t c,
                           cudaStream_t stream) {
  return collective(
      c, stream,
      {What::broadcast, static_cast<const std::byte*>(in), static_cast<std::byte*>(out), count, type, ncclSum, root});
}

}  // extern "C"
