#include "orchestrator/reuse/prepare.h"

#include <sys/stat.h>

#include <algorithm>

#include "autotune/hyper/hyper_artifact.h"
#include "autotune/trials/layout_artifact.h"
#include "base/digest/hash.h"
#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/workflow/source/stage_text.h"
#include "orchestrator/workflow/trials/trial_stage.h"
#include "resiliency/taxonomy/fault_class.h"

namespace longhaul {
namespace {

constexpr std::uint64_t whole_file_max = 16ULL << 20;
constexpr std::uint64_t whole_input_max = 256ULL << 20;
constexpr std::size_t edge_bytes = 64 << 10;

// Returns a digest of the file alone; the one of the input goes on with it.
Result<std::string> digest_file(const std::string& path, const std::string& name, std::uint64_t& budget,
                                Xxh3Stream& digest, InputFile& seen) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return errno_error(ErrorCode::not_found, "cannot read " + path, errno);
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  digest.update(format("{}\n{}\n", name, bytes));
  seen.bytes = bytes;
  LH_TRY(const MappedFile file, MappedFile::open(path));
  const std::string_view text = file.view();
  if (bytes <= whole_file_max && bytes <= budget) {
    budget -= bytes;
    digest.update(text);
    return hex64(xxh3_64(text));
  }
  const std::string changed = format("changed {}.{:09}\n", info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  digest.update(changed);
  digest.update(text.substr(0, edge_bytes));
  digest.update(text.substr(text.size() - std::min(text.size(), edge_bytes)));
  return hex64(xxh3_64(text.substr(0, edge_bytes), xxh3_64(changed)));
}

}  // namespace

Result<std::string> digest_raw_input(const std::vector<std::string>& paths, InputFiles* files, const FilesRead& read) {
  Xxh3Stream digest;
  std::size_t count = 0;
  const auto note = [&](std::string path, InputFile seen, const std::string& digest_of_it) {
    ++count;
    if (read) read(count);
    if (!files) return;
    seen.path = std::move(path);
    seen.digest = digest_of_it;
    files->add(std::move(seen));
  };
  std::uint64_t budget = whole_input_max;
  for (const std::string& path : paths) {
    if (!is_directory(path)) {
      InputFile seen;
      LH_TRY(const std::string one, digest_file(path, file_name(path), budget, digest, seen));
      note(file_name(path), std::move(seen), one);
      continue;
    }
    LH_TRY(const auto names, list_tree(path));
    // One that cannot be read is for the stage to judge: it may leave it out, and says so.
    for (const std::string& name : names) {
      InputFile seen;
      const auto one = digest_file(join_path(path, name), name, budget, digest, seen);
      if (!one.ok()) digest.update("unreadable\n");
      note(join_path(file_name(path), name), std::move(seen), one.ok() ? *one : "unreadable");
    }
  }
  return digest.hex128();
}

Task make_task(const PlannedStage& planned, const std::string& run_name, const LedgerStage& stage, int cores) {
  Task task;
  task.run = run_name;
  task.stage = planned.stage;
  task.variant = planned.variant;
  task.kind = planned.kind;
  task.kind_version = planned.kind_version;
  task.key = stage.key;
  task.resources.ranks = planned.common.ranks;
  task.resources.threads =
      planned.common.threads > 0 ? planned.common.threads : std::max(1, cores / std::max(1, planned.common.ranks));
  task.resources.nodes = planned.common.nodes;
  task.dims = planned.dims;
  task.inputs = stage.inputs;
  task.settings = planned.settings;
  return task;
}

double time_left_s(const PlannedStage& planned, const LedgerStage& stage) {
  const double limit_s = planned.common.time_limit.value;
  if (limit_s <= 0) return 0;
  double spent_s = 0;
  for (std::size_t i = stage.attempts_before_reset; i < stage.attempts.size(); ++i)
    if (group_of(fault_class_of(stage.attempts[i].fault)) == FaultGroup::wall_time)  // a chain shares one limit
      spent_s += static_cast<double>(stage.attempts[i].ran_ms) * 1e-3;
  return std::max(1.0, limit_s - spent_s);
}

namespace {

// The stage with the layout and the hyperparameters that others have found, which are left in `found`. Its key is that
// of a stage into which somebody has pasted them.
Result<PlannedStage> with_all_found(const PlannedStage& planned, const RunLedger& ledger, Value& found) {
  const auto artifact_of = [&](const std::string& id, const char* what) -> Result<std::string> {
    const LedgerStage* from = ledger.find(id);
    if (from && from->has_artifact()) return from->artifact;
    return make_error(ErrorCode::not_found, format("its {} there: {} has found none", what, id));
  };
  found = Value::make_table();
  if (!planned.layout_from.empty()) {
    LH_TRY(const std::string folder, artifact_of(planned.layout_from, "layout is not"));
    LH_TRY(const LayoutArtifact layout, read_layout_artifact(folder));
    found = layout.settings;
  }
  if (!planned.hyperparameters_from.empty()) {
    LH_TRY(const std::string folder, artifact_of(planned.hyperparameters_from, "hyperparameters are not"));
    LH_TRY(const hyper::HyperArtifact hyperparameters, hyper::read_hyper_artifact(folder));
    merge_over(found, hyperparameters.settings);
  }
  return with_found(planned, found).with_context("with what was found for it");
}

}  // namespace

namespace {

PreparedStage unknown_for_now(const Error& error) {
  PreparedStage prepared;
  prepared.problem = error.message();
  prepared.may_pass = true;
  return prepared;
}

// Of what cannot be read: not for want of a permission, which no second try brings.
bool may_pass(const Error& error) {
  return error.code == ErrorCode::io && error.message().find("Permission denied") == std::string::npos;
}

}  // namespace

PreparedStage prepare_stage(const PlannedStage& planned, const RunLedger& ledger, const std::string& artifact_root,
                            const ArtifactTrust& trust, const FilesRead& read) {
  PreparedStage prepared;
  LedgerStage stage;
  for (const PlannedInput& input : planned.inputs) {
    TaskInput taken;
    taken.name = input.name;
    if (!input.stages.empty()) {
      const auto source = choose_source(input, ledger);
      if (!source.ok()) {
        prepared.problem = source.error().message();
        return prepared;
      }
      const LedgerStage* from = ledger.find(*source);
      const bool whole = input.milestone == 0;
      const std::string& artifact = whole ? from->artifact : from->milestones.at(input.milestone).artifact;
      const std::string& digest = whole ? from->digest : from->milestones.at(input.milestone).digest;
      taken.stage = whole ? *source : format("{}@{}", *source, input.milestone);
      taken.paths = {input.within.empty() ? artifact : join_path(artifact, input.within)};
      taken.digest = input.within.empty() ? digest : digest + "/" + input.within;
      const auto there = is_there(taken.paths[0]);
      if (!there.ok()) return unknown_for_now(there.error().with_context("input " + input.name));
      if (!*there) {
        prepared.problem =
            format("input {}: {} does not exist in the artifact of {}", input.name, taken.paths[0], *source);
        return prepared;
      }
    } else {
      taken.paths = input.paths;
      InputFiles files{.input = input.name};
      auto digest = digest_raw_input(input.paths, &files, read);
      prepared.raw_files.push_back(std::move(files));
      if (!digest.ok() && may_pass(digest.error()))
        return unknown_for_now(digest.error().with_context("input " + input.name));
      if (!digest.ok()) {
        prepared.problem = digest.error().with_context("input " + input.name).message();
        return prepared;
      }
      taken.digest = *digest;
    }
    stage.inputs.push_back(std::move(taken));
  }
  prepared.inputs = stage.inputs;
  if (planned.layout_from.empty() && planned.hyperparameters_from.empty()) {
    prepared.key = task_key(make_task(planned, {}, stage, 1));
  } else {
    const auto complete = with_all_found(planned, ledger, prepared.found);
    if (!complete.ok()) {
      prepared.problem = complete.error().message();
      return prepared;
    }
    prepared.key = task_key(make_task(*complete, {}, stage, 1));
  }
  if (planned.kind == "deploy") return prepared;
  auto artifact = find_artifact(artifact_root, prepared.key, trust);
  if (!artifact.ok() && artifact.error().code != ErrorCode::not_found)
    prepared.disbelieved = artifact.error().message();
  if (artifact.ok()) prepared.cached = std::move(artifact).value();
  return prepared;
}

}  // namespace longhaul
