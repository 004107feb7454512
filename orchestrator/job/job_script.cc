// Turns a JobPlan into the text of job.sbatch.
#include <algorithm>

#include "base/text/text.h"
#include "contracts/records/attempt.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/job/request/sbatch_text.h"

namespace longhaul {
namespace {

constexpr std::size_t comment_column_max = 56;
constexpr std::size_t line_max = 110;

struct DirectiveLine {
  std::string text, origin;
};

Result<DirectiveLine> directive_line(const Directive& directive) {
  std::string text = "#SBATCH --" + directive.option;
  LH_TRY(const std::string quoted, sbatch_quoted(directive.value));
  if (!quoted.empty()) text += "=" + quoted;
  return DirectiveLine{text, one_line(directive.origin)};
}

std::vector<Directive> all_directives(const JobPlan& plan, const JobScriptContext& context) {
  const std::string pattern = context.array ? "/slurm-%A_%a.out" : "/slurm-%j.out";
  std::vector<Directive> all = {
      {"job-name", sbatch_job_name("lh-" + context.run + "-" + context.stage), "run and stage"},
      {"chdir", context.run_dir, "the run"},
      {"output", sbatch_file_pattern(context.attempt_dir) + pattern, "the attempt"},
      {"open-mode", "append", "no job's output is lost when Slurm starts it again"},
  };
  all.insert(all.end(), plan.directives.begin(), plan.directives.end());
  for (const Directive& own : context.of_attempt) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const Directive& d) { return d.option == own.option; });
    if (same == all.end())
      all.push_back(own);
    else
      *same = own;
  }
  return all;
}

// "#   srun --mpi=pmix \" and so on, for people. `nodes`: which of the job's, as a variable of the shell; "" for all.
std::string launcher_comment(const std::vector<std::string>& launcher, const std::string& nodes,
                             const std::vector<std::string>& container) {
  std::vector<std::string> arguments = launcher;
  for (std::string argument : container) {
    if (ends_with(argument, container_folder_mark)) argument.replace(argument.size() - 1, 1, "FOLDER");
    arguments.push_back(std::move(argument));
  }
  arguments.emplace_back("PROGRAM");
  if (!nodes.empty()) arguments.insert(arguments.begin() + 1, nodes);
  std::string out, line = "#  ";
  for (const std::string& argument : arguments) {
    const std::string shown = argument == nodes ? argument : shell_quoted(argument);
    if (line.size() + shown.size() + 3 > line_max) {
      out += line + " \\\n";
      line = "#     ";
    }
    line += " " + one_line(shown);
  }
  return out + line + "\n";
}

// What the lead of a job with several programs does.
std::string steps_comment(const JobPlan& plan) {
  const bool own_nodes = plan.steps.front().own_nodes;
  std::string out = own_nodes ? "# The lead starts these steps together, each on nodes of its own:\n"
                              : "# The lead starts these steps together, side by side on each node:\n";
  for (const JobStep& step : plan.steps) {
    out += "#   " + step.name + (step.service ? ", a service: ended when the others have ended well" : "") + "\n";
    const std::string nodes = format("--nodelist=\"$(scontrol show hostnames | sed -n {},{}p | paste -sd,)\"",
                                     step.first_node + 1, step.first_node + step.nodes);
    out += step.launcher.empty() ? format("#   {} rank{} of PROGRAM\n", step.ranks, step.ranks == 1 ? "" : "s")
                                 : launcher_comment(step.launcher, own_nodes ? nodes : "", plan.container);
  }
  return out;
}

// shellcheck asks whether `'$x'` was meant; it was. Said only where a script holds such a value.
bool holds_shell_characters(const JobPlan& plan, const JobScriptContext& context) {
  const auto has = [](const std::string& text) { return text.find_first_of("$`") != std::string::npos; };
  const auto quoted = [&](const std::string& line) {
    const std::size_t quote = line.find('\'');
    return quote != std::string::npos && has(line.substr(quote));
  };
  return has(context.worker) || has(context.attempt_dir) ||
         std::any_of(plan.prologue.begin(), plan.prologue.end(), quoted);
}

std::string body_of_one(const JobScriptContext& context) {
  return "if [ $# -gt 0 ]; then\n"
         "  exec " +
         shell_quote(context.worker) +
         " lead --attempt \"$1\"\n"
         "fi\n"
         "# Started by hand, with sbatch alone: the lead makes an attempt of its own.\n"
         "exec " +
         shell_quote(context.worker) + " lead --by-hand " + shell_quote(context.attempt_dir) + "\n";
}

std::string body_of_array(const JobScriptContext& context) {
  return "by_hand=\n"
         "if [ $# -gt 0 ]; then\n"
         "  folder=$1\n"
         "else\n"
         "  by_hand=yes\n"
         "  folder=" +
         shell_quote(context.attempt_dir) +
         "\n"
         "fi\n"
         "tasks=$(wc -l <\"$folder/tasks.txt\")\n"
         "if [ -z \"${SLURM_ARRAY_TASK_ID:-}\" ]; then\n"
         "  echo \"longhaul: this is an array of $tasks jobs: sbatch --array=0-$((tasks - 1)) job.sbatch\" >&2\n"
         "  exit 64\n"
         "fi\n"
         "attempt=$(sed -n \"$((SLURM_ARRAY_TASK_ID + 1))p\" \"$folder/tasks.txt\")\n"
         "if [ -z \"$attempt\" ]; then\n"
         "  echo \"longhaul: task $SLURM_ARRAY_TASK_ID is not among the $tasks of $folder/tasks.txt\" >&2\n"
         "  exit 64\n"
         "fi\n"
         "if [ -z \"$by_hand\" ]; then\n"
         "  exec " +
         shell_quote(context.worker) +
         " lead --attempt \"$attempt\"\n"
         "fi\n"
         "exec " +
         shell_quote(context.worker) + " lead --by-hand \"$attempt\"\n";
}

}  // namespace

Result<std::string> job_script(const JobPlan& plan, const JobScriptContext& context) {
  for (const std::string* path : {&context.run_dir, &context.worker, &context.attempt_dir})
    if (!is_one_line(*path) || path->find('\\') != std::string::npos)
      return make_error(ErrorCode::invalid_input, "'" + one_line(*path) + "' cannot stand in a job script",
                        "choose a folder without line ends and backslashes in its name");
  std::string out = "#!/bin/bash\n# Run " + one_line(context.run) + ", stage " + one_line(context.stage);
  if (!plan.job_class.empty()) out += ", class " + plan.job_class;
  out += ". Written by longhaul; by hand: sbatch " + std::string(context.array ? "--array=0-N " : "") + "job.sbatch\n";
  if (plan.chain)
    out += "# A chain: when its time is over, the stage goes on in the next job from its last checkpoint.\n";
  std::vector<DirectiveLine> lines;
  std::size_t column = 0;
  for (const Directive& directive : all_directives(plan, context)) {
    LH_TRY(DirectiveLine line, directive_line(directive));
    if (line.text.size() <= comment_column_max) column = std::max(column, line.text.size());
    lines.push_back(std::move(line));
  }
  for (const DirectiveLine& line : lines)
    out += line.text + std::string(line.text.size() < column ? column - line.text.size() : 0, ' ') + "  # " +
           line.origin + "\n";
  if (holds_shell_characters(plan, context))
    out += "\n# Values are data, whatever they look like.\n# shellcheck disable=SC2016\n";
  out +=
      "\nset -eu\n"
      "# Left by the shell that submitted, or by sbatch for srun: they would change the steps of this job.\n"
      "unset SLURM_EXPORT_ENV SLURM_NO_KILL SLURM_CPU_BIND SLURM_CPU_BIND_LIST SLURM_CPU_BIND_TYPE \\\n"
      "  SLURM_CPU_BIND_VERBOSE SLURM_MEM_BIND SLURM_DISTRIBUTION SLURM_STEP_ID SLURM_STEPID\n"
      "# Each step says which GPUs of the job it takes: what speaks of all nodes of the job fits no part of it.\n"
      "unset SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_GPUS_PER_TASK SLURM_GPUS_PER_SOCKET SLURM_NTASKS_PER_GPU \\\n"
      "  SLURM_TRES_PER_TASK SLURM_GPU_BIND\n";
  if (!plan.prologue.empty()) out += "\n" + join(plan.prologue, "\n") + "\n";
  out +=
      format("\nexport SRUN_CPUS_PER_TASK={}  # for an srun by hand: from 22.05 to 23.02 it takes none from sbatch\n\n",
             plan.cpus_per_rank);
  if (!plan.steps.empty())
    out += steps_comment(plan);
  else if (!plan.launcher.empty() || !plan.container.empty())
    out += "# The lead starts the ranks with:\n" + launcher_comment(plan.launcher, "", plan.container);
  if (!context.body.empty()) return out + context.body;
  return out + (context.array ? body_of_array(context) : body_of_one(context));
}

}  // namespace longhaul
