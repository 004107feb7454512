// A stage of kind `command` whose lead runs as a real process, in a folder of its own.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "contracts/records/attempt.h"
#include "contracts/records/record.h"
#include "contracts/settings/stages/command.h"
#include "contracts/tasks/task.h"
#include "tests/support/patience.h"

namespace longhaul {

class LeadRig {
 public:
  explicit LeadRig(const std::string& script, int ranks = 1, std::string root = {}) : root_(std::move(root)) {
    static std::atomic<int> counter{0};
    if (root_.empty()) root_ = format("/tmp/longhaul-lead-{}-{}", ::getpid(), counter.fetch_add(1));
    task.run = "run";
    task.stage = "work";
    task.kind = "command";
    task.key = "0123456789abcdef";
    task.resources.ranks = ranks;
    CommandSettings settings;
    settings.script = script;
    task.settings = command_fields().to_value(settings);
    attempt.stage = "work";
    attempt.stage_dir = root_ + "/work";
    attempt.task_path = attempt.stage_dir + "/task.toml";
    attempt.grace_s = 1;
    use_attempt(1);
  }
  ~LeadRig() { (void)remove_tree(root_).ok(); }

  void use_attempt(int number) {
    attempt.attempt = number;
    attempt.key = format("work.{}.{}", number, root_.substr(root_.rfind('/') + 1));
    attempt.attempt_dir = format("{}/attempts/{}", attempt.stage_dir, number);
  }
  void write() {
    REQUIRE(make_directories(attempt.attempt_dir).ok());
    REQUIRE(write_task(attempt.task_path, task).ok());
    REQUIRE(write_attempt(attempt.attempt_dir + "/attempt.toml", attempt).ok());
  }
  pid_t start(const std::string& how = "--attempt") {
    if (how == "--attempt") write();
    SpawnSpec spec;
    spec.argv = {parent_path(own_program_path()) + "/longhaul-worker", "lead", how, attempt.attempt_dir};
    spec.environment = environment;
    spec.environment_removed = {"SLURM_*"};
    spec.stdout_path = spec.stderr_path = attempt.attempt_dir + "/lead.log";
    const auto pid = spawn(spec);
    REQUIRE(pid.ok());
    return *pid;
  }
  ExitStatus wait(pid_t pid) {
    const Deadline deadline(clock, testing::patience_ms(20'000));
    for (;;) {
      const auto exit = poll_exit(pid);
      REQUIRE(exit.ok());
      if (*exit) return **exit;
      REQUIRE_MESSAGE(!deadline.passed(), "the lead did not end");
      clock.sleep_ms(2);
    }
  }
  template <class Condition>
  void until(Condition&& condition) {
    const Deadline deadline(clock, testing::patience_ms(20'000));
    while (!condition()) {
      REQUIRE(!deadline.passed());
      clock.sleep_ms(2);
    }
  }
  JobRecord record(int restarts = 0) {
    const auto found = read_record(attempt.record_path(restarts));
    REQUIRE_MESSAGE(found.ok(), (found.ok() ? "" : found.error().message()));
    return *found;
  }
  std::string text(const std::string& name) {
    return read_file(root_ + "/" + name).ok() ? *read_file(root_ + "/" + name) : "";
  }
  const std::string& root() const { return root_; }

  Task task;
  Attempt attempt;
  std::vector<std::pair<std::string, std::string>> environment;  // of the lead
  SystemClock clock;

 private:
  std::string root_;
};

}  // namespace longhaul
