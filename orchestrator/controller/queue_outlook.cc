#include "orchestrator/controller/queue_outlook.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <map>

#include "base/files.h"
#include "base/text.h"

namespace longhaul {
namespace {

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

Result<std::string> question_script(const JobPlan& job) {
  JobScriptContext context;
  context.run = context.stage = "question";
  context.run_dir = context.attempt_dir = "/tmp";
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
    if (const std::size_t at = answer.refused.find(after_path); at != std::string::npos)
      answer.refused.erase(0, at + after_path.size());
  }
  return answer;
}

}  // namespace

QueueOutlook ask_queue(SlurmPort& port, const RunPlan& plan, const std::vector<JobPlan>& jobs) {
  QueueOutlook outlook;
  const auto configuration = port.configuration();
  if (!configuration.ok()) {
    outlook.problem = configuration.error().message();
    return outlook;
  }
  outlook.cluster = configuration->cluster;
  std::map<std::string, QueueAnswer> asked;  // by script
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const PlannedStage& stage = plan.stages[i];
    if (!outlook.answers.empty() && i > 0 && plan.stages[i - 1].stage == stage.stage) continue;
    const auto script = question_script(jobs[i]);
    if (!script.ok()) {
      outlook.problem = script.error().message();
      return outlook;
    }
    auto known = asked.find(*script);
    if (known == asked.end()) {
      if (asked.size() == questions_max) {
        outlook.problem = format("only the first {} different jobs were asked for", questions_max);
        return outlook;
      }
      known = asked.emplace(*script, answer_of(ask(port, *script))).first;
    }
    outlook.answers.push_back(known->second);
    outlook.answers.back().stage = stage.stage;
  }
  return outlook;
}

}  // namespace longhaul
