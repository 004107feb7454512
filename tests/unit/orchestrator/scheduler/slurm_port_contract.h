// What every SlurmPort promises, whatever is behind it: FakeSlurm always, and on the test cluster longhaul-slurm and
// Slurm's commands (tests/cluster). Jobs are short scripts; the rig lets time pass.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "orchestrator/scheduler/port/slurm_port.h"
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"

namespace longhaul::testing {

class SlurmPortRig {
 public:
  virtual ~SlurmPortRig() = default;
  virtual SlurmPort& port() = 0;
  virtual Clock& clock() = 0;
  // A job that runs for `ms` and then exits with `code`; its comment is `comment`.
  virtual SlurmSubmission job(const std::string& comment, std::int64_t ms, int code) = 0;
  virtual bool accounting() = 0;

  std::string submit(const SlurmSubmission& submission) {
    const auto ids = port().submit({submission});
    REQUIRE(ids.size() == 1);
    const std::string said = ids[0].ok() ? std::string() : ids[0].error().message();
    CAPTURE(said);
    REQUIRE(ids[0].ok());
    return *ids[0];
  }
  SlurmSubmission with(SlurmSubmission submission, const std::string& name, const std::string& value) {
    submission.options.emplace_back(name, value);
    return submission;
  }
  // The one record of a job or of a task ("12_3").
  SlurmJob only(const std::string& id) {
    const auto jobs = port().job(id);
    INFO("job " << id);
    REQUIRE(jobs.ok());
    const std::size_t underscore = id.find('_');
    for (const SlurmJob& job : *jobs) {
      if (underscore == std::string::npos && job.array_id.empty() && job.id == id) return job;
      const auto tasks = expand_indices(job.array_tasks);
      if (underscore != std::string::npos && job.array_id == id.substr(0, underscore) &&
          std::find(tasks.begin(), tasks.end(), std::stoi(id.substr(underscore + 1))) != tasks.end())
        return job;
    }
    FAIL("no record of job " << id);
    return {};
  }
  SlurmJob wait(const std::string& id, const std::function<bool(const SlurmJob&)>& reached) {
    SlurmJob job;
    for (int tries = 0; tries < 300; ++tries) {
      job = only(id);
      if (reached(job)) return job;
      clock().sleep_ms(100);
    }
    FAIL("job " << id << " did not get there: " << job.state << " " << job.reason);
    return job;
  }
  SlurmJob wait_state(const std::string& id, const std::string& state) {
    return wait(id, [&](const SlurmJob& job) { return job.state == state; });
  }
};

inline void slurm_port_reads_the_cluster(SlurmPortRig& rig) {
  CHECK_FALSE(rig.port().description().empty());
  const auto configuration = rig.port().configuration();
  REQUIRE(configuration.ok());
  CHECK(split(configuration->version, '.').size() >= 2);
  CHECK_FALSE(configuration->cluster.empty());
  CHECK(configuration->max_array_size > 1);
  CHECK(configuration->max_job_count > 0);
  CHECK(configuration->min_job_age_s > 0);
  CHECK(configuration->message_timeout_s == 10);
  CHECK(configuration->kill_wait_s == 3);
  CHECK(configuration->accounting == rig.accounting());
  CHECK(configuration->requeue);
  CHECK(configuration->select_type == "select/cons_tres");
  const auto nodes = rig.port().nodes();
  REQUIRE(nodes.ok());
  REQUIRE_FALSE(nodes->empty());
  CHECK(nodes->front().name == "n1");
  CHECK(nodes->front().cpus == 8);
  CHECK(nodes->front().memory_mib == 16000);
  CHECK(nodes->front().partitions.find("main") != std::string::npos);
  CHECK(nodes->front().gres.find("gpu") != std::string::npos);
  CHECK((starts_with(nodes->front().state, "IDLE") || starts_with(nodes->front().state, "ALLOCATED") ||
         starts_with(nodes->front().state, "MIXED")));
  const auto partitions = rig.port().partitions();
  REQUIRE(partitions.ok());
  const auto main = std::find_if(partitions->begin(), partitions->end(), [](const auto& p) { return p.is_default; });
  REQUIRE(main != partitions->end());
  CHECK(main->name == "main");
  CHECK(main->state == "UP");
  CHECK(main->max_time_s == 86400);
  CHECK(main->default_time_s == 600);
  CHECK(main->nodes_max == 0);
  CHECK(main->nodes_total == static_cast<int>(nodes->size()));
  CHECK(main->cpus_total == 8 * main->nodes_total);
  CHECK_FALSE(main->exclusive);
  CHECK(main->allowed_accounts.empty());
  CHECK(rig.port().reservations().ok());
  const auto will_run = rig.port().will_run(rig.job("w", 10, 0));
  REQUIRE(will_run.ok());
  CHECK(will_run->start_s > 1'500'000'000);
  CHECK(will_run->nodes.find('n') == 0);
}

inline void slurm_port_submits_and_reports_ends(SlurmPortRig& rig) {
  // A window: in order, and one refusal does not touch the others.
  const std::string odd = "a|b 'c' \"d\" $(e) `f` %k \\ \xc3\xbc; \x1f\x1e,=";
  auto bad = rig.job("bad", 10, 0);
  bad.script = "/nowhere/job.sbatch";
  auto with_arguments = rig.job("first", 10, 0);
  with_arguments.arguments = {"an", "argument"};
  const auto ids = rig.port().submit({with_arguments, bad, rig.job(odd, 10, 3)});
  REQUIRE(ids.size() == 3);
  REQUIRE(ids[0].ok());
  REQUIRE_FALSE(ids[1].ok());
  REQUIRE(ids[2].ok());
  CHECK(std::stoll(*ids[0]) < std::stoll(*ids[2]));
  const SlurmJob first = rig.wait_state(*ids[0], "COMPLETED");
  CHECK(first.exit_code == 0);
  CHECK(first.exit_signal == 0);
  CHECK(first.comment == "first");
  CHECK_FALSE(first.other_user);
  CHECK(starts_with(first.work_dir, "/"));
  CHECK(ends_with(first.command, ".sbatch an argument"));
  CHECK(starts_with(first.command, "/"));
  CHECK_FALSE(first.nodes.empty());
  CHECK(first.array_id.empty());
  CHECK(first.submitted_s > 1'500'000'000);
  CHECK(first.started_s >= first.submitted_s);
  CHECK(first.ended_s >= first.started_s);
  CHECK(first.restarts == 0);
  const SlurmJob failed = rig.wait_state(*ids[2], "FAILED");
  CHECK(failed.exit_code == 3);
  CHECK(failed.comment == odd);
  // Ended jobs are in the list, too.
  const auto jobs = rig.port().jobs();
  REQUIRE(jobs.ok());
  CHECK(std::count_if(jobs->begin(), jobs->end(), [&](const auto& job) { return job.id == *ids[0]; }) == 1);
  CHECK(std::count_if(jobs->begin(), jobs->end(),
                      [&](const auto& job) { return job.id == *ids[2] && job.comment == odd; }) == 1);
  // Cancelling what has ended does nothing; everything else about unknown jobs is not_found.
  CHECK(rig.port().cancel(*ids[0]).ok());
  CHECK(rig.only(*ids[0]).state == "COMPLETED");
  const std::string unknown = "4000000";
  CHECK(rig.port().job(unknown).error().code == ErrorCode::not_found);
  const Status cancelled = rig.port().cancel(unknown);  // scancel says nothing
  CHECK((cancelled.ok() || cancelled.error().code == ErrorCode::not_found));
  CHECK(rig.port().signal(unknown, 10, true).error().code == ErrorCode::not_found);
  CHECK(rig.port().release(unknown).error().code == ErrorCode::not_found);
  CHECK(rig.port().requeue(unknown, false).error().code == ErrorCode::not_found);
  CHECK(rig.port().update(unknown, {{"comment", "x"}}).error().code == ErrorCode::not_found);
  if (!rig.accounting()) CHECK(rig.port().accounted({*ids[0]}).error().code == ErrorCode::unavailable);
}

inline void slurm_port_holds_requeues_and_cancels(SlurmPortRig& rig) {
  const std::string id = rig.submit(rig.with(rig.job("held", 60'000, 0), "hold", ""));
  const SlurmJob held = rig.wait(id, [](const SlurmJob& job) { return job.held; });
  CHECK(held.state == "PENDING");
  CHECK(held.nodes.empty());
  CHECK(held.started_s == 0);
  CHECK(rig.port().update(id, {{"comment", "renamed"}, {"time_limit", "7"}}).ok());
  CHECK(rig.only(id).comment == "renamed");
  CHECK(rig.only(id).time_limit_s == 420);
  CHECK(rig.port().release(id).ok());
  CHECK_FALSE(rig.wait_state(id, "RUNNING").held);
  CHECK(rig.port().requeue(id, true).ok());
  const SlurmJob requeued = rig.wait(id, [](const SlurmJob& job) { return job.state == "PENDING" && job.held; });
  CHECK(requeued.restarts == 1);
  CHECK(requeued.id == id);
  CHECK(rig.port().cancel(id).ok());
  rig.wait_state(id, "CANCELLED");
  // One that never started has no nodes.
  const std::string waiting = rig.submit(rig.with(rig.job("w", 10, 0), "hold", ""));
  CHECK(rig.port().cancel(waiting).ok());
  CHECK(rig.wait_state(waiting, "CANCELLED").nodes.empty());
}

inline void slurm_port_knows_arrays(SlurmPortRig& rig) {
  const std::string id = rig.submit(rig.with(rig.job("array", 60'000, 0), "array", "2-5%1"));
  const SlurmJob running = rig.wait_state(id + "_2", "RUNNING");
  CHECK(running.array_id == id);
  CHECK(running.array_tasks == "2");
  const SlurmJob waiting = rig.only(id + "_5");
  CHECK(waiting.state == "PENDING");
  CHECK(waiting.comment == "array");
  CHECK(expand_indices(waiting.array_tasks) == std::vector<int>{3, 4, 5});
  // A task has a number of its own once it has started. One that waits can be cancelled alone, and nothing of it is
  // kept.
  CHECK(rig.port().cancel(id + "_4").ok());
  CHECK(expand_indices(rig.only(id + "_5").array_tasks) == std::vector<int>{3, 5});
  CHECK(rig.port().cancel(id + "_2").ok());
  const SlurmJob next = rig.wait_state(id + "_3", "RUNNING");
  CHECK(next.id != running.id);
  CHECK(rig.port().cancel(id).ok());
  for (const char* task : {"_2", "_3", "_5"}) rig.wait_state(id + task, "CANCELLED");

  // A long list of tasks comes back whole.
  std::vector<int> tasks;
  for (int i = 1; i < 200; i += 2) tasks.push_back(i);
  const std::string sparse =
      rig.submit(rig.with(rig.with(rig.job("sparse", 10, 0), "array", compress_indices(tasks)), "hold", ""));
  CHECK(expand_indices(rig.only(sparse + "_1").array_tasks) == tasks);
  CHECK(rig.port().cancel(sparse).ok());
  // Beyond MaxArraySize: never.
  const auto size = rig.port().configuration();
  REQUIRE(size.ok());
  const auto ids = rig.port().submit({rig.with(rig.job("wide", 10, 0), "array", format("0-{}", size->max_array_size))});
  REQUIRE_FALSE(ids[0].ok());
  CHECK(ids[0].error().code == ErrorCode::invalid_input);
}

inline void slurm_port_reports_dependencies(SlurmPortRig& rig) {
  const std::string first = rig.submit(rig.job("first", 60'000, 0));
  rig.wait_state(first, "RUNNING");
  const std::string second = rig.submit(rig.with(rig.job("second", 10, 0), "dependency", "afterany:" + first));
  const SlurmJob waiting = rig.only(second);
  CHECK(waiting.state == "PENDING");
  CHECK(waiting.dependency.find("afterany:" + first) != std::string::npos);
  CHECK(rig.port().update(second, {{"dependency", ""}}).ok());
  rig.wait_state(second, "COMPLETED");
  const std::string third = rig.submit(rig.with(rig.job("third", 10, 0), "dependency", "afterany:" + first));
  CHECK(rig.port().cancel(first).ok());
  rig.wait_state(third, "COMPLETED");
  // On a job that Slurm does not know: dropped in silence (22.05), or refused (23.11 and later); never an error that
  // asks to try again.
  const auto ids = rig.port().submit({rig.with(rig.job("orphan", 10, 0), "dependency", "afterany:4000000")});
  if (ids[0].ok()) {
    rig.wait_state(*ids[0], "COMPLETED");
  } else {
    CHECK(ids[0].error().code == ErrorCode::invalid_input);
  }
}

inline void slurm_port_contract(SlurmPortRig& rig) {
  slurm_port_reads_the_cluster(rig);
  slurm_port_submits_and_reports_ends(rig);
  slurm_port_holds_requeues_and_cancels(rig);
  slurm_port_knows_arrays(rig);
  slurm_port_reports_dependencies(rig);
}

}  // namespace longhaul::testing
