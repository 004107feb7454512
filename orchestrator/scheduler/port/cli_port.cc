#include "orchestrator/scheduler/port/cli_port.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/text/text.h"
#include "orchestrator/scheduler/port/slurm_answers.h"

namespace longhaul {
namespace {

constexpr std::int64_t version_deadline_ms = 10'000;

int whole(const std::string& text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::vector<std::string> submission_arguments(const SlurmSubmission& submission) {
  std::vector<std::string> arguments;
  for (const auto& [name, value] : submission.options)
    arguments.push_back(value.empty() ? "--" + name : format("--{}={}", name, value));
  arguments.push_back(submission.script);
  for (const std::string& argument : submission.arguments) arguments.push_back(argument);
  return arguments;
}

}  // namespace

std::string submitted_job_id(const std::string& answer) {
  std::string last;
  for (const std::string& line : split(answer, '\n'))
    if (!trim(line).empty()) last = trim(line);
  const std::string id = trim(last.substr(0, last.find(';')));
  return id.find_first_not_of("0123456789") == std::string::npos ? id : std::string();
}

Result<std::string> CliPort::installed_version(const ProgramPaths& programs) {
  LH_TRY(const RunOutput output, run_slurm_query({"sbatch", "--version"}, version_deadline_ms, programs));
  if (!output.status.success()) return slurm_command_error("sbatch --version failed", output);
  std::string version;  // "slurm-wlm 22.05.8"; a wrapper greets before it, or says goodbye behind
  for (const std::string& line : split(output.out, '\n'))
    if (const auto fields = split(trim(line), ' '); fields.size() == 2 && starts_with(fields[0], "slurm"))
      version = fields[1];
  return version.empty() ? split(trim(output.out), ' ').back() : version;
}

std::string CliPort::description() const {
  if (version_.empty()) {
    const auto version = installed_version(programs_);
    version_ = version.ok() ? *version : "version unknown";
  }
  return format("sbatch and squeue ({})", version_);
}

Result<RunOutput> CliPort::query(std::vector<std::string> argv) const {
  return run_slurm_query(for_cluster(std::move(argv), cluster_), deadline_ms_, programs_);
}

Result<std::string> CliPort::ask(const std::string& what, std::vector<std::string> argv) const {
  LH_TRY(RunOutput output, query(std::move(argv)));
  if (!output.status.success()) return slurm_command_error(what, output);
  return std::move(output.out);
}

std::vector<Result<std::string>> CliPort::submit(const std::vector<SlurmSubmission>& submissions) {
  std::vector<Result<std::string>> ids;
  bool silent = false;
  for (const SlurmSubmission& submission : submissions) {
    if (silent) {
      ids.emplace_back(make_error(ErrorCode::unavailable,
                                  "not attempted: slurmctld did not answer the submission before this one",
                                  "it is tried again later"));
      continue;
    }
    std::vector<std::string> argv = {"sbatch", "--parsable"};
    for (std::string& argument : submission_arguments(submission)) argv.push_back(std::move(argument));
    const auto output =
        run_slurm_submission(for_cluster(std::move(argv), cluster_), deadline_ms_, programs_, environment_);
    if (!output.ok()) {
      ids.emplace_back(output.error());
      silent = output.error().code == ErrorCode::unavailable;
      continue;
    }
    const std::string id = submitted_job_id(output->out);
    if (output->status.success() && !id.empty()) {
      ids.emplace_back(id);
      continue;
    }
    Error error = slurm_submission_error("cannot submit " + submission.script, *output);
    if (output->status.success())
      error = make_error(ErrorCode::unavailable, "sbatch ended well and answered no number of a job: " + error.what);
    silent = output->err.find("contact slurm controller") != std::string::npos ||
             output->err.find("timed out") != std::string::npos;
    ids.emplace_back(error);
  }
  return ids;
}

Result<std::vector<SlurmJob>> CliPort::read_queue(const std::string& what,
                                                  const std::vector<std::string>& which) const {
  // --all: also in hidden partitions, which a submit filter may have routed it to.
  std::vector<std::string> argv = {"squeue", "-h", "--all", "-t", "all", "-o"};
  // The comment, in which anything may stand, is the last field.
  std::string fields;
  for (const char letter : std::string("AFKTrENPajQVSelUZok")) {
    if (!fields.empty()) fields += separators_.field();
    fields += std::string("%") + letter;
  }
  fields += separators_.field();  // what a wrapper prints behind the last record is no comment
  argv.push_back(separators_.record() + fields);
  argv.insert(argv.end(), which.begin(), which.end());
  LH_TRY(const std::string text, ask(what, argv));
  std::vector<SlurmJob> jobs;
  std::map<std::string, std::size_t> place;
  std::string before;
  const auto records = separators_.read(text, before);
  skipped_.note("squeue", before);
  for (const auto& record : records) {
    if (record.size() < 19) return make_error(ErrorCode::unavailable, what + ": squeue's answer has no such fields");
    SlurmJob job;
    job.id = record[0];
    job.array_tasks = read_slurm_text(record[2]);
    if (!job.array_tasks.empty()) job.array_id = record[1];
    job.state = read_slurm_state(record[3]);
    job.reason = replace_all(read_slurm_text(record[4]), " ", "_");
    if (record[3] == "COMPLETING" && job.reason == "NodeDown") job.ends_as = "NODE_FAIL";  // all that squeue says
    job.dependency = read_slurm_text(record[5]);
    job.nodes = read_slurm_text(record[6]);
    job.partition = record[7];
    job.account = read_slurm_text(record[8]);
    job.name = record[9];
    job.held = record[10] == "0" && job.state == "PENDING";
    job.submitted_s = read_slurm_time(record[11]);
    const bool started = job.state != "PENDING";
    if (started) job.started_s = read_slurm_time(record[12]);
    if (started && job.state != "RUNNING" && job.state != "SUSPENDED") job.ended_s = read_slurm_time(record[13]);
    job.time_limit_s = read_slurm_duration(record[14]);
    job.other_user = record[15] != std::to_string(::getuid());
    job.work_dir = read_slurm_text(record[16]);
    job.command = read_slurm_text(record[17]);
    job.comment = record[18] == "(null)" ? std::string() : record[18];
    if (record.size() > 19) skipped_.note("squeue", record[19]);
    place[job.id] = jobs.size();
    jobs.push_back(std::move(job));
  }
  if (jobs.empty()) return jobs;
  // Restarts and exit codes have no letter. Asked for afterwards: a job that was queued again in between has grown its
  // restarts before its state is seen to go back, never the other way round.
  std::vector<std::string> more = {"squeue", "-h", "--all", "-t", "all", "-O", "JobID:16 ,RestartCnt:8 ,exit_code:12"};
  more.insert(more.end(), which.begin(), which.end());
  LH_TRY(const std::string counts, ask(what, more));
  for (const std::string& line : split(counts, '\n')) {
    std::vector<std::string> parts;
    for (const std::string& part : split(line, ' '))
      if (!part.empty()) parts.push_back(part);
    if (parts.size() != 3 || !place.contains(parts[0])) continue;
    SlurmJob& job = jobs[place[parts[0]]];
    job.restarts = whole(parts[1]);
    const SlurmExit end = read_slurm_exit(parts[2]);
    job.exit_code = end.code;
    job.exit_signal = end.signal;
  }
  return jobs;
}

Result<std::vector<SlurmJob>> CliPort::jobs() {
  return read_queue("cannot read the jobs", {"-u", std::to_string(::getuid())});
}

Result<std::vector<SlurmJob>> CliPort::job(const std::string& id) {
  if (id.empty() || id.find_first_not_of("0123456789_") != std::string::npos)
    return make_error(ErrorCode::not_found, "'" + id + "' is no number of a job");
  LH_TRY(auto jobs, read_queue("cannot read job " + id, {"-j", id.substr(0, id.find('_'))}));
  if (jobs.empty()) return make_error(ErrorCode::not_found, "slurmctld knows no job " + id);
  return jobs;
}

Result<std::vector<SlurmJob>> CliPort::accounted(const std::vector<std::string>& ids) {
  return read_accounting(ids, deadline_ms_, programs_, cluster_, skipped_);
}

Status CliPort::signal(const std::string& id, int signal_number, bool batch_only) {
  std::vector<std::string> argv = {"scancel", format("--signal={}", signal_number)};
  if (batch_only) argv.emplace_back("--batch");
  argv.push_back(id);
  LH_TRY(const RunOutput output, query(argv));
  if (output.status.success() && output.err.find("error") == std::string::npos) return {};
  return slurm_command_error("cannot signal job " + id, output);
}

Status CliPort::cancel(const std::string& id) {
  LH_TRY(const RunOutput output, query({"scancel", id}));
  if (output.status.success() && output.err.find("error") == std::string::npos) return {};
  if (output.err.find("already completing or completed") != std::string::npos) return {};
  return slurm_command_error("cannot cancel job " + id, output);
}

Status CliPort::requeue(const std::string& id, bool hold) {
  LH_CHECK(ask("cannot requeue job " + id, {"scontrol", hold ? "requeuehold" : "requeue", id}));
  return {};
}

Status CliPort::release(const std::string& id) {
  LH_CHECK(ask("cannot release job " + id, {"scontrol", "release", id}));
  return {};
}

Status CliPort::update(const std::string& id, const std::vector<std::pair<std::string, std::string>>& changes) {
  static const std::map<std::string, std::string> names = {{"time_limit", "TimeLimit"},
                                                           {"dependency", "Dependency"},
                                                           {"excluded_nodes", "ExcNodeList"},
                                                           {"comment", "Comment"},
                                                           {"partition", "Partition"}};
  std::vector<std::string> argv = {"scontrol", "update", "JobId=" + id};
  for (const auto& [name, value] : changes) {
    const auto found = names.find(name);
    if (found == names.end()) return make_error(ErrorCode::invalid_input, "'" + name + "' of a job cannot be changed");
    argv.push_back(found->second + "=" + value);
  }
  LH_CHECK(ask("cannot change job " + id, argv));
  return {};
}

Result<SlurmWillRun> CliPort::will_run(const SlurmSubmission& submission) {
  std::vector<std::string> argv = {"sbatch", "--test-only"};
  for (std::string& argument : submission_arguments(submission)) argv.push_back(std::move(argument));
  LH_TRY(const RunOutput output, query(std::move(argv)));
  if (!output.status.success()) return slurm_command_error(submission.script + " would not run", output);
  return read_slurm_will_run(output.err);
}

Result<std::vector<SlurmNode>> CliPort::nodes() {
  LH_TRY(const std::string text, ask("cannot read the nodes", {"scontrol", "-a", "-o", "show", "nodes"}));
  return read_slurm_nodes(text);
}

Result<std::vector<SlurmPartition>> CliPort::partitions() {
  LH_TRY(const std::string text, ask("cannot read the partitions", {"scontrol", "-a", "-o", "show", "partitions"}));
  return read_slurm_partitions(text);
}

Result<std::vector<SlurmReservation>> CliPort::reservations() {
  LH_TRY(const std::string text, ask("cannot read the reservations", {"scontrol", "-o", "show", "reservations"}));
  return read_slurm_reservations(text);
}

Result<SlurmConfiguration> CliPort::configuration() {
  LH_TRY(const std::string text, ask("cannot read the configuration", {"scontrol", "show", "config"}));
  return read_slurm_configuration(text);
}

}  // namespace longhaul
