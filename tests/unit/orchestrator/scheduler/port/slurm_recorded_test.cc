// The commands' backend over recorded answers of sbatch, sacct and squeue (tests/golden/slurm): programs that print
// them in the places of Slurm's, with the backend's own separators.
#include <doctest/doctest.h>

#include <map>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/scheduler/names/refusals.h"
#include "orchestrator/scheduler/port/cli_port.h"
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

const std::string recorded_answers = LONGHAUL_SOURCE_DIR "/tests/golden/slurm/";

struct Recorded {
  testing::Scratch scratch;
  ProgramPaths programs;

  void program(const std::string& name, const std::string& script) {
    programs[name] = scratch.file(name);
    REQUIRE(write_file_atomic(programs[name], "#!/bin/bash\n" + script, 0755).ok());
  }
  CliPort port() { return CliPort(20'000, programs); }

  // `greeting`, `farewell`: commands by which a wrapper prints lines of its own before the answer and behind it.
  void sacct(const std::string& file, const std::string& greeting = "", const std::string& farewell = "") {
    program("sacct", greeting + "\n" +
                         "for word in \"$@\"; do case $word in --delimiter=*) d=${word#*=};; esac; done\n"
                         "while IFS= read -r line; do printf '%s%s\\n' \"${line//|/$d}\" \"$d\"; done < " +
                         recorded_answers + file + "\n" + farewell + "\n");
  }
  void squeue(const std::string& file, const std::string& greeting = "", const std::string& farewell = "") {
    program("squeue", greeting + "\n" +
                          "for word in \"$@\"; do case $word in *%A*%F*) o=$word;; JobID*) exit 0;; esac; done\n"
                          "r=${o%%\\%A*}; rest=${o#*\\%A}; f=${rest%%\\%F*}\n"
                          "while IFS= read -r line; do printf '%s%s%s\\n' \"$r\" \"${line//|/$f}\" \"$f\"; done < " +
                          recorded_answers + file + "\n" + farewell + "\n");
  }
  std::map<std::string, SlurmJob> jobs() {
    const auto listed = port().jobs();
    REQUIRE_MESSAGE(listed.ok(), (listed.ok() ? "" : listed.error().message()));
    std::map<std::string, SlurmJob> by_key;
    for (const SlurmJob& job : *listed) by_key[job.comment] = job;
    return by_key;
  }
};

}  // namespace

TEST_CASE("recorded: sacct of 22.05 says who cancelled a job, and a part that was given back is no end") {
  Recorded slurm;
  slurm.sacct("sacct-22.05.txt");
  const auto records = slurm.port().accounted({"1", "2", "3", "4", "5", "6"});
  REQUIRE(records.ok());
  REQUIRE(records->size() == 7);
  const SlurmJob* by_root = accounted_end(*records, "1", {.key = "key.a"});
  REQUIRE(by_root);
  CHECK(by_root->state == "CANCELLED");
  CHECK(by_root->cancelled_by == 0);
  CHECK(by_root->nodes == "n1");
  const SlurmJob* queued = accounted_end(*records, "2", {.key = "key.b"});
  REQUIRE(queued);
  CHECK(queued->nodes.empty());
  CHECK(queued->started_s == 0);
  const SlurmJob* resized = accounted_end(*records, "3", {.key = "key.c"});
  REQUIRE(resized);
  CHECK(resized->cancelled_by == 1000);
  CHECK(resized->nodes == "n1");
  CHECK(accounted_end(*records, "5", {.key = "key.e"})->exit_code == 1);
  CHECK(accounted_end(*records, "6", {.key = "key.f"}) == nullptr);
}

TEST_CASE("recorded: states of 26.05 that earlier releases do not have end no job") {
  Recorded slurm;
  slurm.sacct("sacct-26.05.txt");
  const auto records = slurm.port().accounted({"1", "2", "3"});
  REQUIRE(records.ok());
  CHECK(accounted_end(*records, "1", {.key = "key.a"}) == nullptr);
  CHECK(scheduler_end_of(*accounted_end(*records, "2", {.key = "key.b"})) == SchedulerEnd::out_of_memory);
  CHECK(accounted_end(*records, "3", {.key = "key.c"}) == nullptr);
}

TEST_CASE("recorded: squeue's jobs are alive in every state that is not an end") {
  Recorded slurm;
  slurm.squeue("squeue-26.05.txt");
  const auto later = slurm.jobs();
  REQUIRE(later.size() == 3);
  CHECK(is_pending(later.at("key.d")));
  CHECK(is_live(later.at("key.g")));
  CHECK_FALSE(is_pending(later.at("key.g")));  // it has a node
  CHECK(is_pending(later.at("key.h")));
  slurm.squeue("squeue-22.05.txt");
  const auto jobs = slurm.jobs();
  REQUIRE(jobs.size() == 6);
  CHECK(jobs.at("key.d").reason == "PartitionConfig");
  CHECK(jobs.at("key.g").time_limit_s == 400 * 86400);
  CHECK(jobs.at("key.i").held);
  CHECK_FALSE(is_live(jobs.at("key.e")));
  CHECK(jobs.at("key.e").state == "FAILED");
  CHECK(jobs.at("key.k").reason == "JobHoldMaxRequeue");
}

TEST_CASE("recorded: lines that a wrapper prints before and behind an answer are skipped, and the first is kept") {
  const std::string greeting = "cat " + recorded_answers + "banner.txt", farewell = "echo 'Have a nice day'";
  Recorded slurm;
  slurm.squeue("squeue-22.05.txt");
  slurm.sacct("sacct-22.05.txt");
  CliPort plain = slurm.port();
  const auto jobs = plain.jobs();
  const auto records = plain.accounted({"1"});
  REQUIRE((jobs.ok() && records.ok()));
  CHECK(plain.skipped().empty());

  slurm.squeue("squeue-22.05.txt", greeting, farewell);
  slurm.sacct("sacct-22.05.txt", greeting, farewell);
  CliPort greeted = slurm.port();
  const auto same_jobs = greeted.jobs();
  const auto same_records = greeted.accounted({"1"});
  REQUIRE((same_jobs.ok() && same_records.ok()));
  const auto text = [](const SlurmJob& job) {
    return format("{} {} {} {} {} {}", job.id, job.state, job.name, job.submitted_s, job.work_dir, job.comment);
  };
  REQUIRE(same_jobs->size() == jobs->size());
  for (std::size_t i = 0; i < jobs->size(); ++i) CHECK(text((*same_jobs)[i]) == text((*jobs)[i]));
  REQUIRE(same_records->size() == records->size());
  for (std::size_t i = 0; i < records->size(); ++i) CHECK(text((*same_records)[i]) == text((*records)[i]));
  const std::string welcome = "squeue: Welcome to the Vista Supercomputer";
  CHECK(greeted.skipped() == welcome);

  // An answer of greetings alone is a list without jobs, and is reported; so is one behind the last record.
  slurm.program("squeue", greeting + "\n");
  slurm.sacct("sacct-22.05.txt", "", farewell);
  CliPort empty = slurm.port(), parted = slurm.port();
  REQUIRE(empty.jobs().ok());
  CHECK(empty.jobs()->empty());
  CHECK(empty.skipped() == welcome);
  REQUIRE(parted.accounted({"1"}).ok());
  CHECK(parted.skipped() == "sacct: Have a nice day");

  slurm.program("sbatch", greeting + "; echo slurm-wlm 24.11.5; " + farewell + "\n");
  const auto version = CliPort::installed_version(slurm.programs);
  REQUIRE(version.ok());
  CHECK(*version == "24.11.5");
}

TEST_CASE(
    "recorded: a round's questions are two commands for the whole queue and one for accounting, for any number of "
    "jobs") {
  Recorded slurm;
  const std::string count = "echo >> " + slurm.scratch.file("asked");
  slurm.squeue("squeue-22.05.txt", count);
  slurm.sacct("sacct-22.05.txt", count);
  CliPort port = slurm.port();
  REQUIRE(port.jobs().ok());
  CHECK(file_size(slurm.scratch.file("asked")).value() == 2);
  REQUIRE(port.accounted({"1", "2", "3", "4", "5", "6"}).ok());
  CHECK(file_size(slurm.scratch.file("asked")).value() == 2 + 1);
}

TEST_CASE("recorded: each refusal of sbatch becomes the error that its message means, with the message in it") {
  Recorded slurm;
  const auto text = read_file(recorded_answers + "refusals.txt");
  REQUIRE(text.ok());
  std::string means, words;
  int count = 0;
  const auto play = [&] {
    if (means.empty() || count++ % 8 != 0) return;  // one in eight: each starts a program
    REQUIRE(write_file_renamed(slurm.scratch.file("said"), words).ok());
    slurm.program("sbatch", "cat " + slurm.scratch.file("said") + " >&2; exit 1\n");
    SlurmSubmission job;
    job.script = "job.sbatch";
    const auto answer = slurm.port().submit({job}).front();
    REQUIRE_FALSE(answer.ok());
    CAPTURE(words);
    CHECK(to_string(refusal_in(answer.error())) == means);
    CHECK(answer.error().what.find(trim(split(words, '\n')[0])) != std::string::npos);
  };
  for (const std::string& line : split(*text, '\n')) {
    if (starts_with(line, "== ")) {
      play();
      means = split(line, ' ')[3];
      words.clear();
    } else {
      words += line + "\n";
    }
  }
  play();
  CHECK(count > 100);
}

}  // namespace longhaul
