#include "engine/checkpoint/global/read_back.h"

#include <fcntl.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/files/owned_files.h"
#include "engine/checkpoint/global/checkpoint_reader.h"
#include "engine/checkpoint/global/checkpoint_share.h"
#include "engine/parallel/mesh/text_exchange.h"

namespace longhaul {
namespace {

// Clean pages of a file leave this node's memory; a file system that cannot keeps them. Best effort.
void forget_pages(const std::string& path) {
  if (const auto file = open_to_read(path); file.ok()) [[maybe_unused]]
    const int forgotten = ::posix_fadvise(file->get(), 0, 0, POSIX_FADV_DONTNEED);
}

}  // namespace

Status read_shard_back(const std::string& folder, const std::vector<CheckpointEntry>& entries,
                       const std::atomic<bool>& cancelled) {
  std::map<std::string, std::vector<const CheckpointEntry*>> by_file;
  for (const CheckpointEntry& entry : entries) by_file[entry.file].push_back(&entry);
  for (const auto& [file, of_file] : by_file) {
    const std::string path = join_path(folder, file);
    forget_pages(path);
    LH_TRY(const ShardReader shard, ShardReader::open(path));
    for (const CheckpointEntry* entry : of_file) {
      if (cancelled) return make_error(ErrorCode::aborted, "reading back was given up");
      LH_CHECK(verified_entry(shard, path, *entry));
    }
    forget_pages(path);
  }
  return {};
}

void CheckpointReadBack::start(Wanted wanted) {
  now_ = {};
  now_.step = wanted.step, now_.path = std::move(wanted.path);
  entries_ = std::move(wanted.entries);
  for (const CheckpointEntry& entry : entries_) now_.bytes += entry.bytes();
  phase_ = Phase::reading;
  job_.start([this](const std::atomic<bool>& cancelled) -> Status {
    const std::int64_t begun = clock_.monotonic_ns();
    const Status read = read_shard_back(now_.path, entries_, cancelled);
    now_.seconds = static_cast<double>(clock_.monotonic_ns() - begun) * 1e-9;
    return read;
  });
}

Status CheckpointReadBack::want(CollectiveGroup& group, const SavedCheckpoint& saved, const std::string& votes) {
  float waits = saved.waits ? 1 : 0;
  LH_CHECK(group.broadcast({&waits, 1}, 0));
  if (waits == 0) return {};
  const int ranks = group.size(), shift = ranks / 2;
  LH_TRY(const std::string of_other,
         exchange_text(group, votes, (group.rank() - shift + ranks) % ranks, (group.rank() + shift) % ranks));
  Wanted wanted{saved.step, saved.path, {}};
  LH_TRY(wanted.entries, entries_from_text(of_other));
  if (busy())
    next_ = std::move(wanted);
  else
    start(std::move(wanted));
  return {};
}

Result<std::optional<ReadBack>> CheckpointReadBack::advance(CollectiveGroup& group) {
  LH_ASSERT(busy() && ready(), now_.path);
  const bool reading = phase_ == Phase::reading;
  const Status done = group.agree(job_.take());
  if (!done.ok() && (done.error().code == ErrorCode::aborted || done.error().code == ErrorCode::timeout)) {
    phase_ = Phase::idle;
    return done.error();
  }
  if (reading && done.ok()) {
    phase_ = Phase::confirming;
    if (group.is_first()) job_.start([this](const std::atomic<bool>&) { return store_.confirm(now_.path); });
    return std::optional<ReadBack>();
  }
  phase_ = Phase::idle;
  if (!reading) LH_CHECK(done);  // nothing is wrong with the checkpoint
  now_.damage = done.ok() ? "" : done.error().message();
  std::optional<ReadBack> ended = now_;
  if (next_) start(*std::exchange(next_, std::nullopt));
  return ended;
}

Result<std::vector<ReadBack>> CheckpointReadBack::finish(CollectiveGroup& group, std::int64_t deadline_ms) {
  std::vector<ReadBack> all;
  while (busy()) {
    LH_CHECK(group.agree(job_.wait(clock_, deadline_ms)).with_context("reading back " + now_.path));
    LH_TRY(std::optional<ReadBack> ended, advance(group));
    if (ended) all.push_back(std::move(*ended));
  }
  return all;
}

Status CheckpointReadBack::give_up(std::int64_t deadline_ms) {
  LH_CHECK(job_.give_up(clock_, deadline_ms).with_context("reading back " + now_.path));
  phase_ = Phase::idle;
  next_.reset();
  return {};
}

}  // namespace longhaul
