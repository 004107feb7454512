#include "orchestrator/preflight/queue_estimate.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <map>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/preflight/launcher_check.h"

namespace longhaul {
namespace {

// Slurm's will-run looks at nodes that can work now. Where some are down, or slurmctld has just begun and knows none
// yet, it has no nodes for jobs that it would take into its queue.
bool is_of_the_moment(const std::string& refused) {
  return refused.find("busy") != std::string::npos ||
         refused.find("node configuration is not available") != std::string::npos;
}

// A script without a file: nothing is written for a question.
class ScriptInMemory {
 public:
  static Result<ScriptInMemory> make(const std::string& text) {
    FileDescriptor fd(::memfd_create("job.sbatch", MFD_CLOEXEC));
    if (!fd.valid()) return errno_error(ErrorCode::io, "cannot make a script in memory", errno);
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t count = ::write(fd.get(), text.data() + done, text.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return errno_error(ErrorCode::io, "cannot make a script in memory", errno);
      done += static_cast<std::size_t>(count);
    }
    return ScriptInMemory(std::move(fd));
  }
  std::string path() const { return format("/proc/{}/fd/{}", ::getpid(), fd_.get()); }

 private:
  explicit ScriptInMemory(FileDescriptor fd) : fd_(std::move(fd)) {}
  FileDescriptor fd_;
};

Result<std::string> question_script(const JobPlan& job, const std::string& runs_dir) {
  JobScriptContext context;
  context.run = context.stage = "question";
  context.run_dir = context.attempt_dir = runs_dir;
  context.worker = "/bin/true";
  return job_script(job, context);
}

Result<SlurmWillRun> ask(SlurmPort& port, const std::string& script) {
  LH_TRY(const ScriptInMemory file, ScriptInMemory::make(script));
  return port.will_run({file.path(), {}, {}});
}

QueueAnswer answer_of(const Result<SlurmWillRun>& said) {
  static const std::string after_path = " would not run: ";
  QueueAnswer answer;
  if (said.ok()) {
    answer.start_s = said->start_s;
    answer.nodes = said->nodes;
    answer.partition = said->partition;
  } else {
    answer.refused = said.error().what;
    answer.for_good = said.error().code == ErrorCode::invalid_input && !is_of_the_moment(answer.refused);
    if (const std::size_t at = answer.refused.find(after_path); at != std::string::npos)
      answer.refused.erase(0, at + after_path.size());
  }
  return answer;
}

// A job that is refused for now (its partition is down) and a cluster that says nothing are both `unavailable`.
bool is_an_answer(SlurmPort& port, const Error& error) {
  return error.code != ErrorCode::unavailable || port.configuration().ok();
}

struct Question {
  std::string label, script;
};

// One for each kind of job that a stage has: its variants may ask for the same, or each for its own.
Result<std::vector<Question>> questions_of(const RunPlan& plan, const std::vector<JobPlan>& jobs,
                                           const std::string& runs_dir) {
  std::vector<Question> questions;
  std::map<std::string, std::map<std::string, std::size_t>> asked;  // stage -> script -> the question's position
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    LH_TRY(std::string script, question_script(jobs[i], runs_dir));
    auto& scripts = asked[plan.stages[i].stage];
    if (!scripts.emplace(script, questions.size()).second) continue;
    questions.push_back({plan.stages[i].id(), std::move(script)});
  }
  for (const auto& [stage, scripts] : asked)
    if (scripts.size() == 1) questions[scripts.begin()->second].label = stage;
  return questions;
}

}  // namespace

QueueEstimate ask_queue(SlurmPort& port, const RunPlan& plan, const std::vector<JobPlan>& jobs,
                        const std::string& runs_dir) {
  QueueEstimate estimate;
  const auto stop = [&](const std::string& why) {
    estimate.problem = why;
    return estimate;
  };
  const auto configuration = port.configuration();
  if (!configuration.ok()) return stop(configuration.error().message());
  estimate.cluster = configuration->cluster;
  estimate.notes = notes_on_slurm(jobs, *configuration);
  const auto questions = questions_of(plan, jobs, runs_dir);
  if (!questions.ok()) return stop(questions.error().message());
  std::map<std::string, QueueAnswer> answers;  // by script
  for (const Question& question : *questions) {
    auto known = answers.find(question.script);
    if (known == answers.end()) {
      if (answers.size() == questions_max) return stop(format("only {} different jobs are asked for", questions_max));
      const auto said = ask(port, question.script);
      if (!said.ok() && !is_an_answer(port, said.error())) return stop(said.error().message());
      known = answers.emplace(question.script, answer_of(said)).first;
    }
    estimate.answers.push_back(known->second);
    estimate.answers.back().stage = question.label;
  }
  return estimate;
}

}  // namespace longhaul
