// support-bundle: what explains a run, in one file that may be sent away.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/files/files.h"
#include "base/files/owned_folder.h"
#include "base/process/process.h"
#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/text/redact.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/cli/session/asked_run.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/controller/run_messages.h"
#include "orchestrator/state/run_status.h"

extern char** environ;

namespace longhaul {
namespace {

constexpr std::uint64_t head_bytes = 128 << 10, tail_bytes = 1 << 20;  // of a file that is longer than both
constexpr std::int64_t program_deadline_ms = 120'000;
constexpr const char* shown_variables[] = {
    "SLURM_",        "OMP_",       "OMPI_", "NCCL_",           "CUDA_",     "FI_",  "UCX_",
    "LOADEDMODULES", "MODULEPATH", "PATH",  "LD_LIBRARY_PATH", "LONGHAUL_", "LANG", "TZ"};

// What is text and explains something; artifacts, checkpoints, staging and programs are not looked into.
bool is_wanted(const std::string& name) {
  for (const char* part : {"/out/", "/state/", "/staging/"})
    if (("/" + name).find(part) != std::string::npos) return false;
  for (const char* folder : {"bin/", "fork/", ".trash/", "local/"})
    if (starts_with(name, folder)) return false;
  for (const char* suffix : {".toml", ".json", ".jsonl", ".log", ".sbatch", ".out", ".err", ".txt"})
    if (ends_with(name, suffix)) return true;
  return false;
}

// Plans and the run's own log first, then what each stage left, the newest attempts' long logs last.
int rank_of(const std::string& name) {
  if (name.find('/') == std::string::npos) return 0;
  if (starts_with(name, "log/") || starts_with(name, "requests/") || starts_with(name, "notify/")) return 1;
  if (ends_with(name, ".log") || ends_with(name, ".out") || ends_with(name, "events.jsonl")) return 3;
  return 2;
}

class Bundle {
 public:
  // `owners`: whose files may be in it.
  Bundle(std::string folder, std::uint64_t bytes_max, std::vector<std::string> secrets, std::vector<uid_t> owners)
      : folder_(std::move(folder)), left_(bytes_max), secrets_(std::move(secrets)) {
    wanted_.owners = std::move(owners);
    wanted_.forbidden = 0;  // who may write a run is the run's affair
  }

  Status add_text(const std::string& name, const std::string& text) {
    std::string clean = redact_secrets(redact_environments(text));
    for (const std::string& secret : secrets_) clean = replace_all(clean, secret, "[redacted]");
    if (clean.size() > left_) {
      note("left out", name, "the bundle is full");
      return {};
    }
    left_ -= clean.size();
    const std::string path = join_path(folder_, name);
    LH_CHECK(make_directories(parent_path(path)));
    LH_CHECK(write_file_atomic(path, clean, 0600));
    note(clean == text ? "whole" : "redacted", name, human_bytes(static_cast<double>(clean.size())));
    return {};
  }

  Status add_file(const std::string& root, const std::string& name) {
    // A link, or a second name, would be a way to have a file of the caller's sent away that is none of the run's.
    const auto opened = open_file_below(root, name, wanted_);
    if (!opened.ok()) {
      note("left out", name, opened.error().message());
      return {};
    }
    const auto file = MappedFile::open(format("/proc/self/fd/{}", opened->get()));
    if (!file.ok()) {
      note("left out", name, file.error().message());
      return {};
    }
    const std::string_view view = file->view();
    if (view.substr(0, 8192).find('\0') != std::string_view::npos) {
      note("left out", name, "not text");
      return {};
    }
    if (view.size() <= head_bytes + tail_bytes) return add_text(name, std::string(view));
    const std::string cut =
        format("\n[... {} cut here ...]\n", human_bytes(static_cast<double>(view.size() - head_bytes - tail_bytes)));
    return add_text(name,
                    std::string(view.substr(0, head_bytes)) + cut + std::string(view.substr(view.size() - tail_bytes)));
  }

  Status write_manifest() {
    return write_file_atomic(join_path(folder_, "MANIFEST.txt"),
                             "What looked like a secret was replaced by [redacted]. Long files are cut in the middle. "
                             "Artifacts, checkpoints and data are not here.\n\n" +
                                 manifest_,
                             0600);
  }

 private:
  void note(const char* what, const std::string& name, const std::string& more) {
    manifest_ += format("{:9} {}  ({})\n", what, name, more);
  }
  std::string folder_;
  std::uint64_t left_;
  std::vector<std::string> secrets_;
  Ownership wanted_;
  std::string manifest_;
};

// What decides how programs behave here. Values of names that sound like a secret are not even looked at.
std::string environment_text() {
  std::string text;
  for (char** entry = environ; *entry; ++entry) {
    const std::string line = *entry, name = line.substr(0, line.find('='));
    const bool is_shown = std::any_of(std::begin(shown_variables), std::end(shown_variables),
                                      [&](const char* prefix) { return starts_with(name, prefix); });
    if (is_shown) text += names_a_secret(name) ? name + "=[redacted]\n" : line + "\n";
  }
  return text;
}

// The webhook's secrets where this process can read them: cut out wherever they stand.
std::vector<std::string> known_secrets(const std::string& run) {
  std::vector<std::string> secrets;
  const auto config = notify_config_of(run);
  if (!config.ok()) return secrets;
  const Environment environment = process_environment();
  for (const auto& [file, variable] :
       {std::pair{config->url_file, config->url_env}, {config->token_file, config->token_env}})
    if (const auto secret = read_secret("secret", file, variable, environment); secret.ok() && secret->size() >= 6)
      secrets.push_back(*secret);
  return secrets;
}

std::string output_of(const std::vector<std::string>& argv) {
  const auto done = run_program(argv, 30'000);
  return done.ok() ? done->out : done.error().message() + "\n";
}

Status fill(Bundle& bundle, const std::string& run, const std::string& own) {
  LH_TRY(const auto all, list_tree(run));
  std::vector<std::string> names;
  for (const std::string& name : all)
    if (is_wanted(name)) names.push_back(name);
  std::stable_sort(names.begin(), names.end(),
                   [](const std::string& a, const std::string& b) { return rank_of(a) < rank_of(b); });
  if (const auto status = read_run_status(run); status.ok())
    LH_CHECK(bundle.add_text("status.json", to_json_pretty(run_status_to_value(*status))));
  LH_CHECK(bundle.add_text("doctor.txt", output_of({own, "doctor"})));
  LH_CHECK(bundle.add_text("environment.txt", environment_text()));
  for (const std::string& name : names) LH_CHECK(bundle.add_file(run, name));
  return bundle.write_manifest();
}

// `parent` is ours alone, so nobody else can have the file before it is whole.
Status pack(const std::string& parent, const std::string& name, const std::string& output) {
  const std::string partial = join_path(parent, ".tar.gz");
  LH_TRY(const RunOutput done, run_program({"tar", "-czf", partial, "-C", parent, "--", name}, program_deadline_ms));
  if (!done.status.success())
    return make_error(ErrorCode::io, "tar ended with " + done.status.text(), "its output is above");
  if (::chmod(partial.c_str(), 0600) != 0 || ::rename(partial.c_str(), output.c_str()) != 0)
    return make_error(ErrorCode::io, "cannot write " + output);
  return {};
}

}  // namespace

ExitCode write_support_bundle(const CommandLine& line, const Installation& installation) {
  const auto run = asked_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  const std::string name = file_name(*run);
  const auto asked =
      line.output.empty() ? output_beside_run(*run, name + ".tar.gz") : Result<std::string>(absolute_path(line.output));
  if (!asked.ok()) return fail(line, asked.error());
  const std::string& output = *asked;
  // Where the file is wanted there is room for it.
  const auto made = make_unique_private_folder(parent_path(output), file_name(output) + ".parts-");
  if (!made.ok()) return fail(line, made.error());
  const std::string& beside = *made;
  struct stat info{};
  const uid_t owner = ::stat(run->c_str(), &info) == 0 ? info.st_uid : ::geteuid();
  Bundle bundle(join_path(beside, name), static_cast<std::uint64_t>(line.size_max_mib * (1 << 20)), known_secrets(*run),
                {::geteuid(), owner});
  Status done = make_directories(join_path(beside, name));
  if (done.ok()) done = fill(bundle, *run, join_path(installation.programs_dir, "longhaul"));
  if (done.ok()) done = pack(beside, name, output);
  (void)remove_tree(beside).ok();
  if (!done.ok()) return fail(line, done.error());
  const auto size = file_size(output);
  if (line.json) {
    Value document = document_of("longhaul support-bundle", 1);
    document.set("run", *run);
    document.set("bundle", output);
    document.set("bytes", static_cast<long long>(size.ok() ? *size : 0));
    print_text(stdout, to_json_pretty(document));
    return ExitCode::ok;
  }
  print(stdout, "{} ({})\n", output, human_bytes(static_cast<double>(size.ok() ? *size : 0)));
  return ExitCode::ok;
}

}  // namespace longhaul
