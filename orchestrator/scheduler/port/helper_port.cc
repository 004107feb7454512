#include "orchestrator/scheduler/port/helper_port.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/scheduler/names/refusals.h"
#include "orchestrator/scheduler/port/helper_rows.h"

namespace longhaul {
namespace {

constexpr std::int64_t hello_deadline_ms = 10'000;
constexpr int protocol = 1;

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

}  // namespace

HelperPort::HelperPort(std::string program, Options options)
    : helper_(std::move(program), options.cluster, options.environment), options_(std::move(options)) {}

std::string HelperPort::description() const {
  return library_.empty() ? "longhaul-slurm" : format("longhaul-slurm (libslurm {})", library_);
}

Status HelperPort::start() {
  if (helper_.runs()) return {};
  LH_CHECK(helper_.start());
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
  const std::int64_t deadline_ms = std::min(hello_deadline_ms, options_.deadline_ms);
  const Status done = helper_.exchange(to_json(hello) + "\n", deadline_ms, take, [&] { return answered; });
  if (!done.ok() && done.error().what.find("built for libslurm") != std::string::npos)
    return make_error(ErrorCode::unsupported, done.error().what, "use slurm_backend = \"cli\"");
  LH_CHECK(done);
  if (spoken == protocol) return {};
  helper_.end();
  return make_error(ErrorCode::unsupported,
                    format("{} speaks protocol {}, not {}", helper_.program(), spoken, protocol),
                    "build it together with longhaul, or use slurm_backend = \"cli\"");
}

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
    const Status done =
        helper_.exchange(to_json(asked) + "\n", options_.deadline_ms, take, [&] { return last.has_value(); });
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
  const Status done = helper_.exchange(text, options_.deadline_ms, take, [&] { return answered == count; });
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

template <typename Row>
Result<std::vector<Row>> HelperPort::read_rows(Value asked, Row (*row_of)(const Value&)) {
  std::vector<Row> rows;
  LH_CHECK(request(std::move(asked), true, [&](const Value& row) { rows.push_back(row_of(row)); }));
  return rows;
}

Result<std::vector<SlurmJob>> HelperPort::jobs() {
  return read_rows(question("jobs"), job_of);
}

Result<std::vector<SlurmJob>> HelperPort::job(const std::string& id) {
  return read_rows(question("job", id), job_of);
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
  return read_rows(question("nodes"), node_of);
}

Result<std::vector<SlurmPartition>> HelperPort::partitions() {
  return read_rows(question("partitions"), partition_of);
}

Result<std::vector<SlurmReservation>> HelperPort::reservations() {
  return read_rows(question("reservations"), reservation_of);
}

Result<SlurmConfiguration> HelperPort::configuration() {
  LH_TRY(const Value answer, request(question("configuration"), true, [](const Value&) {}));
  return configuration_of(answer);
}

}  // namespace longhaul
