#include "orchestrator/runs/striping.h"

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t lfs_deadline_ms = 30'000;

std::string output_text(const RunOutput& output) {
  for (const std::string* said : {&output.err, &output.out})
    if (const std::string text = repair_utf8(trim(*said)); !text.empty()) return replace_all(text, "\n", "; ");
  return output.status.text();
}

}  // namespace

Striping striping_of(const Value& site) {
  Striping striping;
  if (const Value* paths = site.find("paths"); paths && paths->is_table()) {
    striping.count = static_cast<int>(paths->get_integer("stripe_count"));
    striping.size_bytes = parse_bytes(paths->get_string("stripe_size")).value_or(0);
  }
  if (const Value* programs = site.find("programs"); programs && programs->is_table())
    striping.lfs = programs->get_string("lfs", striping.lfs);
  return striping;
}

Status stripe_folder(const std::string& folder, const Striping& striping) {
  LH_CHECK(make_directories(folder));
  SpawnSpec spec;
  spec.argv = {striping.lfs, "setstripe"};
  std::string asked;
  const auto ask = [&](const std::string& option, const std::string& key, std::int64_t value) {
    if (value == 0) return;
    spec.argv.push_back(option);
    spec.argv.push_back(std::to_string(value));
    asked += format("{}paths.{} = {}", asked.empty() ? "" : ", ", key, value);
  };
  ask("--stripe-count", "stripe_count", striping.count);
  ask("--stripe-size", "stripe_size", striping.size_bytes);
  spec.argv.push_back(folder);
  spec.environment = {{"LC_ALL", "C"}};
  const auto done = run_captured(std::move(spec), lfs_deadline_ms);
  if (done.ok() && done->status.success()) return {};
  return make_error(ErrorCode::unsupported,
                    format("the site's {} cannot be had for {}: {}", asked, folder,
                           done.ok() ? output_text(*done) : done.error().message()),
                    "put `runs` of the site file on Lustre, or leave paths.stripe_count and paths.stripe_size out");
}

}  // namespace longhaul
