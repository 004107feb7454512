#include "orchestrator/scheduler/port/slurm_commands.h"

#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <random>

#include "base/text/text.h"
#include "orchestrator/scheduler/names/refusals.h"

namespace longhaul {
namespace {

constexpr std::size_t message_max = 500;
constexpr std::size_t skipped_max = 120;
constexpr const char* accounting_fields =
    "JobIDRaw,JobID,State,ExitCode,NodeList,Partition,Account,JobName,Submit,Start,End,TimelimitRaw,WorkDir,Comment";
// slurmdbd may take the question and never answer; slurmctld's own deadline would be a long time to stand still.
constexpr std::int64_t accounting_deadline_ms = 20'000;

std::int64_t number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() ? number : 0;
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (static_cast<unsigned char>(c) & 0x80U) != 0;
}

std::vector<std::string> split_by(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
    if (end == std::string::npos) return parts;
    begin = end + separator.size();
  }
}

Result<RunOutput> run(SpawnSpec spec, std::int64_t deadline_ms, const ProgramPaths& programs) {
  const std::string program = spec.argv[0];
  if (const auto found = programs.find(program); found != programs.end()) spec.argv[0] = found->second;
  auto output = run_captured(std::move(spec), deadline_ms);
  if (!output.ok() && output.error().code == ErrorCode::timeout)
    return make_error(ErrorCode::unavailable, format("{} gave no answer within {} s", program, deadline_ms / 1000),
                      "slurmctld may be down or busy; it is tried again later");
  return output;
}

// "WHAT: line; line", without what commands say of their own usage.
std::string failure_text(const std::string& what, const RunOutput& output) {
  std::string said;
  // Wrappers of sites say why on the one stream, and what they please on the other.
  for (const std::string& line : split(output.out + "\n" + output.err, '\n')) {
    const std::string message = repair_utf8(trim(line));
    if (message.empty() || starts_with(message, "Try ")) continue;
    if (!said.empty()) said += "; ";
    said += message;
  }
  if (said.size() > message_max) said = said.substr(said.size() - message_max);
  return format("{}: {}", what, said.empty() ? output.status.text() : said);
}

}  // namespace

void leave_outer_job(SpawnSpec& spec) {
  for (const char* prefix :
       {"SLURM_*", "SLURMD_*", "SBATCH_*", "SQUEUE_*", "SACCT_*", "SCANCEL_*", "SINFO_*", "SCONTROL_*",
        "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"})
    spec.environment_removed.emplace_back(prefix);
  spec.environment_kept = {"SLURM_CONF", "SLURM_JWT"};
}

void submit_with(const std::vector<std::string>& environment, SpawnSpec& spec) {
  if (environment.empty()) return;
  spec.environment_removed = {"*"};
  spec.environment_kept = {"SLURM_CONF", "SLURM_JWT"};
  for (const std::string& entry : environment)
    if (const std::size_t equals = entry.find('='); equals != std::string::npos)
      spec.environment.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
}

Result<RunOutput> run_slurm_query(std::vector<std::string> argv, std::int64_t deadline_ms,
                                  const ProgramPaths& programs) {
  SpawnSpec spec;
  spec.argv = std::move(argv);
  leave_outer_job(spec);
  spec.environment = {{"LC_ALL", "C"}, {"SLURM_TIME_FORMAT", "%s"}, {"SLURM_BITSTR_LEN", "0"}};
  return run(std::move(spec), deadline_ms, programs);
}

Result<RunOutput> run_slurm_submission(std::vector<std::string> argv, std::int64_t deadline_ms,
                                       const ProgramPaths& programs, const std::vector<std::string>& environment) {
  SpawnSpec spec;
  spec.argv = std::move(argv);
  spec.dies_with_starter = true;  // sbatch tries again for minutes: by then another controller has done it
  leave_outer_job(spec);
  submit_with(environment, spec);
  return run(std::move(spec), deadline_ms, programs);
}

Error slurm_command_error(const std::string& what, const RunOutput& output) {
  const std::string text = failure_text(what, output), message = output.err + "\n" + output.out;
  if (output.status.signal != 0) return make_error(ErrorCode::unavailable, text);
  for (const char* phrase : {"Invalid job id", "No job matching"})
    if (message.find(phrase) != std::string::npos) return make_error(ErrorCode::not_found, text);
  const Refusal refusal = refusal_of(message);
  return refusal == Refusal::unknown ? make_error(ErrorCode::invalid_input, text) : refusal_error(text, refusal);
}

Error slurm_submission_error(const std::string& what, const RunOutput& output) {
  const std::string text = failure_text(what, output);
  if (output.status.signal != 0) return refusal_error(text, Refusal::silence);
  return refusal_error(text, refusal_of(output.err + "\n" + output.out));
}

std::vector<std::string> for_cluster(std::vector<std::string> argv, const std::string& cluster) {
  if (!cluster.empty()) argv.insert(argv.begin() + 1, {"-M", cluster});
  return argv;
}

void SkippedLine::note(const std::string& program, const std::string& text) {
  if (!text_.empty()) return;
  for (const std::string& line : split(text, '\n'))
    if (const std::string shown = trim(line); std::any_of(shown.begin(), shown.end(), is_letter)) {
      text_ = format("{}: {}", program, repair_utf8(shown.substr(0, skipped_max)));
      return;
    }
}

Result<std::vector<SlurmJob>> read_accounting(const std::vector<std::string>& ids, std::int64_t deadline_ms,
                                              const ProgramPaths& programs, const std::string& cluster,
                                              SkippedLine& skipped) {
  if (ids.empty()) return std::vector<SlurmJob>{};
  const UniqueSeparators separators;
  // Without a start, sacct looks at today only. The comment stands last, and every record ends with the field
  // separator. Not asked for: the reason, for accounting keeps the one for which a job waited, not that of its end.
  auto output = run_slurm_query(for_cluster({"sacct", "-X", "-D", "-n", "-p", "--delimiter=" + separators.field(), "-S",
                                             "now-366days", "-j", join(ids, ","), "-o", accounting_fields},
                                            cluster),
                                std::min(deadline_ms, accounting_deadline_ms), programs);
  if (!output.ok() && output.error().code == ErrorCode::not_found)
    return make_error(ErrorCode::unavailable, "there is no sacct here");
  if (!output.ok()) return output.error();
  if (!output->status.success()) {
    Error error = slurm_command_error("sacct failed", *output);
    error.code = ErrorCode::unavailable;
    return error;
  }
  constexpr std::size_t fields_per_job = 14;
  const auto fields = split_by(output->out, separators.field());
  std::vector<SlurmJob> jobs;
  for (std::size_t at = 0; at + fields_per_job < fields.size() + 1 && at + fields_per_job <= fields.size();
       at += fields_per_job) {
    const auto field = [&](std::size_t i) { return fields[at + i]; };
    SlurmJob job;
    // What a wrapper printed stands before the number that begins its record's line.
    const std::size_t line = field(0).rfind('\n') == std::string::npos ? 0 : field(0).rfind('\n') + 1;
    skipped.note("sacct", field(0).substr(0, line));
    job.id = trim(field(0).substr(line));
    if (job.id.empty()) break;
    const std::string shown = field(1);
    if (const std::size_t underscore = shown.find('_'); underscore != std::string::npos) {
      job.array_id = shown.substr(0, underscore);
      job.array_tasks = shown.substr(underscore + 1);
      if (starts_with(job.array_tasks, "[")) job.array_tasks = job.array_tasks.substr(1, job.array_tasks.size() - 2);
    }
    job.state = read_slurm_state(field(2));
    job.cancelled_by = canceller_of(field(2));
    const auto codes = split(field(3), ':');
    job.exit_code = static_cast<int>(number_of(codes[0]));
    job.exit_signal = codes.size() > 1 ? static_cast<int>(number_of(codes[1])) : 0;
    job.nodes = read_slurm_text(field(4));
    job.partition = field(5);
    job.account = field(6);
    job.name = field(7);
    job.submitted_s = read_slurm_time(field(8));
    job.started_s = read_slurm_time(field(9));
    job.ended_s = read_slurm_time(field(10));
    job.time_limit_s = number_of(field(11)) * 60;
    job.work_dir = field(12);
    job.comment = field(13);
    jobs.push_back(std::move(job));
  }
  skipped.note("sacct", fields.back());
  return jobs;
}

UniqueSeparators::UniqueSeparators() {
  std::random_device random;
  const std::string mark = format("{:08x}{:08x}", random(), random());
  record_ = "\x1e" + mark;
  field_ = "\x1f" + mark;
}

std::vector<std::vector<std::string>> UniqueSeparators::read(const std::string& text, std::string& before) const {
  std::vector<std::vector<std::string>> records;
  const auto pieces = split_by(text, record_);
  before = pieces[0];
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    std::string piece = pieces[i];
    if (ends_with(piece, "\n")) piece.pop_back();
    records.push_back(split_by(piece, field_));
  }
  return records;
}

std::int64_t read_slurm_duration(const std::string& text) {
  std::string rest = text;
  std::int64_t days = 0;
  if (const std::size_t dash = text.find('-'); dash != std::string::npos) {
    days = number_of(text.substr(0, dash));
    rest = text.substr(dash + 1);
  }
  if (rest.find_first_not_of("0123456789:") != std::string::npos) return 0;
  std::int64_t seconds = 0;
  for (const std::string& part : split(rest, ':')) seconds = seconds * 60 + number_of(part);
  return days * 86400 + seconds;
}

std::int64_t read_slurm_time(const std::string& text) {
  return number_of(trim(text));
}

SlurmExit read_slurm_exit(const std::string& text) {
  const auto parts = split(text, ':');
  if (parts.size() == 2) return {static_cast<int>(number_of(parts[0])), static_cast<int>(number_of(parts[1]))};
  const int status = static_cast<int>(number_of(text));
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0};
}

std::string read_slurm_text(const std::string& text) {
  for (const char* nothing : {"(null)", "N/A", "None", "Unknown", "None assigned", "n/a"})
    if (text == nothing) return {};
  return text;
}

}  // namespace longhaul
