#include "engine/checkpoint/local/local_copies.h"

#include <algorithm>
#include <cstring>

#include "base/digest/hash.h"
#include "base/digest/hmac.h"
#include "base/files/file_query.h"
#include "base/files/file_retry.h"
#include "base/files/files.h"
#include "base/files/held_folder.h"
#include "base/files/owned_folder.h"
#include "base/process/fault_point.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/checkpoints/checkpoint_files.h"
#include "contracts/records/local_copies.h"
#include "engine/checkpoint/local/local_set.h"

namespace longhaul {

namespace {

constexpr int folder_names = 8;  // that are tried, if somebody else has made the ones before

// The one of the state folder, made by the first rank to come. Where it is another user's (a colleague goes on with the
// run) or others could read it, it is made anew: the copies that it names are forgotten.
Result<std::string> training_id(const std::string& state_dir) {
  const std::string path = join_path(state_dir, "training-id");
  LH_CHECK(make_directories(state_dir));
  auto known = retried({}, [&] { return read_secret_file(path, "the id of the training"); });
  if (!known.ok() && known.error().code == ErrorCode::io) return known.error();
  if (!known.ok()) {
    LH_TRY(const std::string made, random_hex(16));
    const Status written = known.error().code == ErrorCode::not_found ? create_file_exclusive(path, made, 0600)
                                                                      : write_file_atomic(path, made, 0600);
    if (!written.ok() && written.error().code != ErrorCode::conflict) return written.error();
    known = read_secret_file(path, "the id of the training");
  }
  LH_TRY(const std::string id, std::move(known));
  if (id.empty() || id.find_first_not_of("0123456789abcdef") != std::string::npos)
    return make_error(ErrorCode::corrupt, path + " is no id of a training", "remove it: copies on nodes are forgotten");
  return id;
}

// Below `parent`, on this node: the one that is there, or the first that can be made.
Result<std::string> folder_of(const std::string& parent, const std::string& id) {
  std::vector<std::string> paths;
  for (int i = 0; i < folder_names; ++i) {
    std::string path = join_path(parent, local_copies_prefix);
    const Mac digest = hmac_sha256(id, format("folder {}", i));
    for (std::size_t byte = 0; byte < 16; ++byte) path += format("{:02x}", static_cast<unsigned>(digest[byte]));
    if (check_private_folder(path).ok()) return path;
    paths.push_back(std::move(path));
  }
  Status made;
  for (const std::string& path : paths) {
    made = make_private_folder(path);
    if (made.ok()) return path;
    if (made.error().code != ErrorCode::invalid_input) break;
  }
  return made.error();
}

// Held for as long as this rank may read and write copies there, and with the name of whose copies they are: once
// nobody holds it, whoever comes next on this node can know whether they are still of use.
Result<HeldFolder> hold_for(const std::string& folder, const std::string& state_dir) {
  LH_TRY(HeldFolder held, HeldFolder::make(folder));
  LH_CHECK(write_file_atomic(join_path(folder, copies_of_name), absolute_path(state_dir), 0600));
  return held;
}

}  // namespace

Result<std::unique_ptr<LocalCopies>> LocalCopies::create(const Clock& clock, CollectiveGroup& group,
                                                         const std::string& state_dir,
                                                         const LocalCopiesOptions& options) {
  Result<std::string> id = group.is_first() ? training_id(state_dir) : std::string();
  Status mine = id.ok() ? Status() : Status(id.error());
  if (const auto there = is_there(options.folder); mine.ok() && !there.ok())
    mine = there.error();
  else if (mine.ok() && !is_directory(options.folder))
    mine = make_error(ErrorCode::invalid_input,
                      format("checkpoint.local_dir: there is no folder {} on {}", options.folder, host_name()),
                      "it must be there on every node");
  LH_CHECK(group.agree(mine));
  LH_TRY(const std::vector<std::string> ids, group.all_gather_text(*id));
  const auto folder = folder_of(options.folder, ids.front());
  auto held = folder.ok() ? hold_for(*folder, state_dir) : Result<HeldFolder>(folder.error());
  LH_CHECK(group.agree(held.ok() ? Status() : Status(held.error())).with_context("checkpoint.local_dir"));
  std::unique_ptr<LocalCopies> copies(new LocalCopies(clock, *folder, ids.front(), options));
  copies->rank_ = group.rank();
  copies->held_ = std::move(*held);
  return copies;
}

namespace {

// Collective: of the first rank.
Result<std::string> drawn_word(CollectiveGroup& group) {
  constexpr std::size_t digits = 32;
  const Result<std::string> drawn = group.is_first() ? random_hex(digits / 2) : std::string(digits, '0');
  LH_CHECK(group.agree(drawn.ok() ? Status() : Status(drawn.error())));
  std::vector<float> bytes(digits / sizeof(float));  // bytes; nothing is computed of them
  std::memcpy(bytes.data(), drawn->data(), digits);
  LH_CHECK(group.broadcast(bytes, 0));
  return std::string(reinterpret_cast<const char*>(bytes.data()), digits);
}

}  // namespace

std::string LocalCopies::own_folder(int rank) const {
  return join_path(folder_, local_rank_folder(rank));
}

std::span<float> LocalCopies::Share::values() {
  const auto bytes = static_cast<std::size_t>(bytes_of_share(pieces));  // of bf16 elements perhaps an odd number
  return {reinterpret_cast<float*>(staging.data()), (bytes + sizeof(float) - 1) / sizeof(float)};
}

Status LocalCopies::prepare(Share& share, const TrainingState& state, int owner, int ranks) {
  const ParallelDims& dims = state.layout->place().dims;
  share.file = shard_file_name(owner, ranks);
  share.pieces =
      pieces_of_share(ParameterLayout(state.shape, {dims, coordinates_of(dims, owner), state.layout->stages()}),
                      share.file, state.types());
  const std::int64_t bytes = bytes_of_share(share.pieces);
  if (share.staging.bytes() >= bytes) return {};
  share.staging = PageBuffer();
  LH_TRY(share.staging, PageBuffer::create(bytes, options_.account, state.masters.device()));
  return {};
}

Status LocalCopies::start(CollectiveGroup& group, const TrainingState& state) {
  LH_ASSERT(!busy_, saved_.path);
  const std::int64_t begun = clock_.monotonic_ns();
  const int ranks = group.size();
  const int to = partner_of(group.rank(), ranks), from = owner_kept_by(group.rank(), ranks);
  saved_ = {};
  saved_.step = state.progress.step;
  saved_.path = join_path(own_folder(group.rank()), checkpoint_folder_name(saved_.step));
  const auto prepared = [&]() -> Status {
    if (group.is_first()) LH_CHECK(options_.fence.look());
    LH_CHECK(remove_tree(saved_.path));
    LH_CHECK(make_directories(saved_.path));
    LH_CHECK(prepare(own_, state, group.rank(), ranks));
    return ranks > 1 ? prepare(partner_, state, from, ranks) : Status();
  };
  LH_CHECK(group.agree(prepared()).with_context("copy on this node"));
  manifest_ = manifest_of(state);
  LH_CHECK(group.agree(stage_pieces(state, own_.pieces, options_.compute, own_.staging.data())));
  LH_TRY(save_, drawn_word(group));
  const bool has_partner = ranks > 1;
  if (has_partner) {
    LH_CHECK(group.exchange(own_.values(), to, partner_.values(), from));
    if (const auto bit = flip_here(FaultPoint::partner_copy)) flip_bit(std::as_writable_bytes(partner_.values()), *bit);
  }
  job_.start([this, has_partner](const std::atomic<bool>& cancelled) -> Status {
    const std::int64_t started = clock_.monotonic_ns();
    if (auto fault = fault_here(FaultPoint::local_copy_staged)) return *fault;
    LH_CHECK(write_shard_of(own_, cancelled));
    if (has_partner) LH_CHECK(write_shard_of(partner_, cancelled));
    saved_.write_seconds = static_cast<double>(clock_.monotonic_ns() - started) * 1e-9;
    return {};
  });
  busy_ = true;
  stall_seconds_ = static_cast<double>(clock_.monotonic_ns() - begun) * 1e-9;
  return {};
}

Status LocalCopies::write_shard_of(Share& share, const std::atomic<bool>& cancelled) const {
  const std::string_view staged(reinterpret_cast<const char*>(share.staging.data()),
                                static_cast<std::size_t>(share.staging.bytes()));
  LH_TRY(WrittenShare written,
         write_staged(join_path(saved_.path, share.file), share.pieces, {false, &cancelled, 0600}, staged));
  share.entries = std::move(written.entries);
  return {};
}

Status LocalCopies::write_part_of(Share& share) const {
  CheckpointManifest part = manifest_;
  part.entries = std::move(share.entries);
  Value value = checkpoint_to_value(part);
  value.set(local_save_key, save_);
  if (auto fault = fault_here(FaultPoint::local_copy_before_part)) return *fault;
  LH_CHECK(write_file_atomic(local_part_path(saved_.path, share.file), sign_part(to_json(value), key_), 0600));
  if (auto fault = fault_here(FaultPoint::local_copy_after_part)) return *fault;
  return {};
}

Status LocalCopies::compare_digests(CollectiveGroup& group) {
  const int ranks = group.size();
  if (ranks == 1) return {};
  const int to = partner_of(group.rank(), ranks), from = owner_kept_by(group.rank(), ranks);
  const auto floats_of = [](std::size_t digests) { return digests * sizeof(std::uint64_t) / sizeof(float); };
  std::vector<std::uint64_t> own, theirs(partner_.entries.size());
  for (const CheckpointEntry& entry : own_.entries) own.push_back(entry.xxh3);
  std::vector<float> give(floats_of(own.size())), take(floats_of(theirs.size()));  // bytes; nothing is computed of them
  std::memcpy(give.data(), own.data(), own.size() * sizeof(std::uint64_t));
  LH_CHECK(group.exchange(give, to, take, from));
  std::memcpy(theirs.data(), take.data(), take.size() * sizeof(float));
  for (std::size_t i = 0; i < theirs.size(); ++i)
    if (theirs[i] != partner_.entries[i].xxh3)
      return make_error(ErrorCode::io,
                        format("{} of rank {} came to {} with other bytes than it had there", partner_.entries[i].key,
                               from, host_name()),
                        "where it comes again, the network between the two is at fault");
  return {};
}

// Parts are written by the training's thread: they are small, and only now may they be there.
Status LocalCopies::complete(CollectiveGroup& group) {
  LH_CHECK(group.agree(job_.take()));
  Status same = compare_digests(group);
  if (!same.ok() && same.error().code != ErrorCode::io) return same;  // ranks do not answer
  const auto parts = [&]() -> Status {
    LH_CHECK(same);
    if (group.is_first()) LH_CHECK(options_.fence.look());
    LH_CHECK(write_part_of(own_));
    return partner_.entries.empty() ? Status() : write_part_of(partner_);
  };
  return group.agree(parts());
}

Result<SavedCheckpoint> LocalCopies::advance(CollectiveGroup& group) {
  LH_ASSERT(busy_ && ready(), saved_.path);
  busy_ = false;
  const Status whole = complete(group);
  if (!whole.ok()) {
    [[maybe_unused]] const Status removed = remove_tree(saved_.path);
    return Error(whole.error()).with_context("copy on this node " + saved_.path);
  }
  saved_.seconds = stall_seconds_, saved_.staged = true;
  saved_.bytes = static_cast<std::uint64_t>(bytes_of_share(own_.pieces) + bytes_of_share(partner_.pieces));
  if (auto fault = fault_here(FaultPoint::local_copy_retiring)) return *fault;
  // This one is whole on all ranks: so many in all stay.
  const auto names = list_directory(own_folder(rank_));
  std::vector<std::string> older;
  if (names.ok())
    for (const std::string& name : *names)
      if (starts_with(name, "step-") && name < file_name(saved_.path)) older.push_back(name);
  for (std::size_t i = 0; i + (local_copies_kept - 1) < older.size(); ++i) [[maybe_unused]]
    const Status removed = remove_tree(join_path(own_folder(rank_), older[i]));
  return saved_;
}

Status LocalCopies::give_up(std::int64_t deadline_ms) {
  LH_CHECK(job_.give_up(clock_, deadline_ms).with_context("copy on this node " + saved_.path));
  busy_ = false;
  return {};
}

Status LocalCopies::abandon_after(std::int64_t step, std::int64_t deadline_ms) {
  LH_CHECK(give_up(deadline_ms));
  const std::string newest_kept = checkpoint_folder_name(step);
  const auto names = list_directory(own_folder(rank_));
  if (!names.ok()) return {};  // it has none yet
  for (const std::string& name : *names)
    if (starts_with(name, "step-") && name > newest_kept) [[maybe_unused]]
      const Status removed = remove_tree(join_path(own_folder(rank_), name));
  return {};
}

Result<SavedCheckpoint> LocalCopies::finish(CollectiveGroup& group) {
  const Status waited = group.agree(job_.wait(clock_, options_.deadline_ms));
  if (!waited.ok()) busy_ = false;
  LH_CHECK(waited);
  return advance(group);
}

void LocalCopies::remove() const {
  [[maybe_unused]] const Status removed = remove_tree(own_folder(rank_));
}

}  // namespace longhaul
