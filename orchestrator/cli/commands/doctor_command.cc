// doctor --site X --job: what only a job can find out, and where it is kept.
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/files/files.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "base/value/json.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/cli/session/signals.h"
#include "orchestrator/preflight/doctor_job.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/scheduler/port/open_slurm_port.h"
#include "orchestrator/scheduler/slurm/site_probe.h"
#include "orchestrator/site/verified_values.h"

namespace longhaul {
namespace {

constexpr int doctor_nodes = 2;

// The file that says it where its owner may write there and it is none of an installed prefix; else one of the user's
// own that goes on from it.
struct SiteFile {
  std::string path;
  std::string inherits;  // of a new file: what it goes on from
};
SiteFile file_to_write(const CommandLine& line, const Site& site, const Installation& installation) {
  if (!line.output.empty()) return {line.output, file_exists(line.output) ? "" : absolute_path(site.files.front())};
  const std::string own = site.files.empty() ? "" : site.files.front();
  const bool installed = ends_with(installation.shared_dir, "share/longhaul") &&
                         starts_with(absolute_path(own), absolute_path(installation.shared_dir) + "/");
  if (!own.empty() && !installed && ::access(own.c_str(), W_OK) == 0) return {own, ""};
  return {join_path("site-configs", site.config.name + ".toml"), absolute_path(own)};
}

std::vector<VerifiedValue> found_values(const std::vector<DoctorFact>& facts, const std::string& day,
                                        const std::string& release) {
  std::vector<VerifiedValue> values;
  for (const DoctorFact& fact : facts)
    if (!fact.key.empty()) values.push_back({fact.key, fact.value, day, release, fact.detail});
  return values;
}

// Of what the file says where it says otherwise: written down, too, and the file still counts.
std::vector<std::vector<std::string>> contradictions(const Site& site, const std::vector<DoctorFact>& facts) {
  std::vector<std::vector<std::string>> rows;
  for (const DoctorFact& fact : facts) {
    const auto said = site.origins.find(fact.key);
    if (fact.key.empty() || said == site.origins.end() || said->second.written == fact.value) continue;
    rows.push_back({fact.key, to_json(said->second.written), to_json(fact.value), fact.detail});
  }
  return rows;
}

int unverified_count(const Site& site) {
  return static_cast<int>(unverified_values(site).size());
}

void print_facts(const Site& site, const std::vector<DoctorFact>& facts, const std::string& release) {
  std::vector<std::vector<std::string>> rows = {{"what was tried", "found", "in words"}};
  for (const DoctorFact& fact : facts) rows.push_back({fact.name, clipped(fact.answer, 40), fact.detail});
  std::string out = format("site {}, Slurm {}\n\n", site.config.name, release.empty() ? "?" : release);
  out += text_table(rows);
  if (auto wrong = contradictions(site, facts); !wrong.empty()) {
    wrong.insert(wrong.begin(), {"key", "the file says", "the job found", "in words"});
    out += "\nto change in the site file:\n" + text_table(wrong);
  }
  print_text(stdout, out);
}

Status write_site_file(const SiteFile& file, const std::vector<VerifiedValue>& values, const std::string& name) {
  std::string text;
  if (file_exists(file.path)) {
    LH_TRY(text, read_file(file.path));
  } else {
    Value head = Value::make_table();
    head.set("name", name);
    if (!file.inherits.empty()) head.set("inherits", file.inherits);
    text = "# Made by `longhaul doctor --job`: add here what is your own.\n" + to_toml(head);
  }
  LH_TRY(const std::string written, with_verified_values(text, values));
  LH_CHECK(make_directories(parent_path(absolute_path(file.path))));
  return write_file_atomic(file.path, written);
}

Value facts_value(const Site& site, const std::vector<DoctorFact>& facts, const std::string& release,
                  const std::string& file) {
  Value document = document_of("longhaul doctor --site --job", 1), list = Value::make_array();
  for (const DoctorFact& fact : facts) list.push_back(doctor_fact_to_value(fact));
  document.set("site", site.config.name);
  document.set("slurm", release);
  document.set("written_to", file);
  document.set("facts", std::move(list));
  return document;
}

ExitCode print_script(const CommandLine& line, const DoctorJob& job) {
  const auto script = read_file(job.script);
  if (!script.ok()) return fail(line, script.error());
  print_text(stdout, *script);
  return ExitCode::ok;
}

}  // namespace

// Exit code 3 when the file says otherwise than the job found.
ExitCode examine_by_job(const CommandLine& line, const Installation& installation) {
  const auto site = load_site(line.site, installation.site_folders());
  if (!site.ok()) return fail(line, site.error());
  if (!line.site_given || !site->config.is_slurm())
    return fail(line, make_error(ErrorCode::invalid_input, "--job tries a site that has Slurm",
                                 "name it: longhaul doctor --site NAME --job"));
  SystemClock clock;
  const std::string folder = join_path(join_path(runs_folder(line, site->config), ".doctor"),
                                       site->config.name + "-" + compact_utc_text(clock.wall_ms()));
  const auto job = doctor_job(*site, line.job_class, folder, line.nodes > 0 ? line.nodes : doctor_nodes);
  if (!job.ok()) return fail(line, job.error());
  const Status made = write_doctor_job(*job, join_path(installation.programs_dir, "longhaul-worker"));
  if (!made.ok()) return fail(line, made.error());
  if (line.dry_run) return print_script(line, *job);
  auto opened = open_slurm_port(site->config.slurm_backend, installation.programs_dir, site->config.programs,
                                submission_deadline_ms, site->config.cluster);
  if (!opened.ok()) return fail(line, opened.error());
  const auto slurm = opened->port->configuration();
  const std::string release = slurm.ok() ? slurm->version : "";
  SignalWatch watch;
  DoctorLimits limits;
  limits.queue_s = line.queue_s;
  auto facts = run_doctor_job(*job, *opened->port, limits, watch.stop(), clock,
                              [](const std::string& what) { print(stderr, "{}\n", what); });
  if (!facts.ok()) return fail(line, facts.error());
  for (DoctorFact& one : facts_of_request(*job, *site, *facts)) facts->push_back(std::move(one));
  const SiteFile file = file_to_write(line, *site, installation);
  const Status written =
      write_site_file(file, found_values(*facts, utc_text(clock.wall_ms()).substr(0, 10), release), site->config.name);
  if (line.json)
    print_text(stdout, to_json_pretty(facts_value(*site, *facts, release, written.ok() ? file.path : "")));
  else
    print_facts(*site, *facts, release);
  if (!written.ok()) return fail_beside(line, written.error());
  if (!line.json) {
    const auto now = load_site(file.path, installation.site_folders());
    print(stdout, "\nwritten to {}; values that nobody has checked: {} before, {} now\n", file.path,
          unverified_count(*site), now.ok() ? unverified_count(*now) : unverified_count(*site));
  }
  return contradictions(*site, *facts).empty() ? ExitCode::ok : ExitCode::invalid_input;
}

}  // namespace longhaul
