#include "engine/checkpoint/retention.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>

#include "base/files.h"
#include "base/json.h"
#include "base/process.h"
#include "base/text.h"

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

CheckpointStanding standing_of(const Clock& clock, const std::string& folder, const RetentionPolicy& policy) {
  CheckpointStanding one;
  one.name = file_name(folder);
  one.step = std::atoll(one.name.substr(one.name.find('-') + 1).c_str());
  one.held = is_pinned_checkpoint(folder) || is_being_read(clock, folder);
  if (policy.keep_best <= 0) return one;
  const auto manifest = read_checkpoint_manifest(folder);
  if (!manifest.ok()) return one;
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
constexpr std::int64_t claim_lasts_ms = 3'600'000;

}  // namespace

ReadClaim::ReadClaim(const Clock& clock, const std::string& folder) {
  static std::atomic<int> count{0};
  if (!is_directory(folder)) return;
  const std::string path =
      join_path(folder, format("{}{}.{}.{}", claim_prefix, host_name(), ::getpid(), count.fetch_add(1)));
  if (write_file_renamed(path, std::to_string(clock.wall_ms()) + "\n").ok()) path_ = path;
}

ReadClaim::~ReadClaim() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

bool is_being_read(const Clock& clock, const std::string& folder) {
  const auto names = list_directory(folder);
  if (!names.ok()) return false;
  return std::any_of(names->begin(), names->end(), [&](const std::string& name) {
    if (!starts_with(name, claim_prefix)) return false;
    const auto since = read_file(join_path(folder, name), 100);
    return since.ok() && clock.wall_ms() - std::atoll(since->c_str()) < claim_lasts_ms;
  });
}

}  // namespace longhaul
