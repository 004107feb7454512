#include "engine/checkpoint/global/retention.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <set>

#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {

Result<CheckpointManifest> read_checkpoint_manifest(const std::string& folder) {
  const std::string file = join_path(folder, checkpoint_manifest_name);
  LH_TRY(const std::string text, read_file(file));
  auto value = parse_json(text, file);
  if (!value.ok()) return make_error(ErrorCode::corrupt, value.error().message());
  return checkpoint_from_value(*value).with_context(file);
}

std::vector<std::string> checkpoints_to_remove(const std::vector<CheckpointStanding>& newest_first,
                                               const RetentionPolicy& policy) {
  std::set<std::string> kept;
  for (std::size_t i = 0; i < newest_first.size(); ++i) {
    const CheckpointStanding& one = newest_first[i];
    const bool last = static_cast<int>(i) < policy.keep_last;
    const bool every = policy.keep_every > 0 && one.step % policy.keep_every == 0;
    if (one.held || last || every) kept.insert(one.name);
  }
  const bool by_heldout = std::any_of(newest_first.begin(), newest_first.end(),
                                      [](const CheckpointStanding& one) { return one.heldout_loss.has_value(); });
  std::vector<std::pair<double, std::string>> best;
  for (const CheckpointStanding& one : newest_first)
    if (const auto loss = by_heldout ? one.heldout_loss : one.loss) best.emplace_back(*loss, one.name);
  std::stable_sort(best.begin(), best.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < best.size() && static_cast<int>(i) < policy.keep_best; ++i) kept.insert(best[i].second);

  std::vector<std::string> removed;
  for (const CheckpointStanding& one : newest_first)
    if (!kept.contains(one.name)) removed.push_back(one.name);
  return removed;
}

CheckpointStanding standing_of(const std::string& folder, const std::vector<std::string>& names,
                               const RetentionPolicy& policy, ReadClaims& claims) {
  CheckpointStanding one;
  one.name = file_name(folder);
  one.step = std::atoll(one.name.substr(one.name.find('-') + 1).c_str());
  one.held = std::ranges::find(names, checkpoint_pin_name) != names.end() || claims.hold(folder, names);
  if (policy.keep_best <= 0) return one;
  const auto manifest = read_checkpoint_manifest(folder);
  if (!manifest.ok()) {
    one.held |= manifest.error().code != ErrorCode::corrupt;  // its loss may be the best
    return one;
  }
  const auto number = [&](const char* key) -> std::optional<double> {
    const Value* value = manifest->extra.find(key);
    return value && value->is_number() ? std::optional(value->as_number()) : std::nullopt;
  };
  one.loss = number(checkpoint_loss_key), one.heldout_loss = number(checkpoint_heldout_loss_key);
  return one;
}

bool is_pinned_checkpoint(const std::string& folder) {
  return file_exists(join_path(folder, checkpoint_pin_name));
}

namespace {

constexpr const char* claim_prefix = "reading.";

}  // namespace

ReadClaim::ReadClaim(const std::string& folder, std::int64_t every_ms) {
  static std::atomic<int> count{0};
  if (is_surely_absent(folder)) return;
  const std::string path =
      join_path(folder, format("{}{}.{}.{}", claim_prefix, host_name(), ::getpid(), count.fetch_add(1)));
  if (!write_file_renamed(path, "").ok()) return;
  path_ = path;
  touching_ = std::thread([this, every_ms] {
    std::unique_lock lock(mutex_);
    while (!ends_.wait_for(lock, std::chrono::milliseconds(every_ms), [this] { return over_; }))
      (void)::utimensat(AT_FDCWD, path_.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  });
}

ReadClaim::~ReadClaim() {
  if (path_.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ends_.notify_all();
  touching_.join();
  ::unlink(path_.c_str());
}

bool ReadClaims::hold(const std::string& folder, const std::vector<std::string>& names) {
  bool held = false;
  for (const std::string& name : names) {
    if (!starts_with(name, claim_prefix)) continue;
    const std::string path = join_path(folder, name);
    struct stat info{};
    if (::lstat(path.c_str(), &info) != 0) {
      held |= errno != ENOENT;
      continue;
    }
    const std::int64_t stamp = info.st_mtim.tv_sec * std::int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
    const std::int64_t now_ns = clock_.monotonic_ns();
    const auto [seen, is_new] = seen_.try_emplace(path, Seen{stamp, now_ns});
    if (!is_new && seen->second.stamp != stamp) seen->second = {stamp, now_ns};
    held |= now_ns - seen->second.since_ns < unchanged_ms * 1'000'000;
  }
  return held;
}

}  // namespace longhaul
