#include "orchestrator/cli/commands/job_text.h"

#include <algorithm>
#include <cmath>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/job/request/sbatch_text.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/workflow/layout/stage_computing.h"

namespace longhaul {
namespace {

// The variants of one stage stand next to each other in a plan.
struct StageGroup {
  std::size_t first = 0, count = 0;
};
std::vector<StageGroup> groups_of(const RunPlan& plan) {
  std::vector<StageGroup> groups;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    if (groups.empty() || plan.stages[groups.back().first].stage != plan.stages[i].stage) groups.push_back({i, 0});
    ++groups.back().count;
  }
  return groups;
}

std::string jobs_number(const PlannedStage& stage, const JobPlan& job, std::size_t variants) {
  std::string text = variants > 1 ? format("array of {}", variants) : "1";
  if (!job.chain) return text;
  if (stage.common.time_limit.value <= 0) return text + ", then more";
  return format("{}{} in a chain", variants > 1 ? text + ", each " : "",
                static_cast<long long>(std::ceil(stage.common.time_limit.value / job.wall_s)));
}

// One line for each of several programs in a job.
std::string steps_text(const JobPlan& job) {
  std::vector<std::vector<std::string>> lines;
  for (const JobStep& step : job.steps) {
    const int last = step.first_node + step.nodes;
    lines.push_back({"  step " + step.name,
                     !step.own_nodes               ? "every node"
                     : last == step.first_node + 1 ? format("node {}", last)
                                                   : format("nodes {}-{}", step.first_node + 1, last),
                     format("{} rank{} a node", step.ranks_per_node(), step.ranks_per_node() == 1 ? "" : "s"),
                     format("{} CPUs a rank", step.cpus_per_rank), format("{} GPUs a node", step.gpus_per_node),
                     step.service ? "service" : ""});
  }
  return lines.empty() ? "" : text_table(lines);
}

Value steps_value(const JobPlan& job) {
  Value list = Value::make_array();
  for (const JobStep& step : job.steps) {
    Value one = job_step_to_value(step);
    one.set("name", step.name);
    list.push_back(std::move(one));
  }
  return list;
}

std::string hours_text(double hours) {
  return hours >= 100 ? format("{:.0f}", hours) : format("{:.1f}", hours);
}

std::string restart_text(const SiteCapabilities& can) {
  std::string text = "After a fault a job's ranks start again inside the job";
  text += can.no_kill == "no"    ? "; the loss of a node ends the job"
          : can.no_kill == "yes" ? ", on the nodes that are left"
                                 : "";
  text += can.exclude == "no" ? ", and a new job cannot name the nodes to avoid"
                              : ", then in a new job without the bad nodes";
  if (can.submit_from_compute == "no") text += "; jobs are submitted from the login node only";
  return text + ".\n";
}

}  // namespace

double gpu_hours_at_most(const PlannedStage& stage, const JobPlan& job) {
  const double wall_s = job.chain && stage.common.time_limit.value > 0 ? stage.common.time_limit.value : job.wall_s;
  return wall_s / 3600 * job.nodes * job.gpus_per_node;
}

std::string jobs_text(const Site& site, const RunPlan& plan, const std::vector<JobPlan>& jobs) {
  std::vector<std::vector<std::string>> rows = {
      {"stage", "class", "partition", "jobs", "nodes", "GPUs a node", "wall time of one", "GPU-hours at most"}};
  double all = 0;
  bool open_end = false;
  for (const StageGroup& group : groups_of(plan)) {
    const PlannedStage& stage = plan.stages[group.first];
    const JobPlan& job = jobs[group.first];
    const double hours = gpu_hours_at_most(stage, job) * static_cast<double>(group.count);
    const bool ends = job.wall_s > 0 && !(job.chain && stage.common.time_limit.value <= 0);
    open_end = open_end || (!ends && job.gpus_per_node > 0);
    all += hours;
    const auto or_none = [](const std::string& text) { return text.empty() ? "-" : text; };
    rows.push_back({stage.stage, or_none(job.job_class), or_none(job.partition), jobs_number(stage, job, group.count),
                    std::to_string(job.nodes), std::to_string(job.gpus_per_node),
                    job.wall_s > 0 ? sbatch_time(job.wall_s) : "the scheduler's",
                    job.gpus_per_node == 0 ? "0" : (ends ? "" : "> ") + hours_text(hours)});
  }
  std::string out = "jobs at " + site.config.name + "\n\n" + text_table(rows) +
                    "\nGPU-hours at most: " + (open_end ? "more than " : "") + hours_text(all);
  if (const double budget = site.config.budget_gpu_hours; budget > 0)
    out += format(" of {} in the budget{}", hours_text(budget), all > budget ? ": TOO MANY" : "");
  if (open_end) out += "; a stage without time_limit goes on until it is done";
  out += "\n" + restart_text(site.config.can);
  for (const StageGroup& group : groups_of(plan)) {
    std::vector<std::vector<std::string>> lines;
    for (const Directive& directive : jobs[group.first].directives)
      lines.push_back({"  --" + directive.option + (directive.value.empty() ? "" : "=" + one_line(directive.value)),
                       one_line(directive.origin)});
    out += "\n" + plan.stages[group.first].stage + "\n" + text_table(lines) + steps_text(jobs[group.first]);
  }
  return out;
}

Value jobs_value(const RunPlan& plan, const std::vector<JobPlan>& jobs) {
  Value list = Value::make_array();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const JobPlan& job = jobs[i];
    Value one = Value::make_table();
    one.set("stage", plan.stages[i].id());
    one.set("device", computing_of(plan.stages[i]).device);
    one.set("class", job.job_class);
    one.set("partition", job.partition);
    one.set("nodes", job.nodes);
    one.set("gpus_per_node", job.gpus_per_node);
    one.set("cpus_per_rank", job.cpus_per_rank);
    one.set("wall_s", job.wall_s);
    one.set("stop_before_s", job.stop_before_s);
    one.set("resumable", job.resumable);
    one.set("chain", job.chain);
    one.set("gpu_hours_at_most", gpu_hours_at_most(plan.stages[i], job));
    Value& directives = one.set("directives", Value::make_array());
    for (const Directive& directive : job.directives) {
      Value line = Value::make_table();
      line.set("option", directive.option);
      line.set("value", directive.value);
      line.set("origin", directive.origin);
      directives.push_back(std::move(line));
    }
    if (!job.steps.empty()) one.set("steps", steps_value(job));
    one.set("launcher", ValueArray(job.launcher.begin(), job.launcher.end()));
    one.set("container", ValueArray(job.container.begin(), job.container.end()));
    list.push_back(std::move(one));
  }
  return list;
}

std::string queue_text(const QueueEstimate& estimate, std::int64_t now_ms) {
  if (estimate.answers.empty()) return "Slurm does not say when the jobs would start: " + estimate.problem + "\n";
  std::vector<std::vector<std::string>> rows = {{"stage", "would start", "partition", "on"}};
  for (const QueueAnswer& answer : estimate.answers) {
    if (!answer.refused.empty()) {
      rows.push_back({answer.stage, "NOT TAKEN: " + one_line(answer.refused)});
      continue;
    }
    const double wait_s = static_cast<double>(answer.start_s) - static_cast<double>(now_ms) / 1e3;
    rows.push_back({answer.stage,
                    answer.start_s == 0 ? "not known"
                    : wait_s < 1        ? "now"
                                        : "in " + human_duration(wait_s),
                    answer.partition, answer.nodes});
  }
  std::string out = "the cluster " + estimate.cluster +
                    " on each job, as if it were submitted now and waited for no other\n\n" + text_table(rows);
  if (std::all_of(estimate.answers.begin(), estimate.answers.end(), [](const auto& a) { return !a.refused.empty(); }))
    out += "\nIt takes none of them: is this the cluster that the site file describes?\n";
  for (const std::string& note : estimate.notes) out += "\nnote: " + one_line(note) + "\n";
  if (!estimate.problem.empty()) out += "\nof the other jobs nothing is known: " + estimate.problem + "\n";
  return out;
}

Value queue_value(const QueueEstimate& estimate) {
  Value value = Value::make_table();
  value.set("cluster", estimate.cluster);
  value.set("problem", estimate.problem);
  Value& answers = value.set("answers", Value::make_array());
  for (const QueueAnswer& answer : estimate.answers) {
    Value one = Value::make_table();
    one.set("stage", answer.stage);
    one.set("start_s", answer.start_s);
    one.set("partition", answer.partition);
    one.set("nodes", answer.nodes);
    one.set("refused", answer.refused);
    answers.push_back(std::move(one));
  }
  value.set("notes", ValueArray(estimate.notes.begin(), estimate.notes.end()));
  return value;
}

Result<std::string> scripts_text(const Site& site, const RunPlan& plan, const std::vector<JobPlan>& jobs,
                                 const std::string& runs) {
  if (!site.config.is_slurm()) return "\nThe site '" + site.config.name + "' starts jobs without scripts.\n";
  std::string out;
  for (const StageGroup& group : groups_of(plan)) {
    const PlannedStage& stage = plan.stages[group.first];
    JobScriptContext context;
    context.run = plan.workflow + "-preview";
    context.run_dir = join_path(runs, context.run);
    context.worker = join_path(context.run_dir, "bin/longhaul-worker");
    context.array = group.count > 1;
    context.stage = context.array ? stage.stage : stage.id();
    context.attempt_dir =
        join_path(context.run_dir, "stages/" + stage.stage + (context.array ? "/arrays/1" : "/attempts/1"));
    LH_TRY(const std::string script, job_script(jobs[group.first], context));
    out += "\n==> " + context.stage + "/job.sbatch <==\n" + script;
  }
  return out;
}

}  // namespace longhaul
