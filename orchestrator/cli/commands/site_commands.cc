// sites, and doctor --site: what is known about a machine, and whether it is true.
#include <cstdio>

#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/render/plan/site_text.h"
#include "orchestrator/scheduler/port/mpi_types.h"
#include "orchestrator/scheduler/port/open_slurm_port.h"
#include "orchestrator/scheduler/port/slurm_release.h"
#include "orchestrator/scheduler/slurm/site_probe.h"

namespace longhaul {
namespace {

ExitCode list_sites(const CommandLine& line, const Installation& installation) {
  std::vector<std::vector<std::string>> rows = {site_row_header()};
  Value list = Value::make_array();
  for (const std::string& name : site_names(installation.site_folders())) {
    const auto site = load_site(name, installation.site_folders());
    if (!site.ok()) {
      rows.push_back({name, "-", "-", "-", "-", "CANNOT BE READ: " + split(site.error().message(), '\n').front()});
      continue;
    }
    rows.push_back(site_row(*site));
    Value one = Value::make_table();
    one.set("name", site->config.name);
    one.set("scheduler", site->config.scheduler);
    one.set("description", site->config.description);
    list.push_back(std::move(one));
  }
  Value document = document_of("longhaul sites", 1);
  document.set("sites", std::move(list));
  print_text(stdout, line.json ? to_json_pretty(document) : text_table(rows));
  return ExitCode::ok;
}

ExitCode probe_cluster(const CommandLine& line, const Installation& installation) {
  auto opened = open_slurm_port("auto", installation.programs_dir);
  if (!opened.ok()) return fail(line, of_this_machine(opened.error()));
  const auto facts = ask_cluster(*opened->port);
  if (!facts.ok()) return fail(line, of_this_machine(facts.error()));
  const std::string name = line.new_name.empty() ? facts->configuration.cluster : line.new_name;
  print_text(stdout, probed_site_text(name, *facts));
  return ExitCode::ok;
}

std::string place_of(const SourcePos& where) {
  return where.line > 0 ? format("{}:{}:{}", where.file.str(), where.line, where.column) : "-";
}

// `compared`: there was a cluster to ask.
void print_findings(const Site& site, const std::vector<SiteFinding>& findings, const std::string& asked_of,
                    bool compared) {
  std::vector<std::vector<std::string>> changes = {{"key", "the file says", "the cluster says", "what to do", "where"}};
  std::vector<std::vector<std::string>> asks = {{"key", "the file says", "where it may be from"}};
  for (const SiteFinding& finding : findings)
    if (finding.kind == SiteFinding::Kind::change)
      changes.push_back({finding.path, finding.said, finding.found, finding.remedy, place_of(finding.where)});
    else
      asks.push_back({finding.path, clipped(finding.said, 60), finding.found.empty() ? "-" : finding.found});
  std::string out = "site " + site.config.name + ", " + asked_of + "\n";
  if (changes.size() > 1)
    out += "\nto change:\n" + text_table(changes);
  else if (compared)
    out += "\nnothing that the cluster says speaks against the file\n";
  if (asks.size() > 1)
    out +=
        "\nnobody has checked these; try them, or ask somebody who works there, then name the source in the file:\n" +
        text_table(asks);
  print_text(stdout, out);
}

Value findings_value(const std::vector<SiteFinding>& findings) {
  Value list = Value::make_array();
  for (const SiteFinding& finding : findings) {
    Value one = Value::make_table();
    one.set("kind", finding.kind == SiteFinding::Kind::change ? "change" : "ask");
    one.set("key", finding.path);
    one.set("said", finding.said);
    one.set("found", finding.found);
    one.set("remedy", finding.remedy);
    if (finding.where.line > 0) one.set("place", place_of(finding.where));
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

ExitCode show_sites(const CommandLine& line, const Installation& installation) {
  if (line.subject.empty()) return list_sites(line, installation);
  if (line.subject == "probe") return probe_cluster(line, installation);
  const auto site = load_site(line.subject, installation.site_folders(), site_sets(line.sets));
  if (!site.ok()) return fail(line, site.error());
  print_text(stdout, line.json ? to_json_pretty(document_of("longhaul sites", 1, site_value(*site)))
                               : site_text(*site, line.all));
  return ExitCode::ok;
}

// Exit code 3 when the file has to change. A cluster that does not answer leaves the questions to people.
ExitCode examine_site(const CommandLine& line, const Installation& installation) {
  const auto site = load_site(line.site, installation.site_folders());
  if (!site.ok()) return fail(line, site.error());
  std::vector<SiteFinding> findings = unverified_values(*site);
  std::vector<std::string> notes;
  std::string asked_of = "a local site: there is no cluster to compare with";
  ExitCode exit = ExitCode::ok;
  bool compared = false;
  if (site->config.is_slurm()) {
    auto opened = open_slurm_port(site->config.slurm_backend, installation.programs_dir, site->config.programs,
                                  submission_deadline_ms, site->config.cluster);
    auto facts = opened.ok() ? ask_cluster(*opened->port) : Result<ClusterFacts>(opened.error());
    compared = facts.ok();
    if (compared) {
      if (auto known = ask_mpi_types(); known.ok()) facts->mpi_types = std::move(*known);
      notes = slurm_release_notes(facts->configuration, false, true);
      asked_of = "compared with the cluster " + facts->configuration.cluster + " through " +
                 opened->port->description() + ", because: " + opened->why;
      findings = compare_site(*site, *facts);
    } else {
      asked_of = "NOT compared: " + facts.error().message();
      exit = exit_code_for(of_this_machine(facts.error()).code);
    }
  }
  for (const SiteFinding& finding : findings)
    if (finding.kind == SiteFinding::Kind::change) exit = ExitCode::invalid_input;
  if (!line.json) {
    print_findings(*site, findings, asked_of, compared);
    for (const std::string& note : notes) print(stdout, "\nof jobs that are to outlive a node: {}\n", note);
    return exit;
  }
  Value document = document_of("longhaul doctor --site", 1);
  document.set("site", site->config.name);
  document.set("compared", asked_of);
  document.set("findings", findings_value(findings));
  document.set("notes", ValueArray(notes.begin(), notes.end()));
  print_text(stdout, to_json_pretty(document));
  return exit;
}

}  // namespace longhaul
