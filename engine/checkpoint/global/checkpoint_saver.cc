#include "engine/checkpoint/global/checkpoint_saver.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "engine/parallel/mesh/text_exchange.h"

namespace longhaul {
namespace {

constexpr std::int64_t round_least_ms = 50, round_most_ms = 1'000, report_ms = 100;

// What each rank sends the others about a write that all wait for. All decide from the same numbers whether it takes
// too long, so they decide alike.
struct WriteRound {
  enum Field { pending, bytes, late, fields };
};

}  // namespace

// Adds what the training stood still to the checkpoint under way.
class CheckpointSaver::StallTimer {
 public:
  explicit StallTimer(CheckpointSaver& saver) : saver_(saver), started_(saver.clock_.monotonic_ns()) {}
  ~StallTimer() { saver_.saved_.seconds += static_cast<double>(saver_.clock_.monotonic_ns() - started_) * 1e-9; }
  StallTimer(const StallTimer&) = delete;
  StallTimer& operator=(const StallTimer&) = delete;

 private:
  CheckpointSaver& saver_;
  std::int64_t started_;
};

Status CheckpointSaver::reserve(const ParameterLayout& layout, const StateTypes& types) {
  if (!options_.asynchronous) return {};
  const std::int64_t bytes = bytes_of_share(pieces_of_share(layout, "", types));
  if (options_.staging_bytes_max > 0 && bytes > options_.staging_bytes_max)
    return make_error(
        ErrorCode::unavailable,
        format("a rank's share of a checkpoint is {}, checkpoint.staging_limit allows {}: the training "
               "waits for every checkpoint to be written",
               human_bytes(static_cast<double>(bytes)), human_bytes(static_cast<double>(options_.staging_bytes_max))),
        "raise it, or leave it out");
  return staging_.reserve(bytes);
}

CheckpointSaver::~CheckpointSaver() {
  wait_for_copy();
}

Result<WrittenShare> CheckpointSaver::write_from_state(const TrainingState& state, const ShardWriteOptions& options) {
  const std::vector<StateArray> arrays = arrays_of(state);
  std::int64_t longest = 0;  // of the pieces that are not in memory: one at a time is fetched
  for (const SharePiece& piece : pieces_)
    if (!arrays[static_cast<std::size_t>(piece.array)].in_memory()) longest = std::max(longest, piece.bytes());
  PageBuffer fetched;
  if (longest > 0) {
    LH_TRY(fetched, PageBuffer::create(longest, options_.account));
  }
  report_writing();
  return write_pieces(file_, pieces_, options, [&](const SharePiece& piece) -> Result<std::string_view> {
    report_writing();
    const StateArray& array = arrays[static_cast<std::size_t>(piece.array)];
    if (!array.in_memory()) {
      const std::span<std::byte> bytes(fetched.data(), static_cast<std::size_t>(piece.bytes()));
      LH_CHECK(array.read(piece.packed, bytes));
      return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    const View values = array.memory().rows(piece.packed.begin, piece.packed.end);
    return std::string_view(static_cast<const char*>(values.data()), static_cast<std::size_t>(values.bytes()));
  });
}

Status CheckpointSaver::write(const TrainingState& state, bool staged, const std::atomic<bool>& cancelled) {
  const std::int64_t started = clock_.monotonic_ns();
  ShardWriteOptions options{options_.direct_io, &cancelled};
  options.written = &bytes_;
  LH_TRY(written_, staged ? write_staged(file_, pieces_, options, staging_.bytes()) : write_from_state(state, options));
  votes_ = entries_to_text(written_.entries);
  write_seconds_ = static_cast<double>(clock_.monotonic_ns() - started) * 1e-9;
  return {};
}

void CheckpointSaver::begin_to_write(const TrainingState& state) {
  if (saved_.staged)
    job_.start([this](const std::atomic<bool>& cancelled) { return write({}, true, cancelled); });
  else
    job_.run_here([&](const std::atomic<bool>& cancelled) { return write(state, false, cancelled); });
}

void CheckpointSaver::wait_for_copy() {
  staging_.wait(clock_, options_.deadline_ms, context());
}

bool CheckpointSaver::ready() {
  if (staging_.copied()) finish_copy();
  return !staging_.copying() && job_.done();
}

void CheckpointSaver::finish_copy() {
  if (!staging_.copying()) return;
  const StallTimer timer(*this);
  wait_for_copy();
  begin_to_write({});
}

Status CheckpointSaver::start(CollectiveGroup& group, const TrainingState& state) {
  LH_ASSERT(!busy(), saved_.path);
  saved_ = {};
  const StallTimer timer(*this);
  saved_.step = state.progress.step;
  saved_.path = store_.path_of(state.progress.step);
  LH_CHECK(group.agree(group.is_first() ? store_.prepare(saved_.path) : Status()).with_context(context()));
  const std::string file = store_.shard_name(group.rank(), group.size());
  file_ = join_path(saved_.path, file);
  pieces_ = pieces_of_share(*state.layout, file, state.types());
  manifest_ = manifest_of(state);
  // Without staging memory the share is written from where it is (reserve() said so).
  saved_.staged = options_.asynchronous && reserve(*state.layout, state.types()).ok();
  Status copied;
  if (saved_.staged) {
    copied = staging_.copy(state, pieces_);
    if (auto fault = fault_here(FaultPoint::checkpoint_staged)) copied = *fault;
  }
  if (!copied.ok()) {
    wait_for_copy();
    job_.run_here([&](const std::atomic<bool>&) { return copied; });  // reported to the others when votes are collected
  } else if (!staging_.copying()) {
    begin_to_write(state);
  }
  phase_ = Phase::writing;
  return {};
}

Status CheckpointSaver::collect_votes(CollectiveGroup& group) {
  LH_CHECK(group.agree(job_.take()).with_context(context()));
  LH_TRY(std::vector<std::string> votes, gather_text_to_first(group, votes_));
  phase_ = Phase::publishing;
  saved_.write_seconds = write_seconds_, saved_.direct_io = written_.direct;
  saved_.bytes = static_cast<std::uint64_t>(written_.bytes);
  if (!group.is_first()) return {};
  const auto publish = [this, votes = std::move(votes)](const std::atomic<bool>&) -> Status {
    LH_TRY(published_, store_.publish(saved_.path, manifest_, votes));
    return {};
  };
  if (options_.asynchronous)
    job_.start(publish);
  else
    job_.run_here(publish);
  return {};
}

Result<std::optional<SavedCheckpoint>> CheckpointSaver::advance(CollectiveGroup& group) {
  LH_ASSERT(busy() && ready(), saved_.path);
  {
    const StallTimer timer(*this);
    const bool publishing = phase_ == Phase::publishing;
    const Status status = publishing ? group.agree(job_.take()).with_context(context()) : collect_votes(group);
    if (!status.ok()) phase_ = Phase::idle;
    LH_CHECK(status);
    if (!publishing) return std::optional<SavedCheckpoint>();
  }
  phase_ = Phase::idle;
  if (group.is_first()) saved_.bytes = static_cast<std::uint64_t>(published_.bytes);
  if (group.is_first()) saved_.waits = published_.waits;
  return std::optional(saved_);
}

Status CheckpointSaver::give_up(std::int64_t deadline_ms) {
  wait_for_copy();
  LH_CHECK(job_.give_up(clock_, deadline_ms).with_context(context()));
  phase_ = Phase::idle;
  return {};
}

// Until every rank has done its part.
Status CheckpointSaver::wait_together(CollectiveGroup& group) {
  const StallTimer timer(*this);
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<double> all(ranks * WriteRound::fields);
  const std::int64_t round_ms = std::clamp(options_.still_ms / 4, round_least_ms, round_most_ms);
  std::int64_t moved_ns = clock_.monotonic_ns();
  double most = -1;
  for (;;) {
    for (const Deadline round(clock_, round_ms); !job_.done() && !round.passed();) {
      report_writing();
      (void)job_.wait(clock_, std::min(report_ms, round.left_ms())).ok();
    }
    double mine[WriteRound::fields] = {};
    if (!job_.done()) mine[WriteRound::pending] = 1;
    mine[WriteRound::bytes] = static_cast<double>(bytes_.load(std::memory_order_relaxed));
    if (clock_.monotonic_ns() - moved_ns >= options_.still_ms * 1'000'000) mine[WriteRound::late] = 1;
    LH_CHECK(group.all_gather(mine, all));
    double pending = 0, late = 0, bytes = 0;
    std::size_t behind = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const double* reported = &all[rank * WriteRound::fields];
      pending += reported[WriteRound::pending], late += reported[WriteRound::late],
          bytes += reported[WriteRound::bytes];
      if (reported[WriteRound::pending] > 0) behind = rank;
    }
    if (pending == 0) {
      report_writing();
      return {};
    }
    if (bytes > most) most = bytes, moved_ns = clock_.monotonic_ns(), late = 0;
    if (late == 0) continue;
    return make_error(
               ErrorCode::timeout,
               format("{:.0f} of {} ranks, rank {} among them, are not done with writing, and none has written a byte "
                      "for {:g} s",
                      pending, ranks, behind, static_cast<double>(options_.still_ms) * 1e-3),
               "look at the file system of the run's folder: it stands still")
        .with_context(context());
  }
}

Result<SavedCheckpoint> CheckpointSaver::finish(CollectiveGroup& group) {
  LH_ASSERT(busy(), "nothing is under way");
  finish_copy();
  while (true) {
    LH_CHECK(wait_together(group));
    LH_TRY(const std::optional<SavedCheckpoint> whole, advance(group));
    if (whole) return *whole;
  }
}

Status CheckpointSaver::pin(CollectiveGroup& group) const {
  if (group.rank() != 0 || saved_.path.empty()) return {};
  return write_file_renamed(join_path(saved_.path, checkpoint_pin_name), "ordered\n");
}

}  // namespace longhaul
