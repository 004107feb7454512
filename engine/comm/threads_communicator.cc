#include "engine/comm/threads_communicator.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

#include "base/text/text.h"
#include "engine/comm/tree_sum.h"

namespace longhaul {
namespace {

struct Entry {
  bool present = false;
  CollectiveKind kind{};
  ConstBytes in;
  Bytes out;
  int root = 0;
  std::vector<std::size_t> in_bytes = {}, out_bytes = {};  // all_to_all_v
  ContributionRecord* record = nullptr;
};

// One collective under way: the last rank to come computes the outputs of all, in rank order.
struct Meeting {
  std::vector<Entry> entries;
  int arrived = 0, left = 0;
  bool done = false;
  std::optional<Error> error;
};

// Messages of one tag from one rank to another: the n-th goes to the n-th receive, whichever is asked for first.
struct Mailbox {
  std::uint64_t sent = 0, expected = 0;
  std::map<std::uint64_t, std::vector<std::byte>> messages;  // by their number; those that nobody took
};

}  // namespace

// One group of ranks of one epoch. Everything is guarded by the mutex, buffers of the ranks included: they are read and
// written only while it is held, and never after `broken` is set.
struct ThreadsGroup {
  std::mutex mutex;
  std::condition_variable changed;  // a meeting is over, a message is there, or the group is broken
  int size = 0;
  std::map<std::uint64_t, Meeting> meetings;          // by sequence number among collectives
  std::map<std::tuple<int, int, int>, Mailbox> mail;  // (from, to, tag)
  std::optional<std::string> broken;
  int broken_by = -1;

  // With more ranks than cores those that wait must leave the cores to those that work: yielding alone shares them.
  // What raises a flag from outside wakes nobody: hence the end of each sleep.
  void doze(std::unique_lock<std::mutex>& lock) { changed.wait_for(lock, std::chrono::milliseconds(1)); }
  void break_off(const std::string& reason, int rank) {
    const std::lock_guard lock(mutex);
    if (broken) return;
    broken = reason;
    broken_by = rank;
    changed.notify_all();
  }
};

struct ThreadsHub {
  std::mutex mutex;
  std::map<std::tuple<std::uint64_t, int, std::vector<int>>, std::shared_ptr<ThreadsGroup>> groups;

  std::shared_ptr<ThreadsGroup> group(std::uint64_t epoch, int axis, const std::vector<int>& ranks) {
    const std::lock_guard lock(mutex);
    std::shared_ptr<ThreadsGroup>& group = groups[{epoch, axis, ranks}];
    if (!group) {
      group = std::make_shared<ThreadsGroup>();
      group->size = static_cast<int>(ranks.size());
    }
    return group;
  }
};

namespace {

std::optional<Error> broken_error(const ThreadsGroup& group, int rank) {
  if (!group.broken) return std::nullopt;
  if (group.broken_by == rank) return make_error(ErrorCode::aborted, *group.broken);
  return make_error(ErrorCode::aborted, format("rank {} left: {}", group.broken_by, *group.broken));
}

const float* floats(ConstBytes bytes) {
  return reinterpret_cast<const float*>(bytes.data());
}
std::span<float> floats(Bytes bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t n) {
  if (n > 0 && to != from) std::memcpy(to, from, n);
}

// Of unlike rows: what one sends is not what another expects.
std::optional<Error> unlike_rows(const std::vector<Entry>& entries) {
  for (std::size_t from = 0; from < entries.size(); ++from)
    for (std::size_t to = 0; to < entries.size(); ++to) {
      const std::size_t sent = entries[from].in_bytes[to], expected = entries[to].out_bytes[from];
      if (sent != expected)
        return make_error(ErrorCode::internal,
                          format("rank {} sent {} bytes to rank {}, which expected {}", from, sent, to, expected));
    }
  return std::nullopt;
}

std::optional<Error> disagreement(const std::vector<Entry>& entries) {
  for (std::size_t r = 1; r < entries.size(); ++r) {
    const Entry &a = entries[0], &b = entries[r];
    if (a.kind == b.kind && a.kind == CollectiveKind::all_to_all_v) continue;
    if (a.kind == b.kind && a.in.size() == b.in.size() && a.out.size() == b.out.size() && a.root == b.root &&
        (a.record == nullptr) == (b.record == nullptr))
      continue;
    return make_error(ErrorCode::internal,
                      format("ranks disagree: rank 0 came with {} of {} bytes, rank {} with {} of {} bytes",
                             to_string(a.kind), a.in.size(), r, to_string(b.kind), b.in.size()),
                      "all ranks of a group must start the same collectives in the same order");
  }
  return entries[0].kind == CollectiveKind::all_to_all_v ? unlike_rows(entries) : std::nullopt;
}

void exchange_unlike_rows(const std::vector<Entry>& entries) {
  for (std::size_t to = 0; to < entries.size(); ++to) {
    std::byte* out = entries[to].out.data();
    for (std::size_t from = 0; from < entries.size(); ++from) {
      const auto& sent = entries[from].in_bytes;
      const std::size_t begin =
          std::accumulate(sent.begin(), sent.begin() + static_cast<std::ptrdiff_t>(to), std::size_t{0});
      copy_bytes(out, entries[from].in.data() + begin, sent[to]);
      out += sent[to];
    }
  }
}

void note_contributions(std::vector<Entry>& entries) {
  const int size = static_cast<int>(entries.size());
  std::vector<std::vector<std::uint64_t>> sums;  // of each rank, of what goes to each
  for (const Entry& from : entries) sums.push_back(contribution_checksums(from.kind, from.in, size, from.record->by));
  for (std::size_t r = 0; r < entries.size(); ++r) {
    ContributionRecord& record = *entries[r].record;
    record.sent = sums[r];
    record.received.clear();
    for (const std::vector<std::uint64_t>& of_rank : sums) record.received.push_back(of_rank[r]);
  }
}

void compute(std::vector<Entry>& entries) {
  const std::size_t size = entries.size();
  const CollectiveKind kind = entries[0].kind;
  if (kind == CollectiveKind::barrier) return;
  if (entries[0].record) note_contributions(entries);
  if (kind == CollectiveKind::all_to_all_v) return exchange_unlike_rows(entries);
  if (kind == CollectiveKind::broadcast) {
    const ConstBytes from = entries[static_cast<std::size_t>(entries[0].root)].in;
    for (Entry& e : entries) copy_bytes(e.out.data(), from.data(), from.size());
    return;
  }
  if (kind == CollectiveKind::all_reduce_sum || kind == CollectiveKind::all_reduce_max) {
    std::vector<const float*> terms;
    for (const Entry& e : entries) terms.push_back(floats(e.in));
    std::vector<float> total(entries[0].in.size() / sizeof(float));
    kind == CollectiveKind::all_reduce_sum ? tree_sum(terms, total) : tree_max(terms, total);
    for (Entry& e : entries) copy_bytes(e.out.data(), std::as_bytes(std::span(total)).data(), e.out.size());
    return;
  }
  for (std::size_t r = 0; r < size; ++r) {
    const std::size_t row = entries[r].out.size() / (kind == CollectiveKind::reduce_scatter_sum ? 1 : size);
    if (kind == CollectiveKind::reduce_scatter_sum) {
      std::vector<const float*> terms;
      for (const Entry& e : entries) terms.push_back(floats(e.in) + r * row / sizeof(float));
      tree_sum(terms, floats(entries[r].out));
      continue;
    }
    for (std::size_t from = 0; from < size; ++from) {
      const std::byte* source = entries[from].in.data() + (kind == CollectiveKind::all_to_all ? r * row : 0);
      copy_bytes(entries[r].out.data() + from * row, source, row);
    }
  }
}

class ThreadsOperation final : public CommOperation {
 public:
  ThreadsOperation(std::shared_ptr<ThreadsGroup> group, int rank, std::uint64_t number)
      : group_(std::move(group)), rank_(rank), number_(number) {}

  Result<bool> poll() override {
    const std::lock_guard lock(group_->mutex);
    const auto place = group_->meetings.find(number_);
    Meeting& meeting = place->second;
    if (meeting.error) return *meeting.error;
    if (!meeting.done) {
      if (auto error = broken_error(*group_, rank_)) return *error;
      return false;
    }
    if (++meeting.left == group_->size) group_->meetings.erase(place);
    return true;
  }
  std::vector<int> waiting_for() override {
    const std::lock_guard lock(group_->mutex);
    std::vector<int> ranks;
    const Meeting& meeting = group_->meetings[number_];
    for (int r = 0; r < group_->size; ++r) {
      if (!meeting.entries[static_cast<std::size_t>(r)].present) ranks.push_back(r);
    }
    return ranks;
  }
  bool doze() override {
    std::unique_lock lock(group_->mutex);
    const Meeting& meeting = group_->meetings[number_];
    if (!meeting.done && !meeting.error && !group_->broken) group_->doze(lock);
    return true;
  }
  void abandon(const std::string& reason) override { group_->break_off(reason, rank_); }

 private:
  std::shared_ptr<ThreadsGroup> group_;
  int rank_;
  std::uint64_t number_;
};

// A message lies in the mail as a copy, so a send is done at once.
class ThreadsMail final : public CommOperation {
 public:
  // number: of the message that a receive is for.
  ThreadsMail(std::shared_ptr<ThreadsGroup> group, int rank, int from, int tag, Bytes out, bool is_send,
              std::uint64_t number = 0)
      : group_(std::move(group)), rank_(rank), from_(from), tag_(tag), out_(out), is_send_(is_send), number_(number) {}

  Result<bool> poll() override {
    if (is_send_) return true;
    const std::lock_guard lock(group_->mutex);
    auto& box = group_->mail[{from_, rank_, tag_}].messages;
    const auto message = box.find(number_);
    if (message == box.end()) {
      if (auto error = broken_error(*group_, rank_)) return *error;
      return false;
    }
    if (message->second.size() != out_.size()) {
      return make_error(ErrorCode::internal,
                        format("rank {} sent {} bytes, {} were expected", from_, message->second.size(), out_.size()));
    }
    copy_bytes(out_.data(), message->second.data(), out_.size());
    box.erase(message);
    return true;
  }
  std::vector<int> waiting_for() override { return {from_}; }
  bool doze() override {
    if (is_send_) return true;
    std::unique_lock lock(group_->mutex);
    if (!group_->mail[{from_, rank_, tag_}].messages.contains(number_) && !group_->broken) group_->doze(lock);
    return true;
  }
  void abandon(const std::string& reason) override {
    if (!is_send_) group_->break_off(reason, rank_);
  }

 private:
  std::shared_ptr<ThreadsGroup> group_;
  int rank_, from_, tag_;
  Bytes out_;
  bool is_send_;
  std::uint64_t number_;
};

class ThreadsCommunicator final : public Communicator {
 public:
  ThreadsCommunicator(std::shared_ptr<ThreadsHub> hub, std::vector<int> members, int axis, int rank,
                      std::uint64_t epoch, const std::string& name, const CommOptions& options)
      : Communicator(rank, std::move(members), epoch, name, options),
        hub_(std::move(hub)),
        group_(hub_->group(epoch, axis, this->members())) {}

  std::unique_ptr<Communicator> subgroup(int axis, const std::string& name, std::span<const int> ranks) override {
    std::vector<int> members;
    int own = -1;
    for (int r : ranks) {
      LH_ASSERT(r >= 0 && r < size(), format("{}: rank {} of {}", name, r, size()));
      if (r == rank()) own = static_cast<int>(members.size());
      members.push_back(this->members()[static_cast<std::size_t>(r)]);
    }
    LH_ASSERT(own >= 0 && axis >= 0 && axis < 16, format("{}: axis {}, rank {} must be a member", name, axis, rank()));
    return std::make_unique<ThreadsCommunicator>(hub_, members, axis, own, epoch(), name, options());
  }

 protected:
  Result<std::unique_ptr<CommOperation>> start(const Arguments& a) override {
    const std::lock_guard lock(group_->mutex);
    if (auto error = broken_error(*group_, rank())) return *error;
    if (a.kind == CollectiveKind::send) {
      Mailbox& box = group_->mail[{rank(), a.peer, a.tag}];
      box.messages[box.sent++].assign(a.in.begin(), a.in.end());
      group_->changed.notify_all();
      return std::unique_ptr<CommOperation>(new ThreadsMail(group_, rank(), rank(), a.tag, {}, true));
    }
    if (a.kind == CollectiveKind::recv) {
      const std::uint64_t number = group_->mail[{a.peer, rank(), a.tag}].expected++;
      return std::unique_ptr<CommOperation>(new ThreadsMail(group_, rank(), a.peer, a.tag, a.out, false, number));
    }
    const std::uint64_t number = collectives_++;
    Meeting& meeting = group_->meetings[number];
    meeting.entries.resize(static_cast<std::size_t>(size()));
    meeting.entries[static_cast<std::size_t>(rank())] = {true,
                                                         a.kind,
                                                         a.in,
                                                         a.out,
                                                         a.peer,
                                                         {a.in_bytes.begin(), a.in_bytes.end()},
                                                         {a.out_bytes.begin(), a.out_bytes.end()},
                                                         a.record};
    if (++meeting.arrived == size()) {
      meeting.error = disagreement(meeting.entries);
      if (!meeting.error) {
        compute(meeting.entries);
        meeting.done = true;
      }
      group_->changed.notify_all();
    }
    return std::unique_ptr<CommOperation>(new ThreadsOperation(group_, rank(), number));
  }

 private:
  std::shared_ptr<ThreadsHub> hub_;
  std::shared_ptr<ThreadsGroup> group_;
  std::uint64_t collectives_ = 0;
};

}  // namespace

ThreadsWorld::ThreadsWorld(int size) : size_(size), hub_(std::make_shared<ThreadsHub>()) {
  LH_ASSERT(size >= 1, std::to_string(size));
}
ThreadsWorld::~ThreadsWorld() = default;

std::unique_ptr<Communicator> ThreadsWorld::communicator(int rank, std::uint64_t epoch,
                                                         const CommOptions& options) const {
  std::vector<int> members(static_cast<std::size_t>(size_));
  std::iota(members.begin(), members.end(), 0);
  return std::make_unique<ThreadsCommunicator>(hub_, members, 0, rank, epoch, "world", options);
}

}  // namespace longhaul
