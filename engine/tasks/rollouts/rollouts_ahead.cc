#include "engine/tasks/rollouts/rollouts_ahead.h"

#include <algorithm>
#include <cstdio>

#include "base/digest/hash.h"
#include "base/files/file_retry.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/tasks/rollouts/shared_rollouts.h"

namespace longhaul {

namespace {

// One line of text, and the answers of all replicas as pack_rollouts has them.
struct KeptFile {
  std::int64_t step = 0, left_out = 0;
  std::uint64_t prompts = 0;  // digest_of
  std::string answers;
};

// What decides which prompts are answered, and what right answers are.
std::uint64_t digest_of(const TokenizedPrompts& prompts) {
  std::string all;
  for (std::size_t i = 0; i < prompts.ids.size(); ++i) {
    const std::vector<std::int32_t>& ids = prompts.ids[i];
    all += format("{} {}\n", ids.size(), to_json(prompts.examples[i].answer));
    all.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof ids[0]);
  }
  return xxh3_64(all);
}

std::string text_of(const KeptFile& file) {
  return format("longhaul rollouts 4 {} {} {} {}\n", file.step, file.left_out, hex64(file.prompts),
                hex64(xxh3_64(file.answers, 0))) +
         file.answers;
}

Result<KeptFile> parse_kept(const std::string& text, const std::string& path) {
  const std::size_t end = text.find('\n');
  KeptFile file;
  long long step = 0, left_out = 0;
  unsigned long long prompts = 0, digest = 0;
  const bool has_head =
      end != std::string::npos && std::sscanf(text.substr(0, end).c_str(), "longhaul rollouts 4 %lld %lld %llx %llx",
                                              &step, &left_out, &prompts, &digest) == 4;
  if (has_head) file = {step, left_out, prompts, text.substr(end + 1)};
  if (!has_head || xxh3_64(file.answers, 0) != digest)
    return make_error(ErrorCode::corrupt,
                      path + ": the answers that were drawn ahead are damaged, or of another version",
                      "go on from another checkpoint, or remove the file: then they are drawn anew");
  return file;
}

Result<KeptFile> read_kept(const std::string& path) {
  LH_TRY(const std::string text, read_file(path));
  return parse_kept(text, path);
}

}  // namespace

Status RolloutsAhead::begin(std::int64_t step, std::int64_t left_out, std::vector<RolloutTask> tasks,
                            RolloutTimes& times) {
  begun_step_ = step, begun_left_out_ = left_out;
  return rollouts_.begin(prompts_, std::move(tasks), static_cast<std::size_t>(settings_.rollout.group_size), times);
}

Status RolloutsAhead::finish() {
  if (!rollouts_.has_begun()) return {};
  Drawn drawn{begun_step_, begun_left_out_, {}, {}};
  LH_TRY(drawn.rollouts, rollouts_.finish(drawn.times));
  drawn_ = std::move(drawn);
  return {};
}

Result<std::optional<std::vector<Rollout>>> RolloutsAhead::take(std::int64_t step, std::int64_t left_out,
                                                                RolloutTimes& times) {
  LH_CHECK(finish());
  std::optional<Drawn> drawn = std::move(drawn_);
  drawn_.reset();
  if (!drawn || drawn->step != step || drawn->left_out != left_out) return std::optional<std::vector<Rollout>>();
  times.generate += drawn->times.generate, times.environment += drawn->times.environment;
  times.reward += drawn->times.reward;
  times.reference += drawn->times.reference, times.beside += drawn->times.beside, times.wait += drawn->times.wait;
  return std::optional(std::move(drawn->rollouts));
}

std::size_t RolloutsAhead::place_of(std::int64_t i, int rank) const {
  return static_cast<std::size_t>(i / share() * schedule_.batch + rank * share() + i % share());
}

Status RolloutsAhead::save(std::int64_t step) {
  LH_CHECK(run_.group.agree(finish()));
  if (!drawn_) return {};
  drawn_->times.wait = 0;  // no step's
  CollectiveGroup& replicas = run_.mesh.data();
  LH_TRY(const std::vector<std::string> all, replicas.all_gather_text(pack_rollouts(drawn_->rollouts)));
  return run_.group.agree(run_.is_first() ? write(step, all) : Status());
}

Status RolloutsAhead::write(std::int64_t step, const std::vector<std::string>& of_replicas) const {
  std::vector<Rollout> in_order(static_cast<std::size_t>(schedule_.answers()));
  for (std::size_t rank = 0; rank < of_replicas.size(); ++rank) {
    std::vector<Rollout> own = unpack_rollouts(of_replicas[rank]);
    for (std::size_t i = 0; i < own.size(); ++i)
      in_order[place_of(static_cast<std::int64_t>(i), static_cast<int>(rank))] = std::move(own[i]);
  }
  const StateFence fence = fence_of(run_.launch);
  const std::string folder = join_path(run_.launch.state_dir, ahead_folder_name), name = checkpoint_folder_name(step);
  LH_CHECK(fence.look());
  LH_CHECK(make_directories(folder));
  LH_CHECK(write_file_atomic(join_path(folder, name),
                             text_of({drawn_->step, drawn_->left_out, digest_of(prompts_), pack_rollouts(in_order)})));
  LH_CHECK(fence.look());
  remove_what_stands_alone(name);
  return {};
}

// Best effort: what cannot be listed or removed now is looked at again at the next one.
void RolloutsAhead::remove_what_stands_alone(const std::string& name) const {
  const std::string folder = join_path(run_.launch.state_dir, ahead_folder_name);
  const auto mine = names_if_there(folder), policy = names_if_there(join_path(run_.launch.state_dir, "checkpoints"));
  if (!mine.ok() || !policy.ok()) return;
  for (const std::string& one : *mine) {
    if (one == name || std::ranges::find(*policy, one) != policy->end() || !starts_with(one, "step-")) continue;
    [[maybe_unused]] const Status removed = remove_tree(join_path(folder, one));
  }
}

Status RolloutsAhead::load(const std::string& checkpoint) {
  LH_CHECK(run_.group.agree(finish()));
  drawn_.reset();
  const std::string path =
      join_path(join_path(parent_path(parent_path(checkpoint)), ahead_folder_name), file_name(checkpoint));
  // The first rank reads for all: what another host sees of the folder may be older.
  Result<KeptFile> kept = KeptFile();
  if (run_.is_first() && file_exists(path)) kept = read_kept(path);
  LH_CHECK(run_.group.agree(kept.ok() ? Status() : Status(kept.error())));
  LH_TRY(const std::vector<std::string> read, run_.group.all_gather_text(text_of(*kept)));
  LH_TRY(*kept, parse_kept(read.front(), path));
  if (kept->answers.empty()) {
    run_.events.message("info",
                        format("{} has no answers that were drawn ahead: the next are drawn first", checkpoint));
    return {};
  }
  if (kept->prompts != digest_of(prompts_)) {
    run_.events.message("info", path + " has answers to other prompts than those of now: they are drawn anew");
    return {};
  }
  std::vector<Rollout> all = unpack_rollouts(kept->answers);
  if (std::ssize(all) != schedule_.answers()) {
    run_.events.message("info", format("{} has {} answers and a rollout has {} now: they are drawn anew", path,
                                       all.size(), schedule_.answers()));
    return {};
  }
  drawn_ = Drawn{kept->step, kept->left_out, {}, {}};
  for (std::int64_t i = 0; i < schedule_.minibatches * share(); ++i)
    drawn_->rollouts.push_back(std::move(all[place_of(i, run_.mesh.data().rank())]));
  return {};
}

}  // namespace longhaul
