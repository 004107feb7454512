// The commands in words that people need once a run is under way.
#include "orchestrator/cli/options/command_specs.h"

namespace longhaul {

std::vector<CommandSpec> day_one_specs() {
  using enum ExitCode;
  return {
      {Command::tell,
       "tell",
       "longhaul tell [RUN] ORDER... [options]",
       "give a running stage an order: checkpoint, stop-after STEP, set lr=VALUE checkpoint_interval=STEPS, stacks, "
       "fault NAME",
       "Leaves the order for the run's controller, which refuses it with the reason or hands it to the stage's lead; "
       "all "
       "ranks obey at the same step. `checkpoint` saves after the present step, and that one stays whatever "
       "`keep_last` "
       "says. `stop-after` ends the training well "
       "after that step, with its checkpoint and an artifact of what it has. `set lr` moves the peak of the schedule "
       "from the next step on. `stacks` writes what every thread of every rank is doing, without touching the "
       "training, into "
       "the launch's folder. `fault NAME [rank=R] [step=S | after=10s]` injects a fault, to see what follows; it is "
       "refused unless the workflow has [stage.NAME.faults], or allow_fault_injection = true in [workflow]. Where "
       "several stages train, --stage names one. Waits for the outcome, at most --wait "
       "seconds; the order goes on without. What was ordered stands in the run's log and in `status`. An artifact that "
       "was "
       "steered is not offered to other runs.",
       {"longhaul tell checkpoint", "longhaul tell latest stacks",
        "longhaul tell latest stop-after 5000 --stage pretrain",
        "longhaul tell latest set lr=1e-4 checkpoint_interval=200",
        "longhaul tell latest fault SIGKILL rank=1 step=20"},
       {invalid_input, not_found, system, interrupted, timeout, conflict}},
      {Command::notify,
       "notify",
       "longhaul notify [RUN] [options]",
       "send a run's messages that wait",
       "Sends what controllers left in the run's notify/outbox to the webhook of its site: from a login node, where "
       "compute nodes are offline, or once more after the webhook refused. With --test one message more, so that one "
       "knows that it arrives. The address comes from a file of mode 0600 or from the variable that the site names.",
       {"longhaul notify", "longhaul notify latest --test"},
       {invalid_input, not_found, system, timeout}},
      {Command::fork,
       "fork",
       "longhaul fork [RUN] [--from [STAGE][@STEP]] [--set stage.NAME.KEY=VALUE]...",
       "a new run that goes on from a checkpoint of another one, with other settings",
       "Makes a run of the same plan in which the training stage STAGE starts from the checkpoint of STEP (or the "
       "newest). Without STAGE the first one that --set changes is meant, else the one that runs or failed, else the "
       "last; it has to have a checkpoint. "
       "What lies before that stage is taken as it is; settings of it and of later stages can be changed, except those "
       "that the checkpoint fixes: the model's shape and the seed. Where the run came from stands in its "
       "resolved.toml, "
       "in `status` and in its report. Starts nothing: `longhaul resume` does.",
       {"longhaul fork --set stage.pretrain.optimizer.lr=1e-4",
        "longhaul fork latest --from pretrain@4000 --set stage.pretrain.optimizer.lr=1e-4",
        "longhaul fork quickstart-2026 --from sft --set stage.sft.epochs=5"},
       {invalid_input, not_found, system, conflict}},
      {Command::gc,
       "gc",
       "longhaul gc [options]",
       "what could be deleted, and how fast the runs grow",
       "Lists, for every run below the folder of runs, its bytes and files and what of it nobody needs: staging "
       "folders of "
       "ended attempts, checkpoints of stages that succeeded, older checkpoints of stages that did not, dangling "
       "entries "
       "of the artifact index, and, with --keep-last, artifacts of older runs that no other run refers to. Deletes "
       "nothing without --delete, and never anything of a run that has not ended, of one that still serves a model, or "
       "that is pinned (--pin RUN or RUN/STAGE, --unpin). Can be killed at any point; the next one goes on.",
       {"longhaul gc", "longhaul gc --keep-last 3 --delete", "longhaul gc --pin quickstart-2026/pretrain"},
       {invalid_input, not_found, system}},
      {Command::faults,
       "faults",
       "longhaul faults [RUN] [options]",
       "what can go wrong, or what did in a run and what was decided about it",
       "Without RUN: the table of fault classes, with the budget that pays for another try, the cheapest restart that "
       "can cure it, and whether it speaks against its host. With RUN ('latest' is the newest): every fault that its "
       "leads and controllers reported, by time, with culprit, cause, decision, reason, and where the time until the "
       "next completed step went. Changes nothing.",
       {"longhaul faults", "longhaul faults latest", "longhaul faults latest --json"},
       {not_found, system}},
      {Command::support_bundle,
       "support-bundle",
       "longhaul support-bundle [RUN] [--output FILE.tar.gz]",
       "everything that explains a run, in one file, without secrets",
       "Packs the run's logs, plans, site, records, events, scripts and what `doctor` says; no artifacts, checkpoints "
       "or "
       "data. What looks like a secret is replaced by [redacted], long logs are cut in the middle, and the whole stays "
       "below --size-max MiB. MANIFEST.txt inside says what was cut or left out. Read it before you send it.",
       {"longhaul support-bundle", "longhaul support-bundle latest --output trouble.tar.gz"},
       {not_found, system, timeout}},
      {Command::simulate,
       "simulate",
       "longhaul simulate SCENARIO.toml [options]",
       "what faults, restarts and saves would cost a long training on a large machine",
       "Runs a discrete-event model of a cluster under the restart policy of this program itself and prints the "
       "effective "
       "training time with its confidence bounds, where the rest of the time goes, what dearer or cheaper recoveries, "
       "other intervals between saves and more spares would change, and whether published figures that the scenario "
       "names come out. Latencies that nobody has measured are listed as assumed. Ends with 5 where a published figure "
       "does not come out. Scenarios lie in workflows/simulations.",
       {"longhaul simulate workflows/simulations/llama3.toml",
        "longhaul simulate my-cluster.toml --trials 100 --html simulation.html"},
       {invalid_input, not_found, run_failed, system}},
      {Command::tune,
       "tune",
       "longhaul tune (WORKFLOW [--stage STAGE] | --calibrate) [options]",
       "find the fastest layout of a training stage, or its hyperparameters, by trials",
       "Plans the tune stage for STAGE, or one with defaults where the workflow has none, and what it needs; runs it "
       "in "
       "the foreground as `run` does, and prints every candidate with what was predicted and measured. The layout lies "
       "in the stage's artifact as layout.toml, whose first part can be pasted into the stage. ctrl-C leaves a run "
       "that "
       "the same command goes on with; trials that are done are not done again. With the name of a search stage that "
       "one is done alone, and its winner lies in hyperparameters.toml. With --dry-run nothing is started. With "
       "--calibrate it measures the site instead: short trainings and benchmarks through its scheduler, to which the "
       "constants of the time model are fitted. It prints predictions before and after beside what was measured and "
       "writes the constants that plan and tune use for this site from then on.",
       {"longhaul tune my.toml --stage pretrain --dry-run", "longhaul tune my.toml --stage search",
        "longhaul tune my.toml --stage pretrain --site leonardo-booster", "longhaul tune --calibrate --site local"},
       {invalid_input, not_found, run_failed, system, interrupted, timeout, conflict}},
      {Command::completion,
       "completion",
       "longhaul completion bash|zsh|fish",
       "completion for the shell",
       "Prints a script that completes commands, options, workflow files, runs, stages, sites and the keys of --set, "
       "for "
       "bash, zsh or fish. It asks this program for names, so it never goes stale.",
       {"longhaul completion bash > ~/.longhaul-completion.bash",
        "longhaul completion fish > ~/.config/fish/completions/longhaul.fish"},
       {}},
  };
}

}  // namespace longhaul
