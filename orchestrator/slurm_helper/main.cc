// longhaul-slurm: the only program of Longhaul that links libslurm. Reads one JSON request per line on stdin and
// answers each, in order, with one line on stdout (lists: one line per row before it). Linked with Slurm's library,
// this program is subject to Slurm's licence, the GNU GPL version 2 or later; it is built apart and spoken to over a
// pipe.
//
//   {"id":1,"op":"submit","script":"/x/job.sbatch","arguments":["a"],"options":[["comment","k"]],"window":3}
//   {"id":1,"job":"1234"}
//   {"id":2,"op":"jobs"}
//   {"id":2,"row":{"id":"1234",...}}      any number of these
//   {"id":2,"ok":true}
//   {"id":3,"error":{"code":"unavailable","what":"...","hint":"..."}}
#include <fcntl.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/slurm_helper/job_description.h"
#include "orchestrator/slurm_helper/option_values.h"
#include "orchestrator/slurm_helper/queries.h"
#include "orchestrator/slurm_helper/slurm_errors.h"

static_assert(SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(20, 11, 0),
              "longhaul-slurm needs libslurm 20.11 or later; leave it out: the sbatch backend does the same work");

namespace longhaul {
namespace {

constexpr int protocol = 1;

// slurm_api_version() gives the number in the library's soname, which grows by one with every release.
struct Release {
  int library;
  const char* name;
};
constexpr Release releases[] = {{36, "20.11"}, {37, "21.08"}, {38, "22.05"}, {39, "23.02"}, {40, "23.11"},
                                {41, "24.05"}, {42, "24.11"}, {43, "25.05"}, {44, "25.11"}, {45, "26.05"}};

std::string header_version() {
  return format("{:02}.{:02}.{}", SLURM_VERSION_MAJOR(SLURM_VERSION_NUMBER), SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER),
                SLURM_VERSION_MICRO(SLURM_VERSION_NUMBER));
}

// "" where the library is newer than this table.
std::string library_release() {
  const int number = SLURM_VERSION_MAJOR(slurm_api_version());
  for (const Release& release : releases)
    if (release.library == number) return release.name;
  return {};
}

bool library_fits_header() {
  const std::string library = library_release();
  return library.empty() || starts_with(header_version(), library + ".");
}

// slurmctld understands clients of its own release and of the two before it (three since 24.11), never newer ones.
bool fits_controller(const std::string& controller) {
  const std::string own = header_version().substr(0, 5), theirs = controller.substr(0, 5);
  if (own == theirs) return true;
  const auto place = [](const std::string& name) {
    return std::find_if(std::begin(releases), std::end(releases), [&](const Release& r) { return name == r.name; });
  };
  const auto mine = place(own), other = place(theirs);
  if (mine == std::end(releases) || other == std::end(releases)) return false;
  return other >= mine && other - mine <= (theirs >= "24.11" ? 3 : 2);
}

Value error_value(const Error& error) {
  Value value = Value::make_table();
  value.set("code", to_string(error.code));
  const std::string place = error.where ? format("{}:{}: ", error.where->file.str(), error.where->line) : std::string();
  value.set("what", place + error.what);
  if (!error.hint.empty()) value.set("hint", error.hint);
  return value;
}

Error bad_request(const std::string& what) {
  return make_error(ErrorCode::internal, "longhaul-slurm: " + what);
}

std::uint32_t number_of(const submit_response_msg_t& response) {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
  return response.step_id.job_id;
#else
  return response.job_id;
#endif
}

// What the library writes to stderr in the meantime: which limit it is that a job is refused for, it says nowhere else.
class SaidByLibrary {
 public:
  SaidByLibrary() : fd_(::open("/proc/self/fd/2", O_RDONLY | O_CLOEXEC)) {
    struct stat info{};
    if (fd_ >= 0 && ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode)) from_ = info.st_size;
  }
  ~SaidByLibrary() {
    if (fd_ >= 0) ::close(fd_);
  }
  SaidByLibrary(const SaidByLibrary&) = delete;
  SaidByLibrary& operator=(const SaidByLibrary&) = delete;

  // ": line; line"; "" where nothing was said, or stderr is no file.
  std::string message() const {
    char text[1024];
    const ssize_t count = from_ < 0 ? 0 : ::pread(fd_, text, sizeof text, from_);
    std::string said;
    if (count > 0)
      for (const std::string& line : split(std::string_view(text, static_cast<std::size_t>(count)), '\n'))
        if (!trim(line).empty()) said += (said.empty() ? ": " : "; ") + repair_utf8(trim(line));
    return said;
  }

 private:
  int fd_;
  off_t from_ = -1;
};

class Helper {
 public:
  Helper(pid_t starter, std::string cluster) : starter_(starter), cluster_(std::move(cluster)) {}

  int run() {
    std::string line;
    for (;;) {
      const std::size_t newline = input_.find('\n', read_);
      if (newline == std::string::npos) {
        // Nothing more to do for now: answers leave in one write.
        if (!flush()) return 1;
        if (!read_more()) return 0;
        continue;
      }
      line.assign(input_, read_, newline - read_);
      read_ = newline + 1;
      if (!line.empty()) answer(line);
      if (output_.size() > output_bytes_max && !flush()) return 1;
    }
  }

 private:
  static constexpr std::size_t output_bytes_max = 1 << 16;

  bool read_more() {
    input_.erase(0, read_);
    read_ = 0;
    char buffer[1 << 16];
    for (;;) {
      const ssize_t count = ::read(0, buffer, sizeof buffer);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      input_.append(buffer, static_cast<std::size_t>(count));
      return true;
    }
  }
  bool flush() {
    std::size_t done = 0;
    while (done < output_.size()) {
      const ssize_t count = ::write(1, output_.data() + done, output_.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      done += static_cast<std::size_t>(count);
    }
    output_.clear();
    return true;
  }
  void send(const Value& value) { output_ += to_json(value) + "\n"; }

  void answer(const std::string& line) {
    const auto request = parse_json(line, "request");
    Value reply = Value::make_table();
    if (!request.ok()) {
      reply.set("id", -1);
      reply.set("error", error_value(bad_request(request.error().message())));
      return send(reply);
    }
    id_ = request->get_integer("id", -1);
    auto result = carry_out(*request);
    if (result.ok()) {
      reply = std::move(result).value();
      if (reply.size() == 0) reply.set("ok", true);
    } else {
      reply.set("error", error_value(result.error()));
    }
    reply.set("id", static_cast<long long>(id_));
    send(reply);
    // A submission's answer must not wait behind the next one: if this process ends, the answer is what is known of it.
    if (!flush()) std::_Exit(1);
  }
  void send_row(Value row) {
    Value value = Value::make_table();
    value.set("id", static_cast<long long>(id_));
    value.set("row", std::move(row));
    send(value);
    if (output_.size() > output_bytes_max && !flush()) std::_Exit(1);
  }

  Result<Value> carry_out(const Value& request) {
    const std::string op = request.get_string("op");
    if (op == "hello") return hello();
    if (!cluster_.empty()) {
      LH_CHECK(turn_to_cluster(cluster_));
      cluster_.clear();
    }
    if (op == "submit") return submit(request);
    if (op == "will_run") return will_run(request);
    if (op == "configuration") return configuration();
    const RowSink sink = [this](Value row) { send_row(std::move(row)); };
    const auto listed = [](const Status& status) -> Result<Value> {
      if (!status.ok()) return status.error();
      return Value::make_table();
    };
    if (op == "jobs") return listed(list_jobs(sink));
    if (op == "nodes") return listed(list_nodes(sink));
    if (op == "partitions") return listed(list_partitions(sink));
    if (op == "reservations") return listed(list_reservations(sink));
    const std::string job = request.get_string("job");
    if (op == "job") {
      const auto number = whole_number(job.substr(0, job.find('_')));
      if (!number || *number < 1 || *number >= NO_VAL)
        return make_error(ErrorCode::not_found, "'" + job + "' is no number of a job");
      return listed(list_job(static_cast<std::uint32_t>(*number), sink));
    }
    if (op == "signal" || op == "cancel") return signal(request, op == "cancel");
    if (op == "requeue") return requeue(job, request.get_bool("hold"));
    if (op == "release") return release(job);
    if (op == "update") return update(job, request);
    return bad_request("unknown operation '" + op + "'");
  }

  Result<Value> hello() {
    Value value = Value::make_table();
    value.set("protocol", protocol);
    value.set("library", header_version());
    return value;
  }

  Result<Value> configuration() {
    LH_TRY(ControllerFacts facts, read_controller());
    LH_CHECK(check_release(facts));
    return std::move(facts.configuration);
  }

  static Status check_release(const ControllerFacts& facts) {
    if (fits_controller(facts.version)) return {};
    return make_error(
        ErrorCode::unsupported,
        format("longhaul-slurm was built with libslurm {}, slurmctld is {}: they do not understand each other",
               header_version(), facts.version),
        "use slurm_backend = \"cli\", or build longhaul-slurm against this site's libslurm");
  }

  // Once per process, when it is needed: limits to hand on, and whether slurmctld's release fits.
  Status prepare_submissions() {
    if (context_) return {};
    LH_TRY(const ControllerFacts facts, read_controller());
    LH_CHECK(check_release(facts));
    context_ = make_submit_context(facts.propagated_limits, facts.limits_not_propagated);
    context_->hydra_bootstrap = facts.mpi_parameters.find("disable_slurm_hydra_bootstrap") == std::string::npos;
    return {};
  }

  static Result<JobRequest> job_request(const Value& request) {
    JobRequest made;
    made.script = request.get_string("script");
    const auto texts = [](const Value* array, std::vector<std::string>& into) {
      if (array && array->is_array())
        for (const Value& item : array->as_array())
          if (item.is_string()) into.push_back(item.as_string());
    };
    texts(request.find("arguments"), made.arguments);
    if (const Value* options = request.find("options"); options && options->is_array()) {
      for (const Value& option : options->as_array()) {
        std::vector<std::string> pair;
        texts(&option, pair);
        if (pair.size() != 2) return bad_request("an option is [name, value]");
        made.options.emplace_back(pair[0], pair[1]);
      }
    }
    return made;
  }

  Result<Value> submit(const Value& request) {
    // A controller that died must not go on submitting through us.
    if (starter_ > 1 && ::getppid() != starter_) std::_Exit(1);
    const std::int64_t window = request.get_integer("window", 0);
    if (window != 0 && window == silent_window_)
      return make_error(ErrorCode::unavailable,
                        "not attempted: slurmctld did not answer the submission before this one",
                        "it is tried again later");
    const auto not_answered = [&](Error error) {
      if (error.code == ErrorCode::unavailable) silent_window_ = window;
      return error;
    };
    if (const Status prepared = prepare_submissions(); !prepared.ok()) return not_answered(prepared.error());
    LH_TRY(const JobRequest job, job_request(request));
    LH_TRY(JobDescription description, JobDescription::make(job, *context_));
    submit_response_msg_t* response = nullptr;
    const SaidByLibrary library;
    if (slurm_submit_batch_job(&description.message(), &response) != SLURM_SUCCESS) {
      const int number = errno;
      const Error error = slurm_error("cannot submit " + job.script + library.message(), number);
      return is_connection_error(number) ? not_answered(error) : error;
    }
    Value value = Value::make_table();
    if (!response) return make_error(ErrorCode::unavailable, "cannot submit " + job.script + ": an empty answer");
    value.set("job", std::to_string(number_of(*response)));
    slurm_free_submit_response_response_msg(response);
    return value;
  }

  Result<Value> will_run(const Value& request) {
    LH_CHECK(prepare_submissions());
    LH_TRY(const JobRequest job, job_request(request));
    LH_TRY(JobDescription description, JobDescription::make(job, *context_));
    will_run_response_msg_t* response = nullptr;
    if (const int result = slurm_job_will_run2(&description.message(), &response); result != SLURM_SUCCESS)
      return slurm_error(job.script + " would not run", result > 0 ? result : errno);
    Value value = Value::make_table();
    if (response) {
      value.set("start_s", static_cast<long long>(response->start_time));
      value.set("nodes", response->node_list ? response->node_list : "");
      value.set("partition", response->part_name ? response->part_name : "");
      // The header offers nothing that frees it: a few hundred bytes, for a question that people ask by hand.
    }
    return value;
  }

  static Result<Value> done_or(int result, const std::string& what) {
    if (result == SLURM_SUCCESS) return Value::make_table();
    return slurm_error(what, result > 0 ? result : errno);
  }

  static Result<Value> signal(const Value& request, bool cancel) {
    const std::string job = request.get_string("job");
    const auto number = static_cast<std::uint16_t>(cancel ? SIGKILL : request.get_integer("signal"));
    const std::uint16_t flags = request.get_bool("batch_only") ? KILL_JOB_BATCH : 0;
    const int result = slurm_kill_job2(job.c_str(), number, flags, nullptr);
    const int error = result > 0 ? result : result < 0 ? errno : 0;
    // Of a job that has ended there is nothing to cancel.
    if (cancel && (error == ESLURM_ALREADY_DONE || error == ESLURM_JOB_FINISHED)) return Value::make_table();
    if (error == 0) return Value::make_table();
    return slurm_error((cancel ? "cannot cancel job " : "cannot signal job ") + job, error);
  }

  static Result<Value> requeue(std::string job, bool hold) {
    job_array_resp_msg_t* responses = nullptr;
    const int result = slurm_requeue2(job.data(), hold ? JOB_REQUEUE_HOLD : 0, &responses);
    const std::string what = "cannot requeue job " + job;
    return first_response(result, responses, what);
  }

  static Result<Value> release(std::string job) {
    job_desc_msg_t message;
    slurm_init_job_desc_msg(&message);
    message.job_id_str = job.data();
    // As scontrol does it: back to the priority that the scheduler computes.
    message.priority = INFINITE;
    job_array_resp_msg_t* responses = nullptr;
    const int result = slurm_update_job2(&message, &responses);
    return first_response(result, responses, "cannot release job " + job);
  }

  // One code for every part of an array: the first that is an error speaks for all.
  static Result<Value> first_response(int result, job_array_resp_msg_t* responses, const std::string& what) {
    int error = result > 0 ? result : result < 0 ? errno : 0;
    if (responses) {
      for (std::uint32_t i = 0; i < responses->job_array_count && error == 0; ++i)
        error = static_cast<int>(responses->error_code[i]);
      slurm_free_job_array_resp(responses);
    }
    return done_or(error, what);
  }

  static Result<Value> update(std::string job, const Value& request) {
    job_desc_msg_t message;
    slurm_init_job_desc_msg(&message);
    message.job_id_str = job.data();
    std::map<std::string, std::string> texts;
    if (const Value* changes = request.find("changes"); changes && changes->is_array())
      for (const Value& change : changes->as_array())
        if (change.is_array() && change.size() == 2 && change.as_array()[0].is_string() &&
            change.as_array()[1].is_string())
          texts[change.as_array()[0].as_string()] = change.as_array()[1].as_string();
    for (auto& [name, value] : texts) {
      if (name == "time_limit") {
        const auto minutes = time_limit_minutes(value);
        if (!minutes) return make_error(ErrorCode::invalid_input, "time_limit '" + value + "' is no number of minutes");
        message.time_limit = *minutes == 0 ? INFINITE : *minutes;
      } else if (name == "dependency") {
        message.dependency = value.data();
      } else if (name == "excluded_nodes") {
        message.exc_nodes = value.data();
      } else if (name == "comment") {
        message.comment = value.data();
      } else if (name == "partition") {
        message.partition = value.data();
      } else {
        return make_error(ErrorCode::invalid_input, "longhaul-slurm cannot change '" + name + "' of a job");
      }
    }
    job_array_resp_msg_t* responses = nullptr;
    const int result = slurm_update_job2(&message, &responses);
    return first_response(result, responses, "cannot change job " + job);
  }

  pid_t starter_;
  std::string cluster_;  // that is still to be turned to
  std::string input_, output_;
  std::size_t read_ = 0;
  std::int64_t id_ = -1;
  std::int64_t silent_window_ = 0;  // of submissions, one of which was not answered
  std::optional<SubmitContext> context_;
};

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const pid_t starter = ::getppid();
  ::signal(SIGPIPE, SIG_IGN);
  if (argc > 1 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("longhaul-slurm (libslurm %s)\n", longhaul::header_version().c_str());
    return 0;
  }
  const bool has_cluster = argc == 3 && std::strcmp(argv[1], "--cluster") == 0;
  if (argc > 1 && !has_cluster) {
    std::fprintf(
        stderr,
        "longhaul-slurm takes requests on stdin, one JSON object per line; --cluster NAME is the cluster that is "
        "asked, --version says what this is\n");
    return 2;
  }
  if (!longhaul::library_fits_header()) {
    std::fprintf(stderr, "longhaul-slurm was built for libslurm %s and found that of %s; build it again\n",
                 longhaul::header_version().c_str(), longhaul::library_release().c_str());
    return 3;
  }
  // Lists of array tasks are cut at 64 characters otherwise. Slurm's own variables do not reach the jobs.
  ::setenv("SLURM_BITSTR_LEN", "0", 1);
  slurm_init(nullptr);
  return longhaul::Helper(starter, has_cluster ? argv[2] : "").run();
}
