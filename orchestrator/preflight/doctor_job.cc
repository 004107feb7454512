#include "orchestrator/preflight/doctor_job.h"

#include <algorithm>
#include <optional>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/job/launcher_arguments.h"
#include "orchestrator/job/request/step_plan.h"

namespace longhaul {
namespace {

constexpr double doctor_wall_s = 300;
constexpr int ranks_without_gpus = 2;  // where no GPUs say how many

const JobClass* class_for(const SiteConfig& site, const std::string& asked, int nodes) {
  if (!asked.empty()) return site.find_class(asked);
  const JobClass* debug = site.find_class("debug");
  const bool fits = debug && (debug->max_nodes == 0 || debug->max_nodes >= nodes) &&
                    (debug->max_wall.value == 0 || debug->max_wall.value >= doctor_wall_s);
  return fits ? debug : site.find_class(site.default_class);
}

PlannedStage doctor_stage(const SiteConfig& site, const JobClass* job_class, int nodes) {
  PlannedStage stage;
  stage.stage = "doctor";
  stage.kind = "command";
  const int gpus = job_class && job_class->gpus_per_node >= 0 ? job_class->gpus_per_node : site.node.gpus;
  stage.common.nodes = nodes;
  stage.common.ranks = nodes * (gpus > 0 ? gpus : ranks_without_gpus);
  stage.common.time_limit.value = doctor_wall_s;
  stage.common.job.requeue = "no";
  stage.common.job.no_kill = site.can.no_kill != "no" && nodes > 1;
  if (job_class) stage.common.job.job_class = job_class->name;
  return stage;
}

// The same job once more: what a filter wants of it, it has.
std::vector<std::string> held_submission(const JobPlan& plan, const SiteConfig& site) {
  const auto program = site.programs.find("sbatch");
  std::vector<std::string> arguments = {program == site.programs.end() ? "sbatch" : program->second};
  for (const Directive& directive : plan.directives)
    arguments.push_back("--" + directive.option + (directive.value.empty() ? "" : "=" + directive.value));
  return arguments;
}

bool has_ended(const std::string& state) {
  return state != "PENDING" && state != "RUNNING" && state != "SUSPENDED";
}

// A job that was submitted and is to be gone when this is.
class OneJob {
 public:
  OneJob(SlurmPort& port, std::string id) : port_(port), id_(std::move(id)) {}
  ~OneJob() {
    if (!ended_) (void)port_.cancel(id_).ok();
  }
  OneJob(const OneJob&) = delete;
  OneJob& operator=(const OneJob&) = delete;

  // nullopt: Slurm has forgotten it. A question without an answer is asked again by the caller.
  Result<std::optional<SlurmJob>> look() {
    const auto records = port_.job(id_);
    if (!records.ok() && records.error().code == ErrorCode::not_found) return ended_ = true, std::optional<SlurmJob>();
    if (!records.ok()) return records.error();
    if (records->empty()) return std::optional<SlurmJob>();
    ended_ = has_ended(records->front().state);
    return std::optional<SlurmJob>(records->front());
  }
  Status cancel() { return port_.cancel(id_); }
  bool ended() const { return ended_; }
  const std::string& id() const { return id_; }

 private:
  SlurmPort& port_;
  std::string id_;
  bool ended_ = false;
};

class DoctorRun {
 public:
  DoctorRun(const DoctorJob& job, SlurmPort& port, const DoctorLimits& limits, const std::atomic<bool>& stop,
            Clock& clock, const DoctorProgress& report)
      : job_(job), port_(port), limits_(limits), stop_(stop), clock_(clock), report_(report) {}

  Result<std::vector<DoctorFact>> run() {
    SlurmSubmission submission;
    submission.script = job_.script;
    if (!job_.comment.empty()) submission.options = {{"comment", job_.comment}};
    LH_TRY(const std::string id, port_.submit({submission}).front());
    OneJob one(port_, id);
    report_("job " + id + " is submitted: " + job_.script);
    LH_CHECK(wait_for_start(one));
    LH_CHECK(wait_for_facts(one));
    LH_CHECK(measure_cancel(one));
    return std::move(facts_);
  }

 private:
  Status stopped() const { return make_error(ErrorCode::aborted, "asked to stop; the job is cancelled"); }

  void look_at_comment(const SlurmJob& seen) {
    if (job_.comment.empty()) {
      facts_.push_back({"comment_kept", "unknown", "identity = \"name\": jobs of this site get no comment"});
      return;
    }
    const bool kept = seen.comment == job_.comment;
    facts_.push_back({"comment_kept", kept ? "yes" : "no",
                      kept ? "the comment of a submission comes back as it was given"
                           : "the site changes the comment of jobs: '" + seen.comment + "' in place of '" +
                                 job_.comment +
                                 "'; jobs are known by their names as well, and identity = \"name\" gives them none"});
  }

  Status wait_for_start(OneJob& one) {
    std::string last;
    bool commented = false;
    for (const Deadline deadline(clock_, static_cast<std::int64_t>(limits_.queue_s * 1e3));;
         clock_.sleep_ms(limits_.poll_ms)) {
      if (stop_.load(std::memory_order_relaxed)) return stopped();
      const auto seen = one.look();
      if (seen.ok() && *seen) {
        const SlurmJob& job = **seen;
        if (!std::exchange(commented, true)) look_at_comment(job);
        if (job.state == "RUNNING" || one.ended()) return {};
        const std::string line = format("job {} waits{}{}", one.id(), job.reason.empty() ? "" : ": ", job.reason);
        if (line != last) report_(line);
        last = line;
      } else if (seen.ok()) {
        return {};  // already forgotten: its files say more
      }
      if (deadline.passed())
        return make_error(ErrorCode::timeout,
                          format("job {} did not start within {}: {}", one.id(), human_duration(limits_.queue_s), last),
                          "ask for another class (--class), or for longer (--queue)");
    }
  }

  Status wait_for_facts(OneJob& one) {
    std::size_t reported = 0;
    for (const Deadline deadline(clock_, static_cast<std::int64_t>(limits_.look_s * 1e3));;
         clock_.sleep_ms(std::min<std::int64_t>(limits_.poll_ms, 500))) {
      if (stop_.load(std::memory_order_relaxed)) return stopped();
      const bool done = file_exists(doctor_done_path(job_.folder));
      const auto facts = read_doctor_facts(job_.folder);
      for (; facts.ok() && reported < facts->size(); ++reported)
        report_(format("{}: {}", (*facts)[reported].name, (*facts)[reported].answer));
      const bool over = !done && one.look().ok() && one.ended();
      if (done || over || deadline.passed()) {
        if (facts.ok()) facts_.insert(facts_.end(), facts->begin(), facts->end());
        if (done) return {};
        if (facts_.size() > 2) {
          facts_.push_back({"whole", "no",
                            "the job ended, or its time was over, before everything was tried: see " +
                                join_path(job_.folder, "slurm-*.out")});
          return {};
        }
        return make_error(over ? ErrorCode::unavailable : ErrorCode::timeout, "the job found nothing",
                          "see " + join_path(job_.folder, "slurm-*.out"));
      }
    }
  }

  // Beside a rank that does not listen.
  Status measure_cancel(OneJob& one) {
    if (one.ended()) return {};
    const std::int64_t began_ns = clock_.monotonic_ns();
    LH_CHECK(one.cancel());
    for (const Deadline deadline(clock_, 180'000); !one.ended() && !deadline.passed(); clock_.sleep_ms(500))
      (void)one.look();
    const double seconds = static_cast<double>(clock_.monotonic_ns() - began_ns) * 1e-9;
    facts_.push_back({"cancel_to_end", one.ended() ? format("{:.0f} s", seconds) : "unknown",
                      one.ended() ? "from scancel until the job is over, with a process that does not listen to SIGTERM"
                                  : format("the job is not over {:.0f} s after scancel", seconds)});
    return {};
  }

  const DoctorJob& job_;
  SlurmPort& port_;
  const DoctorLimits& limits_;
  const std::atomic<bool>& stop_;
  Clock& clock_;
  const DoctorProgress& report_;
  std::vector<DoctorFact> facts_;
};

}  // namespace

Result<DoctorJob> doctor_job(const Site& site, const std::string& job_class, const std::string& folder, int nodes) {
  const JobClass* chosen = class_for(site.config, job_class, nodes);
  if (!job_class.empty() && !chosen)
    return make_error(ErrorCode::invalid_input, "site '" + site.config.name + "' has no class '" + job_class + "'");
  DoctorJob job;
  job.folder = folder;
  job.script = join_path(folder, "doctor.sbatch");
  if (site.config.identity != "name") job.comment = "longhaul-" + file_name(folder);
  Diagnostics diagnostics;
  const PlannedStage stage = doctor_stage(site.config, chosen, nodes);
  job.plan = plan_job(site, stage, diagnostics);
  LH_CHECK(diagnostics.to_status("the site takes no such job"));
  DoctorOrder& order = job.order;
  order.folder = folder;
  order.nodes = job.plan.nodes, order.ranks = job.plan.ranks;
  order.gpus_per_node = job.plan.gpus_per_node;
  order.launcher = rank_launcher(job.plan, site.config, false);
  if (order.nodes > 1) order.agent_launcher = job.plan.agent_launcher;
  order.sbatch = held_submission(job.plan, site.config);
  order.mpi = site.config.launcher.mpi;
  order.ports = site.config.network.ports;
  order.node_local = site.config.paths.node_local;
  order.modules = site.config.modules;
  // The plugin is what is to be tried, also where a command of one rank would go without.
  for (std::string& argument : order.launcher)
    if (starts_with(argument, "--mpi=")) argument = "--mpi=" + order.mpi;
  return job;
}

Status write_doctor_job(const DoctorJob& job, const std::string& worker) {
  JobScriptContext context;
  context.run = context.stage = "doctor";
  context.run_dir = context.attempt_dir = job.folder;
  context.worker = worker;
  context.body = format("exec {} doctor --order {}\n", shell_quote(worker), shell_quote(doctor_order_path(job.folder)));
  LH_TRY(const std::string script, job_script(job.plan, context));
  LH_CHECK(make_directories(job.folder));
  LH_CHECK(write_doctor_order(job.order));
  return write_file_renamed(job.script, script, 0755);
}

std::vector<DoctorFact> facts_of_request(const DoctorJob& job, const Site& site, const std::vector<DoctorFact>& found) {
  std::vector<DoctorFact> facts;
  const auto directive = [&](const std::string& option) {
    return std::any_of(job.plan.directives.begin(), job.plan.directives.end(),
                       [&](const Directive& one) { return one.option == option; });
  };
  const JobClass* used = site.config.find_class(job.plan.job_class);
  if (used) {
    const std::string path = "classes." + used->name + ".";
    const std::pair<const char*, const std::string&> said[] = {{"partition", used->partition},
                                                               {"qos", used->qos},
                                                               {"account_suffix", used->account_suffix},
                                                               {"constraint", used->constraint},
                                                               {"reservation", used->reservation}};
    for (const auto& [name, value] : said)
      if (!value.empty())
        facts.push_back(
            {"class_" + std::string(name), value, "a job of class " + used->name + " ran with it", path + name, value});
  }
  if (directive("no-kill")) facts.push_back({"no_kill", "yes", "sbatch took --no-kill", "can.no_kill", "yes"});
  const std::string wanted = std::to_string(job.order.gpus_per_node);
  for (const DoctorFact& one : found)
    if (one.name == "gpus_seen_by_ranks" && one.answer == wanted && job.order.gpus_per_node > 0)
      facts.push_back({"gpu_request", site.config.ask.gpu_request, "ranks see all GPUs that were asked for so",
                       "ask.gpu_request", site.config.ask.gpu_request});
  return facts;
}

Result<std::vector<DoctorFact>> run_doctor_job(const DoctorJob& job, SlurmPort& port, const DoctorLimits& limits,
                                               const std::atomic<bool>& stop, Clock& clock,
                                               const DoctorProgress& report) {
  return DoctorRun(job, port, limits, stop, clock, report).run();
}

}  // namespace longhaul
