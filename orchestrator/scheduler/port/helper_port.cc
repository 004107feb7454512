#include "orchestrator/scheduler/port/helper_port.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/process/process.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/scheduler/names/refusals.h"
#include "orchestrator/scheduler/port/slurm_commands.h"

namespace longhaul {
namespace {

constexpr std::int64_t hello_deadline_ms = 10'000;
constexpr int protocol = 1;
constexpr std::size_t line_bytes_max = 64U << 20;

Value question(const char* op) {
  Value value = Value::make_table();
  value.set("op", op);
  return value;
}
Value question(const char* op, const std::string& job) {
  Value value = question(op);
  value.set("job", job);
  return value;
}

Value pairs_value(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Value array = Value::make_array();
  for (const auto& [name, value] : pairs) array.push_back(Value(ValueArray{Value(name), Value(value)}));
  return array;
}

Value submission_value(const char* op, const SlurmSubmission& submission) {
  Value value = question(op);
  value.set("script", submission.script);
  Value arguments = Value::make_array();
  for (const std::string& argument : submission.arguments) arguments.push_back(argument);
  value.set("arguments", std::move(arguments));
  value.set("options", pairs_value(submission.options));
  return value;
}

Error error_of(const Value& value) {
  static constexpr ErrorCode codes[] = {ErrorCode::invalid_input, ErrorCode::not_found, ErrorCode::unavailable,
                                        ErrorCode::unsupported,   ErrorCode::io,        ErrorCode::corrupt};
  const std::string code = value.get_string("code");
  ErrorCode found = ErrorCode::internal;
  for (const ErrorCode candidate : codes)
    if (code == to_string(candidate)) found = candidate;
  return make_error(found, value.get_string("what", "longhaul-slurm gave no reason"), value.get_string("hint"));
}

// "... (Slurm error 2050)": slurmctld has answered, and this is why it does not take the job. A filter of the site that
// says no more than `slurm.ERROR` is number -1.
bool is_of_slurmctld(const std::string& what) {
  constexpr int first = 2000, last = 2999, of_a_filter = -1;
  const std::string mark = "(Slurm error ";
  const std::size_t at = what.rfind(mark);
  const int number = at == std::string::npos ? 0 : std::atoi(what.c_str() + at + mark.size());
  return number == of_a_filter || (number >= first && number <= last);
}

Error refusal_of_helper(Error error) {
  return is_of_slurmctld(error.what) ? refusal_error(error.what, refusal_of(error.what)) : std::move(error);
}

SlurmJob job_of(const Value& row) {
  SlurmJob job;
  job.id = row.get_string("id");
  job.array_id = row.get_string("array_id");
  job.array_tasks = row.get_string("array_tasks");
  if (job.array_tasks.empty()) job.array_id.clear();
  job.name = row.get_string("name");
  job.comment = row.get_string("comment");
  job.partition = row.get_string("partition");
  job.account = row.get_string("account");
  job.state = row.get_string("state");
  job.ends_as = row.get_string("ends_as");
  job.reason = row.get_string("reason");
  job.dependency = row.get_string("dependency");
  job.nodes = row.get_string("nodes");
  job.work_dir = row.get_string("work_dir");
  job.command = row.get_string("command");
  job.other_user = row.get_bool("other_user");
  job.exit_code = static_cast<int>(row.get_integer("exit_code"));
  job.exit_signal = static_cast<int>(row.get_integer("exit_signal"));
  job.restarts = static_cast<int>(row.get_integer("restarts"));
  job.held = row.get_bool("held");
  job.submitted_s = row.get_integer("submitted_s");
  job.started_s = row.get_integer("started_s");
  job.ended_s = row.get_integer("ended_s");
  job.time_limit_s = row.get_integer("time_limit_s");
  return job;
}

}  // namespace

HelperPort::HelperPort(std::string program, Options options)
    : program_(std::move(program)), options_(std::move(options)) {}

HelperPort::~HelperPort() {
  end_helper();
}

std::string HelperPort::description() const {
  return library_.empty() ? "longhaul-slurm" : format("longhaul-slurm (libslurm {})", library_);
}

// ------------------------------------------------------------------------------------------------ the helper's life
Status HelperPort::spawn_helper() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return errno_error(ErrorCode::io, "cannot make a socket for " + program_, errno);
  FileDescriptor ours(ends[0]), theirs(ends[1]);
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  words_.reset(::memfd_create("longhaul-slurm", MFD_CLOEXEC));
  SpawnSpec spec;
  spec.argv = {program_};
  if (!options_.cluster.empty()) spec.argv.insert(spec.argv.end(), {"--cluster", options_.cluster});
  spec.stdin_fd = spec.stdout_fd = theirs.get();
  if (words_.valid()) spec.stderr_path = format("/proc/self/fd/{}", words_.get());
  spec.dies_with_starter = true;
  leave_outer_job(spec);
  submit_with(options_.environment, spec);
  LH_TRY(pid_, spawn(spec));
  socket_ = std::move(ours);
  received_.clear();
  read_ = 0;
  return {};
}

void HelperPort::end_helper() {
  socket_.reset();
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
  words_.reset();
}

std::string HelperPort::failure_lines() {
  if (!words_.valid()) return {};
  char text[2048];
  const off_t size = ::lseek(words_.get(), 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(sizeof text));
  const ssize_t count = ::pread(words_.get(), text, sizeof text, from);
  std::string last;
  if (count > 0)
    for (const std::string& line : split(std::string_view(text, static_cast<std::size_t>(count)), '\n'))
      if (!trim(line).empty()) last = repair_utf8(trim(line));
  return last.empty() ? last : ": " + last;
}

Error HelperPort::lost(const std::string& what) {
  const std::string words = failure_lines();
  end_helper();
  return make_error(ErrorCode::unavailable, "longhaul-slurm " + what + words,
                    "it is started again for the next request");
}

Status HelperPort::start() {
  if (pid_ > 0) return {};
  LH_CHECK(spawn_helper());
  const std::int64_t id = next_id_++;
  Value hello = question("hello");
  hello.set("id", static_cast<long long>(id));
  bool answered = false;
  int spoken = 0;
  const auto take = [&](const Value& answer) {
    if (answer.get_integer("id") != id) return false;
    answered = true;
    spoken = static_cast<int>(answer.get_integer("protocol"));
    library_ = answer.get_string("library");
    return true;
  };
  const std::int64_t usual = std::exchange(options_.deadline_ms, std::min(hello_deadline_ms, options_.deadline_ms));
  const Status done = exchange(to_json(hello) + "\n", take, [&] { return answered; });
  options_.deadline_ms = usual;
  if (!done.ok() && done.error().what.find("built for libslurm") != std::string::npos)
    return make_error(ErrorCode::unsupported, done.error().what, "use slurm_backend = \"cli\"");
  LH_CHECK(done);
  if (spoken != protocol) {
    end_helper();
    return make_error(ErrorCode::unsupported, format("{} speaks protocol {}, not {}", program_, spoken, protocol),
                      "build it together with longhaul, or use slurm_backend = \"cli\"");
  }
  return {};
}

// ------------------------------------------------------------------------------------------------------- bytes and
// lines
Status HelperPort::move_bytes(const std::string& text, std::size_t& sent, const Deadline& deadline) {
  const bool sending = sent < text.size();
  pollfd waiting{socket_.get(), static_cast<short>(POLLIN | (sending ? POLLOUT : 0)), 0};
  const int ready = ::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(deadline.left_ms(), 1000)));
  if (ready < 0 && errno != EINTR) return errno_error(ErrorCode::io, "cannot wait for longhaul-slurm", errno);
  if (ready <= 0) return {};
  if (waiting.revents & POLLOUT) {
    const ssize_t count = ::send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count > 0) sent += static_cast<std::size_t>(count);
    // A helper that has died may still have left answers: reading finds its end.
  }
  if (waiting.revents & (POLLIN | POLLHUP | POLLERR)) {
    if (read_ > 0 && read_ == received_.size()) {
      received_.clear();
      read_ = 0;
    }
    char buffer[1 << 16];
    const ssize_t count = ::recv(socket_.get(), buffer, sizeof buffer, 0);
    if (count > 0) {
      received_.append(buffer, static_cast<std::size_t>(count));
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      int status = 0;
      std::string how = "has ended";
      // It closes the socket a moment before it can be waited for.
      for (int tries = 0; tries < 100; ++tries) {
        if (::waitpid(pid_, &status, WNOHANG) == pid_) {
          how = WIFSIGNALED(status) ? format("was killed by signal {}", WTERMSIG(status))
                                    : format("ended with exit code {}", WEXITSTATUS(status));
          pid_ = -1;
          break;
        }
        clock_.sleep_ms(1);
      }
      return lost(how);
    }
  }
  return {};
}

Status HelperPort::exchange(const std::string& text, const AnswerSink& take, const std::function<bool()>& done) {
  std::size_t sent = 0;
  Deadline deadline(clock_, options_.deadline_ms);
  while (!done()) {
    const std::size_t newline = received_.find('\n', read_);
    if (newline != std::string::npos) {
      const auto answer = parse_json(std::string_view(received_).substr(read_, newline - read_), "longhaul-slurm");
      read_ = newline + 1;
      if (!answer.ok() || !answer->is_table() || !take(*answer)) return lost("answered what nobody asked");
      deadline = Deadline(clock_, options_.deadline_ms);
      continue;
    }
    if (read_ > 0) {
      received_.erase(0, read_);
      read_ = 0;
    }
    if (received_.size() > line_bytes_max) return lost("answers without end");
    if (deadline.passed()) return lost(format("gave no answer within {} s", options_.deadline_ms / 1000));
    LH_CHECK(move_bytes(text, sent, deadline));
  }
  return {};
}

// ----------------------------------------------------------------------------------------------------- requests
Result<Value> HelperPort::request(Value asked, bool is_question, const RowSink& row) {
  for (int tries = 0;; ++tries) {
    LH_CHECK(start());
    const std::int64_t id = next_id_++;
    asked.set("id", static_cast<long long>(id));
    std::optional<Value> last;
    bool any_row = false;
    const auto take = [&](const Value& answer) {
      if (answer.get_integer("id") != id) return false;
      if (const Value* found = answer.find("row")) {
        any_row = true;
        row(*found);
      } else {
        last = answer;
      }
      return true;
    };
    const Status done = exchange(to_json(asked) + "\n", take, [&] { return last.has_value(); });
    if (!done.ok()) {
      const bool died = done.error().what.find("no answer") == std::string::npos;
      if (is_question && died && !any_row && tries == 0) continue;
      return done.error();
    }
    if (const Value* error = last->find("error")) return error_of(*error);
    return std::move(*last);
  }
}

Status HelperPort::command(Value order) {
  LH_CHECK(request(std::move(order), false, [](const Value&) {}));
  return {};
}

bool HelperPort::submit_part(const std::vector<SlurmSubmission>& submissions, std::size_t begin, std::size_t end,
                             std::vector<Result<std::string>>& ids) {
  const Status started = start();
  if (!started.ok()) {
    for (std::size_t i = begin; i < end; ++i) ids.emplace_back(started.error());
    return false;
  }
  const std::int64_t first = next_id_, window = next_window_++;
  const auto count = static_cast<std::int64_t>(end - begin);
  next_id_ += count;
  std::string text;
  for (std::size_t i = begin; i < end; ++i) {
    Value value = submission_value("submit", submissions[i]);
    value.set("id", static_cast<long long>(first + static_cast<std::int64_t>(i - begin)));
    value.set("window", static_cast<long long>(window));
    text += to_json(value) + "\n";
  }
  // The helper answers in order.
  std::int64_t answered = 0;
  bool silent = false;
  const auto take = [&](const Value& answer) {
    if (answer.get_integer("id") != first + answered) return false;
    ++answered;
    if (const Value* error = answer.find("error")) {
      ids.emplace_back(refusal_of_helper(error_of(*error)));
      silent = silent || starts_with(ids.back().error().what, "not attempted");
    } else if (const std::string job = answer.get_string("job"); !job.empty()) {
      ids.emplace_back(job);
    } else {
      ids.emplace_back(make_error(ErrorCode::unavailable, "longhaul-slurm answered a submission without a number"));
    }
    return true;
  };
  const Status done = exchange(text, take, [&] { return answered == count; });
  if (!done.ok()) {
    for (; answered < count; ++answered)
      ids.emplace_back(make_error(done.error().code, "the answer to the submission is lost: " + done.error().what,
                                  "the job may exist: it is looked for before it is submitted again"));
    return false;
  }
  return !silent;
}

std::vector<Result<std::string>> HelperPort::submit(const std::vector<SlurmSubmission>& submissions) {
  std::vector<Result<std::string>> ids;
  ids.reserve(submissions.size());
  const auto window = static_cast<std::size_t>(std::max(1, options_.window));
  for (std::size_t begin = 0; begin < submissions.size(); begin += window) {
    if (submit_part(submissions, begin, std::min(begin + window, submissions.size()), ids)) continue;
    while (ids.size() < submissions.size())
      ids.emplace_back(make_error(ErrorCode::unavailable,
                                  "not attempted: submissions before this one were not answered",
                                  "it is tried again later"));
    break;
  }
  return ids;
}

Result<std::vector<SlurmJob>> HelperPort::read_jobs(Value asked) {
  std::vector<SlurmJob> jobs;
  LH_CHECK(request(std::move(asked), true, [&](const Value& row) { jobs.push_back(job_of(row)); }));
  return jobs;
}

Result<std::vector<SlurmJob>> HelperPort::jobs() {
  return read_jobs(question("jobs"));
}

Result<std::vector<SlurmJob>> HelperPort::job(const std::string& id) {
  return read_jobs(question("job", id));
}

Result<std::vector<SlurmJob>> HelperPort::accounted(const std::vector<std::string>& ids) {
  return read_accounting(ids, options_.deadline_ms, options_.programs, options_.cluster, skipped_);
}

Status HelperPort::signal(const std::string& id, int signal_number, bool batch_only) {
  Value order = question("signal", id);
  order.set("signal", signal_number);
  order.set("batch_only", batch_only);
  return command(std::move(order));
}

Status HelperPort::cancel(const std::string& id) {
  return command(question("cancel", id));
}

Status HelperPort::requeue(const std::string& id, bool hold) {
  Value order = question("requeue", id);
  order.set("hold", hold);
  return command(std::move(order));
}

Status HelperPort::release(const std::string& id) {
  return command(question("release", id));
}

Status HelperPort::update(const std::string& id, const std::vector<std::pair<std::string, std::string>>& changes) {
  Value order = question("update", id);
  order.set("changes", pairs_value(changes));
  return command(std::move(order));
}

Result<SlurmWillRun> HelperPort::will_run(const SlurmSubmission& submission) {
  LH_TRY(const Value answer, request(submission_value("will_run", submission), true, [](const Value&) {}));
  return SlurmWillRun{answer.get_integer("start_s"), answer.get_string("nodes"), answer.get_string("partition")};
}

Result<std::vector<SlurmNode>> HelperPort::nodes() {
  std::vector<SlurmNode> nodes;
  const auto add = [&](const Value& row) {
    SlurmNode node;
    node.name = row.get_string("name");
    node.state = row.get_string("state");
    node.reason = row.get_string("reason");
    node.features = row.get_string("features");
    node.gres = row.get_string("gres");
    node.partitions = row.get_string("partitions");
    node.cpus = static_cast<int>(row.get_integer("cpus"));
    node.memory_mib = row.get_integer("memory_mib");
    nodes.push_back(std::move(node));
  };
  LH_CHECK(request(question("nodes"), true, add));
  return nodes;
}

Result<std::vector<SlurmPartition>> HelperPort::partitions() {
  std::vector<SlurmPartition> partitions;
  const auto add = [&](const Value& row) {
    SlurmPartition partition;
    partition.name = row.get_string("name");
    partition.state = row.get_string("state");
    partition.qos = row.get_string("qos");
    partition.nodes = row.get_string("nodes");
    partition.allowed_accounts = row.get_string("allowed_accounts");
    partition.tres = row.get_string("tres");
    partition.max_time_s = row.get_integer("max_time_s");
    partition.default_time_s = row.get_integer("default_time_s");
    partition.nodes_total = static_cast<int>(row.get_integer("nodes_total"));
    partition.nodes_max = static_cast<int>(row.get_integer("nodes_max"));
    partition.nodes_min = static_cast<int>(row.get_integer("nodes_min"));
    partition.cpus_total = static_cast<int>(row.get_integer("cpus_total"));
    partition.is_default = row.get_bool("is_default");
    partition.exclusive = row.get_bool("exclusive");
    partitions.push_back(std::move(partition));
  };
  LH_CHECK(request(question("partitions"), true, add));
  return partitions;
}

Result<std::vector<SlurmReservation>> HelperPort::reservations() {
  std::vector<SlurmReservation> reservations;
  const auto add = [&](const Value& row) {
    reservations.push_back({row.get_string("name"), row.get_string("nodes"), row.get_string("partition"),
                            row.get_string("flags"), row.get_integer("start_s"), row.get_integer("end_s")});
  };
  LH_CHECK(request(question("reservations"), true, add));
  return reservations;
}

Result<SlurmConfiguration> HelperPort::configuration() {
  LH_TRY(const Value answer, request(question("configuration"), true, [](const Value&) {}));
  SlurmConfiguration made;
  made.cluster = answer.get_string("cluster");
  made.version = answer.get_string("version");
  made.min_job_age_s = answer.get_integer("min_job_age_s");
  made.kill_wait_s = answer.get_integer("kill_wait_s");
  made.slurmd_timeout_s = answer.get_integer("slurmd_timeout_s");
  made.message_timeout_s = answer.get_integer("message_timeout_s");
  made.max_array_size = static_cast<int>(answer.get_integer("max_array_size"));
  made.max_job_count = static_cast<int>(answer.get_integer("max_job_count"));
  made.accounting = answer.get_bool("accounting");
  made.requeue = answer.get_bool("requeue");
  made.scrontab = answer.get_bool("scrontab");
  made.select_type = answer.get_string("select_type");
  made.task_plugin = answer.get_string("task_plugin");
  made.mpi_default = answer.get_string("mpi_default");
  made.stepmgr = answer.get_bool("stepmgr", false);
  made.cli_filters = answer.get_string("cli_filters");
  made.private_data = answer.get_string("private_data");
  return made;
}

}  // namespace longhaul
