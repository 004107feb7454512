#include "orchestrator/cli/options/command_specs.h"

#include <algorithm>

#include "base/error/diagnostics.h"
#include "base/text/text.h"

namespace longhaul {

const std::vector<CommandSpec>& command_specs() {
  using enum ExitCode;
  static const std::vector<CommandSpec> specs = [] {
    std::vector<CommandSpec> all = {
        {Command::init,
         "init",
         "longhaul init [FOLDER] [options]",
         "write a first workflow for what lies in a folder",
         "Looks at FOLDER (without it, here) and at this machine and writes FOLDER/workflow.toml, with a comment "
         "beside "
         "each choice; then says which command comes next. Texts become a small model of their own; rows of tuning "
         "data tune it, or the model whose folder lies there; a model alone is served, and measured on texts beside "
         "it; a script of yours becomes a `command` stage. What is written is valid, as `longhaul validate` says. "
         "Asks nothing, starts nothing, and changes no file: a folder that has a workflow is refused, and so is one "
         "without anything to begin with.",
         {"longhaul init", "longhaul init my-texts --json"},
         {invalid_input, not_found, system}},
        {Command::run,
         "run",
         "longhaul run WORKFLOW [options]",
         "start a workflow here and stay with it to its end",
         "Checks the whole workflow first; with any problem nothing is started. Then creates a run below the folder of "
         "runs and drives it: "
         "stages start when their inputs are there, stages whose result exists already are taken as cached. Progress "
         "is "
         "shown until the end, then a "
         "table of stages, the answers of a served model, and the paths of the report and of a server that was left "
         "running. ctrl-C leaves the "
         "jobs running and says how to come back; a second ctrl-C within 5 s cancels the run. SIGTERM leaves them "
         "running at once.",
         {"longhaul run workflows/quickstart.toml",
          "longhaul run my.toml --set params.steps=500 --set 'params.languages=[\"ca\",\"es\"]'"},
         {invalid_input, not_found, run_failed, system, interrupted, timeout, conflict}},
        {Command::submit,
         "submit",
         "longhaul submit WORKFLOW --site SITE [options]",
         "start a workflow on a cluster and return",
         "Checks the whole workflow against the site first; with any problem nothing is submitted. Then creates a run, "
         "submits the jobs that can start, leaves the run to its driver and returns at once. The driver ticks the run "
         "on: "
         "the leads of its own jobs as they end (`lead`, where compute nodes may submit), the user's scrontab, a small "
         "job "
         "that renews itself (`job`), or nobody (`here` stays in the foreground, as `run` does). Where a run stands "
         "still all the same, `longhaul status` says so, and which command moves it on.",
         {"longhaul submit workflows/quickstart.toml --site marenostrum5-acc",
          "longhaul submit my.toml --site alps-clariden --driver scrontab --set 'site.account=\"a-a06\"'"},
         {invalid_input, not_found, run_failed, system, interrupted, timeout, conflict}},
        {Command::validate,
         "validate",
         "longhaul validate WORKFLOW [options]",
         "check a workflow and say all that is wrong with it",
         "Reads the workflow with its recipes and site, checks every key, value, reference, input file and layout, and "
         "prints all problems together "
         "as file:line:column. What does not fit where it is to run (memory, context, cores, wall time, space, budget) "
         "is refused as by `plan`, `run` and `submit`, unless --allow CHECK is given. Without --site, of a workflow "
         "for "
         "several nodes, what depends on the machines is not checked, and a note says so. Starts nothing and writes "
         "nothing.",
         {"longhaul validate workflows/quickstart.toml", "longhaul validate my.toml --json"},
         {invalid_input, not_found, system}},
        {Command::plan,
         "plan",
         "longhaul plan WORKFLOW [options]",
         "show what a run would do",
         "Prints the stages in the order they can start, what each waits for, its ranks, threads and layout, and the "
         "model's size where there is one; at a Slurm site also each stage's job with the origin of every directive, "
         "GPU-hours against the site's budget, and when Slurm says that it would start, were it submitted now. With "
         "--settings also every setting of every stage, defaults included; with --scripts the job scripts; with "
         "--no-queue Slurm is not asked. What does not fit where it is to run is an error with the layout or the "
         "number "
         "that would, here as in `validate`, `run` and `submit`, unless --allow CHECK is given. Stages that would be "
         "taken from "
         "earlier "
         "runs are named, with where their artifacts lie and whose they are. Starts nothing and writes nothing.",
         {"longhaul plan workflows/quickstart.toml", "longhaul plan my.toml --settings", "longhaul plan my.toml --json",
          "longhaul plan my.toml --site leonardo-booster --set 'site.account=\"NAME\"' --scripts"},
         {invalid_input, not_found, system}},
        {Command::status,
         "status",
         "longhaul status [RUN...] [--watch] [options]",
         "how a run is doing",
         "Reads the run's logs and records and prints every stage with its state, time, progress and key figures. "
         "With --watch it does so again and again until the run has ended. "
         "Changes nothing, starts nothing, and may be used on anybody's run. RUN is a path, a name, or the beginning "
         "of "
         "one; without it your own newest run is meant; with several, a line for each is printed, as `longhaul runs` "
         "does. Says who goes on with the run when no controller is at work, "
         "with "
         "the command that does; whose it is, and who asked what of it. With "
         "--metrics it prints what metrics.prom in the run's folder says, as of now ([metrics.md](metrics.md)).",
         {"longhaul status", "longhaul status quickstart-2026", "longhaul status --watch", "longhaul status --json",
          "longhaul status --metrics", "longhaul status tokens-2026 pretrain-2026"},
         {not_found, run_failed, system, interrupted}},
        {Command::runs,
         "runs",
         "longhaul runs [options]",
         "all runs, and questions about them",
         "Prints a line for each run below the folder of runs: state, the stage that says most about it (what runs, "
         "waits for its job or has failed; of a run that went well the last that trained) with step and loss, age, and "
         "the node-hours that it has used. The options choose among them, as those of squeue and sacct do; --stage "
         "prints a line for each stage instead. A run that is `left` is driven by nobody. Answered from an index of "
         "your own (in $XDG_CACHE_HOME/longhaul, or ~/.cache/longhaul), which is brought up to date first and made "
         "again wherever it is missing or not to be believed; nothing is written below a folder of runs. Runs of "
         "others "
         "are listed as far as you may read them. The keys of --json stand in [json.md](json.md).",
         {"longhaul runs", "longhaul runs --me --state running", "longhaul runs --since 2d --state failed",
          "longhaul runs --name 'llama8b*' --figure 'heldout_loss<2.1' --sort heldout_loss",
          "longhaul runs --stage pretrain --sort -hours --json",
          "longhaul runs --runs-dir /project/a/runs --runs-dir /project/b/runs"},
         {invalid_input, not_found, system}},
        {Command::logs,
         "logs",
         "longhaul logs [RUN [STAGE]] [options]",
         "what a stage says: the output of its programs, its steps, checkpoints and warnings",
         "Prints the logs of the stage's newest attempt: the lead's, then each rank's, then its events as lines: steps "
         "with loss, learning rate and tokens per second, checkpoints, messages, figures. Of a long training some two "
         "hundred steps are shown. STAGE is a stage or stage/variant; without it the one that runs, else the one that "
         "failed, else the newest is meant. Of a cached stage it prints what the run reported that made it. With "
         "--follow "
         "what is new is printed as it comes, until the stage has ended; where nobody drives the run, until nothing "
         "has come for --quiet-limit. On a terminal control characters are made visible (`\\u001b`), for whoever "
         "wrote the log could give orders to the terminal with them; --raw, a pipe and a file get the bytes as they "
         "are.",
         {"longhaul logs", "longhaul logs latest pretrain --follow", "longhaul logs latest sft/lr=1e-05 --attempt 1"},
         {not_found, system, interrupted, timeout}},
        {Command::checkpoints,
         "checkpoints",
         "longhaul checkpoints [RUN [STAGE]] [options]",
         "which checkpoints of a run there are, to resume or fork from",
         "Prints the whole checkpoints of the trainings of a run, the newest first: step, age, size, loss, and why one "
         "stays: `newest` is where `resume` goes on, `kept` has been ordered with `tell` or has a file `pinned` and is "
         "never removed by the rules of retention. `longhaul fork RUN --from STAGE@STEP` goes on from any of them.",
         {"longhaul checkpoints", "longhaul checkpoints latest pretrain --json"},
         {not_found, system}},
        {Command::cancel,
         "cancel",
         "longhaul cancel [RUN] [options]",
         "end a run's jobs",
         "Leaves the request for the run's controller. If nobody drives the run, this command does until the jobs have "
         "ended. What was finished stays; `longhaul resume` goes on from there. Another user's run is refused, unless "
         "it "
         "is of a group that a site file of this installation names. With --server the servers end that a stage with "
         "`leave_running` left, on the host that runs them; `longhaul status` lists them.",
         {"longhaul cancel", "longhaul cancel quickstart-20260302-041109-8f3a", "longhaul cancel --server"},
         {invalid_input, not_found, system, timeout, conflict}},
        {Command::resume,
         "resume",
         "longhaul resume [RUN] [options]",
         "go on with a run that stopped, failed or was left",
         "Takes over the run and drives it to its end, as `run` does. Jobs that are still running are adopted, "
         "finished "
         "stages stay finished, failed "
         "and cancelled ones are tried again from their newest checkpoint. A run whose jobs drive it is handed to "
         "them: the command returns as soon as they are on their way. Whoever resumes a run executes what lies in it: "
         "another user's is refused, unless it is of a group that a site file of this installation names, and is then "
         "driven by this installation's programs.",
         {"longhaul resume", "longhaul resume quickstart-20260302-041109-8f3a"},
         {invalid_input, not_found, run_failed, system, interrupted, timeout, conflict}},
        {Command::tick,
         "tick",
         "longhaul tick [RUN] [options]",
         "rounds of the controller until one changes nothing",
         "Reads what is, decides, acts, writes down what it did, and ends. Safe to kill at any point and to call as "
         "often as one likes: from cron, for "
         "example. `run` and `resume` do the same again and again.",
         {"longhaul tick latest"},
         {invalid_input, not_found, run_failed, system, interrupted, conflict}},
        {Command::report,
         "report",
         "longhaul report [RUN] [options]",
         "write a run's report",
         "Writes index.html (one file without anything from outside: graph, loss curves, curation waterfall, "
         "samples, stages, provenance) and report.json into RUN-report here, or into --output, and prints the path. "
         "Nothing "
         "below the run is changed; `run` and `resume` leave the same in its report/ at its end.",
         {"longhaul report", "longhaul report latest --json"},
         {invalid_input, not_found, system}},
        {Command::docs,
         "docs",
         "longhaul docs [PAGE] [--output FOLDER] [--man FOLDER] [--figures FOLDER]",
         "the reference, generated from this program",
         "Prints the reference of commands, workflow, stage kinds, site files and exit codes as Markdown, or writes "
         "one "
         "file for each below --output. With a PAGE (compatibility, commands, json, ...) that one is printed alone. "
         "With --man manual pages are written instead, for `man`: an installation has them in share/man/man1; with "
         "--figures the drawings of the pages (docs/figures), which are made of the same tables.",
         {"longhaul docs | less", "longhaul docs compatibility", "longhaul docs --output docs/reference",
          "longhaul docs --man ~/.local/share/man/man1", "longhaul docs --figures docs/figures"},
         {not_found, system}},
        {Command::explain,
         "explain",
         "longhaul explain NAME",
         "what the reference says of a code, a key, an event",
         "Prints what the reference says of one name: an exit code by its number or name, a key of a workflow, a stage "
         "kind or a site, an event, a fault class, a figure, a metric, a key of a JSON document, a command. Before a "
         "key may stand what it is a key of (`pretrain.steps`, `stage.pretrain.steps`), and the last part of a key "
         "finds it, too (`lr`). What other programs call a setting (`max_steps`) is answered with what it is called "
         "here, a name that is not known with the nearest ones.",
         {"longhaul explain 3", "longhaul explain heldout_bytes", "longhaul explain stage.pretrain.optimizer.lr",
          "longhaul explain straggler"},
         {not_found}},
        {Command::doctor,
         "doctor",
         "longhaul doctor [options]",
         "what this installation has",
         "Says which programs, sites and recipes are found, how many cores there are, and what the engine beside it "
         "was built with. With --site it compares that site's file with the cluster, says what to change, and asks "
         "about the values that nobody has checked. With --job it tries them: a job of two nodes and at most five "
         "minutes, made like the site's other jobs, finds out what no file and no slurmctld says: whether jobs submit "
         "jobs, agents run beside ranks and both see GPUs, the MPI plugin starts ranks, nodes reach each other's "
         "ports, "
         "the shared file system keeps its promises, how long a cancelled job lasts. What was found is written into "
         "the site file with day and release, and what it confirms is asked about no more.",
         {"longhaul doctor", "longhaul doctor --site leonardo-booster",
          "longhaul doctor --site leonardo-booster --job"},
         {invalid_input, not_found, run_failed, system, interrupted, timeout}},
        {Command::sites,
         "sites",
         "longhaul sites [NAME | probe] [options]",
         "what is known about the machines",
         "Lists the site files. With a NAME: every value of that site, the file that says it, and where it was read or "
         "that nobody has checked it. `longhaul sites probe` asks the cluster that this machine belongs to and prints "
         "a first site file for it.",
         {"longhaul sites", "longhaul sites alps-clariden", "longhaul sites probe --name mycluster > mycluster.toml"},
         {invalid_input, not_found, system, timeout}},
    };
    for (CommandSpec& spec : day_one_specs()) all.push_back(std::move(spec));
    for (CommandSpec& spec : question_specs()) all.push_back(std::move(spec));
    for (CommandSpec& spec : data_specs()) all.push_back(std::move(spec));
    return all;
  }();
  return specs;
}

const CommandSpec& command_spec(Command command) {
  for (const CommandSpec& spec : command_specs())
    if (spec.command == command) return spec;
  die("command_spec", "known command", std::to_string(static_cast<int>(command)));
}

const std::vector<CommandGroup>& command_groups() {
  using enum Command;
  static const std::vector<CommandGroup> groups = {
      {"run a workflow", {init, run, submit, resume, tune}},
      {"look at runs", {status, runs, logs, checkpoints, report, faults, support_bundle}},
      {"steer a run", {tell, cancel, fork, tick, notify, gc}},
      {"know the machine", {doctor, sites}},
      {"plan and ask", {validate, plan, data, size, serving, simulate, docs, explain, completion}},
  };
  return groups;
}

std::string grouped_commands_text() {
  std::string text;
  for (const CommandGroup& group : command_groups()) {
    text += (text.empty() ? "" : "\n") + group.title + ":\n";
    for (const Command command : group.commands)
      text += format("  {:<15} {}\n", command_spec(command).name, command_spec(command).summary);
  }
  return text;
}

std::string plain_text(const std::string& markdown) {
  std::string text;
  for (std::size_t i = 0; i < markdown.size(); ++i) {
    const std::size_t middle = markdown[i] == '[' ? markdown.find("](", i) : std::string::npos;
    const std::size_t closed = markdown.find(']', i);
    if (middle == std::string::npos || middle != closed) {
      text += markdown[i] == '`' ? '\'' : markdown[i];
      continue;
    }
    text += markdown.substr(i + 1, middle - i - 1);
    i = std::min(markdown.find(')', middle), markdown.size() - 1);
  }
  return text;
}

std::string command_footer(const CommandSpec& spec) {
  std::string text = "Examples:\n";
  for (const std::string& example : spec.examples) text += "  " + example + "\n";
  text += "\nExit codes:\n";
  for (const ExitCodeText& code : exit_code_texts()) {
    bool listed = static_cast<int>(code.code) <= static_cast<int>(ExitCode::usage);
    for (ExitCode own : spec.exit_codes) listed = listed || own == code.code;
    if (listed) text += format("  {}  {}\n", static_cast<int>(code.code), code.meaning);
  }
  return text;
}

}  // namespace longhaul
