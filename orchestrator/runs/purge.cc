#include "orchestrator/runs/purge.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/records/checkpoint_format.h"
#include "orchestrator/runs/saved_state.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {
namespace {

struct Kept {
  std::string what;  // "stage.pretrain: its newest checkpoint (step 240)"
  std::int64_t used_s = 0;
};

// Of its contents or its name's; nullopt: there is no such file.
std::optional<std::int64_t> last_use_s(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return std::max(info.st_atim.tv_sec, info.st_mtim.tv_sec);
}

// What somebody would miss first: the newest checkpoint of a stage, and what it has published.
std::vector<Kept> kept_by(const std::string& run_dir, const StageStatus& stage) {
  std::vector<Kept> kept;
  const std::string folder = checkpoints_folder(run_dir, stage.id);
  if (const auto steps = checkpoint_steps(folder); steps.ok() && !steps->empty())
    if (const auto used =
            last_use_s(join_path(folder, checkpoint_folder_name(steps->back()) + "/" + checkpoint_manifest_name)))
      kept.push_back({format("the newest checkpoint of stage.{} (step {})", stage.id, steps->back()), *used});
  if (const auto used = last_use_s(join_path(stage_folder(run_dir, stage.id), "out/manifest.json")))
    kept.push_back({format("what stage.{} has made", stage.id), *used});
  return kept;
}

}  // namespace

std::string purge_rule_text(double purge_s) {
  return format(
      "files of the folder of runs that nobody uses for {} are removed at this site (paths.scratch_purge): checkpoints "
      "of a run that waits for so long, and models of one that has ended; copy in time what is to stay, or set `runs` "
      "to "
      "a folder where nothing is removed, with paths.scratch_purge = \"0s\"",
      human_duration(purge_s));
}

std::string purge_note(const std::string& run_dir, const RunStatus& status, std::int64_t now_ms) {
  const auto site = load_site(join_path(run_dir, "site.toml"), {});
  if (!site.ok() || site->config.paths.scratch_purge.value <= 0) return {};
  const auto purge_s = static_cast<std::int64_t>(site->config.paths.scratch_purge.value);
  std::optional<Kept> oldest;
  for (const StageStatus& stage : status.stages)
    for (Kept& one : kept_by(run_dir, stage))
      if (!oldest || one.used_s < oldest->used_s) oldest = std::move(one);
  const std::string rule = format("files here that nobody uses for {} are removed by the site (paths.scratch_purge)",
                                  human_duration(static_cast<double>(purge_s)));
  const std::int64_t unused_s = oldest ? now_ms / 1000 - oldest->used_s : 0;
  if (unused_s * 2 < purge_s) return rule + ": copy in time what is to stay";
  const std::string since = human_duration(static_cast<double>(unused_s));
  if (unused_s >= purge_s) return format("{}: {} has lain unused for {}, and may be gone", rule, oldest->what, since);
  return format("{}: {} has lain unused for {}, and may go in {}; copy what is to stay, or let the run go on", rule,
                oldest->what, since, human_duration(static_cast<double>(purge_s - unused_s)));
}

}  // namespace longhaul
