// docs, explain and doctor: about the program itself.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <thread>

#include "base/files/files.h"
#include "base/files/folder_access.h"
#include "base/files/mounts.h"
#include "base/process/process.h"
#include "base/process/program_trust.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/settings/job/mpi_place.h"
#include "orchestrator/cli/docs/compatibility_page.h"
#include "orchestrator/cli/docs/explain.h"
#include "orchestrator/cli/docs/man_pages.h"
#include "orchestrator/cli/figures/code_figures.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/cli/options/reference_docs.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/scheduler/port/open_slurm_port.h"
#include "orchestrator/site/runs_mount.h"
#include "resiliency/health/left_folders.h"

namespace longhaul {
namespace {

constexpr std::int64_t answer_deadline_ms = 10'000;

std::vector<std::string> toml_names(const std::string& folder) {
  std::vector<std::string> found;
  if (const auto names = list_directory(folder); names.ok())
    for (const std::string& name : *names)
      if (ends_with(name, ".toml")) found.push_back(name.substr(0, name.size() - 5));
  return found;
}

std::string program_state(const Installation& installation, const std::string& program) {
  std::string path = join_path(installation.programs_dir, program);
  if (::access(path.c_str(), X_OK) != 0) return "missing: " + path;
  return path;
}

// What a program answers, with its complaints.
Result<RunOutput> ask(const std::vector<std::string>& argv) {
  SpawnSpec spec;
  spec.argv = argv;
  return run_captured(spec, answer_deadline_ms);
}

using Facts = std::vector<std::pair<std::string, std::string>>;

// What the engine says of itself: libraries of the site in rows of their own, the rest in one.
Facts engine_facts(const Installation& installation) {
  const std::string path = join_path(installation.programs_dir, "longhaul-engine");
  if (::access(path.c_str(), X_OK) != 0) return {{"engine build", "unknown: no engine"}};
  const auto output = ask({path, "info"});
  if (!output.ok()) return {{"engine build", "unknown: " + output.error().message()}};
  if (!output->status.success())
    return {{"engine build", "unknown: `longhaul-engine info` ended with " + output->status.text() + ": " +
                                 replace_all(trim(output->err), "\n", "; ")}};
  const std::set<std::string> libraries = {"mpi", "cuda driver", "nccl", "cublaslt", "cudnn", "cupti", "nvml"};
  Facts facts = {{"engine build", ""}};
  for (const std::string& line : split(trim(output->out), '\n')) {
    const std::size_t colon = line.find(": ");
    const std::string name = line.substr(0, colon);
    if (libraries.contains(name))
      facts.emplace_back(name, line.substr(colon + 2));
    else
      facts[0].second += (facts[0].second.empty() ? "" : "; ") + line;
  }
  return facts;
}

// Whose mpirun starts ranks on this host, and whether it fits the library that the engine was given.
std::string mpi_launcher(const Installation& installation, const Facts& engine) {
  const MpiPlace place = find_mpi(installation.programs_dir, installation.library_path);
  const std::string whose = place.mpirun != "mpirun"     ? "brought by this package"
                            : place.site_library.empty() ? "of PATH"
                                                         : "of PATH, as " + place.site_library + " is used";
  const auto output = ask({place.mpirun, "--version"});
  if (!output.ok() || !output->status.success())
    return format("no mpirun ({}): stages of one rank need none, srun brings its own", whose);
  std::string library = "unknown: the engine did not start";
  for (const auto& [name, value] : engine)
    if (name == "mpi") library = value;
  const std::string mismatch = mpi_mismatch(output->out, library);
  return format("{}, {}, {}", mpi_heading(output->out), place.mpirun, whose) +
         (mismatch.empty() ? "" : "; DOES NOT FIT: " + mismatch);
}

// The site's libslurm, which only the helper uses: it is built at the site, for the release that runs there.
std::string libslurm_state(const Installation& installation) {
  std::vector<std::string> folders = split(installation.library_path, ':');
  for (const char* usual : {"/usr/lib64", "/usr/lib64/slurm", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                            "/opt/slurm/lib64", "/opt/slurm/lib", "/usr/local/lib"})
    folders.push_back(usual);
  std::vector<std::string> found;
  for (const std::string& folder : folders)
    if (const auto names = list_directory(folder); !folder.empty() && names.ok())
      for (const std::string& name : *names)
        if (starts_with(name, "libslurm.so.")) found.push_back(join_path(folder, name));
  return found.empty() ? "not found: sbatch and squeue do the same work" : join(found, ", ");
}

// Whether others could put a program in the place of one that is found by name.
std::string search_path_text(const std::string& folders) {
  const auto problems = search_path_problems(folders);
  if (problems.empty()) return format("{} folders, none of which others may write", split(folders, ':').size());
  return "OTHERS DECIDE WHAT IS STARTED: " + join(problems, "; ");
}

// The programs that are started by name, where they are and whose.
std::string found_programs_text(const std::string& folders) {
  std::vector<std::string> found;
  for (const char* name :
       {"sbatch", "squeue", "sacct", "scontrol", "scancel", "srun", "scrontab", "mpirun", "bash", "tar"})
    if (const auto path = find_program(name, folders); path.ok())
      found.push_back(format("{} ({})", *path, owner_text(*path)));
  return found.empty() ? "none" : join(found, ", ");
}

// Which way to Slurm would be taken, and what answers there.
std::pair<std::string, std::string> slurm_state(const Installation& installation) {
  const auto opened = open_slurm_port("auto", installation.programs_dir);
  if (!opened.ok()) return {"none: " + opened.error().message(), "unknown"};
  const std::string backend = format("{}: {}", opened->port->description(), opened->why);
  const auto found = opened->port->configuration();
  if (!found.ok()) return {backend, "unknown: " + found.error().what};
  return {backend, format("slurmctld {} of {}, {}, forgets jobs {} s after their end", found->version, found->cluster,
                          found->accounting ? "with accounting" : "without accounting", found->min_job_age_s)};
}

// What jobs keep or have left in this host's memory, and what becomes of it.
std::string node_memory_text() {
  constexpr const char* memory = "/dev/shm";
  std::vector<std::string> found;
  for (const NodeFolder& folder : node_folders(memory)) {
    const TrainingOnDisk training = folder.state_dir.empty() ? TrainingOnDisk() : training_on_disk(folder.state_dir);
    const std::string why = why_left(folder, training);
    const std::string what = folder.use == FolderUse::used      ? "in use"
                             : folder.use == FolderUse::unknown ? "nobody was ever seen to use it; it stays"
                             : why.empty()                      ? "copies that " + folder.state_dir + " may go on from"
                                           : "left: " + why + "; your next job on this host removes it";
    found.push_back(format("{} ({}, {})", folder.path, human_bytes(static_cast<double>(folder.bytes)), what));
  }
  return found.empty() ? format("nothing of yours in {}", memory) : join(found, ", ");
}

// Whom new runs of the local site are open to.
std::string readers_of_runs(const Installation& installation) {
  const auto site = load_site("local", installation.site_folders());
  const FolderAccess access = site.ok() ? access_of(site->values) : FolderAccess();
  const std::string who = "runs of the site 'local': " + readers_text(access, present_umask());
  return access.any() ? who : who + "; private = true in the site file closes them to all";
}

// Where runs of the site 'local' would lie, or of the folder that was named.
struct RunsPlace {
  std::string text;
  bool refused = false;
};
RunsPlace place_of_runs(const CommandLine& line, const Installation& installation) {
  const auto site = load_site("local", installation.site_folders());
  const std::string wanted = runs_folder(line, site.ok() ? site->config : SiteConfig());
  std::error_code ignored;
  const std::string folder = std::filesystem::weakly_canonical(wanted, ignored).string();
  const auto mounts = mounts_now();
  const Mount* const mount = mounts.ok() ? mount_of(folder, *mounts) : nullptr;
  if (!mount) return {wanted + ", on an unknown file system"};
  const std::string problem = runs_mount_problem(*mount);
  if (!problem.empty()) return {"REFUSED: " + problem, true};
  return {format("{}, on {} ({})", wanted, mount->point, mount->type)};
}

std::vector<ReferencePage> manual(const std::string& version) {
  std::vector<ReferencePage> pages;
  for (ManPage& page : man_pages(version)) pages.push_back({std::move(page.name), std::move(page.text)});
  return pages;
}

// What `docs` prints or writes, and where; "": to the terminal.
struct DocsAsked {
  std::string folder;
  std::vector<ReferencePage> pages;
};

DocsAsked docs_asked(const CommandLine& line, const Installation& installation) {
  if (!line.man.empty()) return {line.man, manual(installation.version)};
  DocsAsked asked{line.figures.empty() ? line.output : line.figures, {}};
  if (!line.figures.empty()) {
    for (CodeFigure& figure : code_figures()) asked.pages.push_back({std::move(figure.name), std::move(figure.svg)});
    return asked;
  }
  asked.pages = reference_pages();
  if (asked.folder.empty()) asked.pages.insert(asked.pages.begin(), compatibility_page());  // it lies in docs/ itself
  for (ReferencePage& page : asked.pages) page.text = wrapped_page(page.text);
  return asked;
}

}  // namespace

ExitCode show_docs(const CommandLine& line, const Installation& installation) {
  auto [folder, pages] = docs_asked(line, installation);
  if (!line.subject.empty())
    std::erase_if(pages, [&](const ReferencePage& page) { return page.name != line.subject + ".md"; });
  if (pages.empty())
    return fail(line, make_error(ErrorCode::not_found, "there is no page " + line.subject,
                                 "longhaul docs | grep '^# ' lists them by their titles"));
  Value document = document_of("longhaul docs", 1);
  Value& list = document.set("pages", Value::make_array());
  for (const ReferencePage& page : pages) {
    const std::string path = folder.empty() ? "" : join_path(folder, page.name);
    auto written = path.empty() ? Status() : make_directories(folder);
    if (written.ok() && !path.empty()) written = write_file_atomic(path, page.text);
    if (!written.ok()) return fail(line, written.error());
    if (line.json) {
      Value& one = list.push_back(Value::make_table());
      one.set("name", page.name);
      one.set(path.empty() ? "text" : "path", path.empty() ? page.text : path);
    } else if (path.empty()) {
      print_text(stdout, page.text + (line.subject.empty() ? "\n" : ""));
    } else {
      print(stdout, "{}\n", path);
    }
  }
  if (line.json) print_text(stdout, to_json_pretty(document));
  return ExitCode::ok;
}

ExitCode show_explanation(const CommandLine& line, const Installation&) {
  const ExplainAnswer answer = explain(reference_pages(), line.subject);
  if (answer.found.empty())
    return fail(line, make_error(ErrorCode::not_found, "the reference does not know '" + line.subject + "'",
                                 answer.nearest.empty() ? "longhaul docs | less shows all of it"
                                                        : "did you mean " + join(answer.nearest, ", ") + "?"));
  if (line.json) {
    Value document = document_of("longhaul explain", 1);
    document.set("asked", line.subject);
    document.set("said", answer.said);
    Value& found = document.set("found", Value::make_array());
    for (const Explanation& one : answer.found) {
      Value& entry = found.push_back(Value::make_table());
      entry.set("name", one.name);
      entry.set("where", ValueArray(one.where.begin(), one.where.end()));
      entry.set("text", one.text);
    }
    print_text(stdout, to_json_pretty(document));
    return ExitCode::ok;
  }
  if (!answer.said.empty()) print(stdout, "{}\n\n", answer.said);
  bool first = true;
  for (const Explanation& one : answer.found) {
    print(stdout, "{}{} ({})\n", first ? "" : "\n", one.name, join(one.where, "; "));
    for (const std::string& text : split(trim(one.text), '\n')) print(stdout, "  {}\n", text);
    first = false;
  }
  return ExitCode::ok;
}

ExitCode show_doctor(const CommandLine& line, const Installation& installation) {
  const auto slurm = slurm_state(installation);
  const Facts engine = engine_facts(installation);
  Facts facts = {
      {"version", installation.version},
      {"host", host_name()},
      {"cores", std::to_string(std::thread::hardware_concurrency())},
      {"worker", program_state(installation, "longhaul-worker")},
      {"starter in containers", program_state(installation, "longhaul-rank")},
      {"engine", program_state(installation, "longhaul-engine")},
  };
  facts.insert(facts.end(), engine.begin(), engine.end());
  const Facts environment = {
      {"mpi launcher", mpi_launcher(installation, engine)},
      {"PATH", search_path_text(installation.search_path)},
      {"LD_LIBRARY_PATH", installation.library_path.empty() ? "not set" : search_path_text(installation.library_path)},
      {"programs", found_programs_text(installation.search_path)},
      {"libslurm", libslurm_state(installation)},
      {"slurm backend", slurm.first},
      {"slurm controller", slurm.second},
      {"node memory", node_memory_text()},
      {"shared files",
       installation.shared_dir.empty() ? "none: only the site 'local', no recipes" : installation.shared_dir},
  };
  facts.insert(facts.end(), environment.begin(), environment.end());
  std::vector<std::string> sites = {"local"};
  for (const std::string& folder : installation.site_folders())
    for (const std::string& name : toml_names(folder))
      if (std::find(sites.begin(), sites.end(), name) == sites.end()) sites.push_back(name);
  facts.emplace_back("sites", join(sites, ", "));
  const auto recipes = installation.shared_dir.empty()
                           ? std::vector<std::string>{}
                           : toml_names(join_path(installation.shared_dir, "workflows/recipes"));
  const RunsPlace runs = place_of_runs(line, installation);
  facts.emplace_back("your defaults", installation.defaults_text);
  facts.emplace_back("runs", runs.text);
  facts.emplace_back("others can read", readers_of_runs(installation));
  facts.emplace_back("recipes", recipes.empty() ? "none" : join(recipes, ", "));
  if (line.json) {
    Value table = document_of("longhaul doctor", 1);
    for (const auto& [name, value] : facts) table.set(replace_all(name, " ", "_"), value);
    print_text(stdout, to_json_pretty(table));
  } else {
    std::vector<std::vector<std::string>> rows;
    for (const auto& [name, value] : facts) rows.push_back({name, value});
    print_text(stdout, text_table(rows));
  }
  const bool whole = !starts_with(facts[3].second, "missing") && !starts_with(facts[4].second, "missing");
  return whole && !runs.refused ? ExitCode::ok : ExitCode::system;
}

}  // namespace longhaul
