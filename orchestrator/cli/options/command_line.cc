#include "orchestrator/cli/options/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <utility>

#include "base/error/diagnostics.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/records/attempt.h"
#include "orchestrator/cli/options/habits.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/fit/fit_report.h"

namespace longhaul {
namespace {

std::string wrapped(const std::string& text, std::size_t width = 96) {
  std::string out, line;
  for (const std::string& word : split(text, ' ')) {
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line;
}

// Usage line and paragraph first, then options, examples and exit codes.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    for (const CommandSpec& spec : command_specs())
      if (app->get_parent() && spec.name == app->get_name())
        return "Usage: " + spec.usage + "\n\n" + wrapped(plain_text(spec.paragraph)) + "\n";
    return CLI::Formatter::make_usage(app, name);
  }
  // All commands, by what a person wants.
  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode mode) const override {
    return app->get_parent() ? CLI::Formatter::make_subcommands(app, mode) : "\n" + grouped_commands_text();
  }
  std::string make_description(const CLI::App* app) const override {
    return app->get_parent() ? "" : CLI::Formatter::make_description(app);
  }
};

void add_sets(CLI::App& app, CommandLine& line, const std::string& help) {
  app.add_option("--set", line.sets, help)->type_name("KEY=VALUE")->allow_extra_args(false);
}

void add_planning_options(CLI::App& app, CommandLine& line) {
  app.add_option("WORKFLOW", line.workflow, "workflow file (TOML)")->required();
  add_sets(app, line,
           "KEY=VALUE: params.NAME=VALUE, stage.NAME.KEY=VALUE or site.KEY=VALUE; VALUE is TOML. May be repeated");
  app.add_option("--site", line.site, "site's name or file")->capture_default_str();
}

void add_runs_dir(CLI::App& app, CommandLine& line) {
  app.add_option("--runs-dir", line.runs_dir, "folder of runs [the site's, or ./runs]")->type_name("FOLDER");
}

// Questions that start nothing.
void add_question(CLI::App& app, CommandLine& line, const std::string& keys) {
  app.add_option("KEYS", line.arguments, "KEY=VALUE...: " + keys);
  app.add_option("--question", line.question, "TOML file with such keys; arguments win over it")->type_name("FILE");
  app.add_option("--site", line.site, "site's name or file, whose GPUs are meant")->capture_default_str();
  add_sets(app, line, "site.KEY=VALUE; VALUE is TOML. May be repeated");
}

void add_run(CLI::App& app, CommandLine& line) {
  app.add_option("RUN", line.run, "path, name or beginning of a name [your newest]");
  add_runs_dir(app, line);
}

void add_duration(CLI::App& app, const char* name, double& seconds, const char* help) {
  app.add_option_function<std::string>(
         name,
         [&seconds, name](const std::string& text) {
           const auto parsed = parse_duration_seconds(text);
           if (!parsed) throw CLI::ValidationError(name, text + " is not a duration; for example 45s, 30min, 12h");
           seconds = *parsed;
         },
         help)
      ->type_name("DURATION");
}

void add_driving_options(CLI::App& app, CommandLine& line) {
  app.add_option("--fault-plan", line.fault_plan)->group("");  // for tests: hidden
  app.add_option("--worker-fault-plan", line.worker_fault_plan)->group("");
}

void add_loudness(CLI::App& app, CommandLine& line) {
  auto* quiet = app.add_flag("-q,--quiet", line.quiet, "no progress, only how it ends and what goes wrong");
  app.add_flag("-v,--verbose", line.verbose, "also what the controller does, as in controller.log")->excludes(quiet);
}

void add_calibration_options(CLI::App& app, CommandLine& line) {
  app.add_flag("--calibrate", line.calibrate, "measure the site instead, and write its constants of the time model");
  app.add_option("--output", line.output, "with --calibrate: their file [constants/SITE.toml beside the site's]")
      ->type_name("FILE");
  app.add_option("--ranks", line.ranks, "with --calibrate: of the largest run, 1, 2 or 4 [2]")
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", line.threads, "with --calibrate: of each rank [1]")->check(CLI::PositiveNumber);
  app.add_option("--nodes", line.nodes, "with --calibrate: of runs over several nodes [one for each rank, on Slurm]")
      ->check(CLI::PositiveNumber);
  app.add_option("--steps", line.steps, "with --calibrate: of each training, two of which are not measured [11]")
      ->check(CLI::Range(5, 10'000));
  app.add_flag("--processors", line.processors, "with --calibrate: of a site with GPUs, measure its processors");
  app.final_callback([&app, &line] {
    if (!line.calibrate && app.count("WORKFLOW") == 0) throw CLI::RequiredError("WORKFLOW");
    for (const char* name : {"--output", "--ranks", "--threads", "--nodes", "--steps", "--processors"})
      if (!line.calibrate && app.count(name) > 0) throw CLI::RequiresError(name, "--calibrate");
  });
}

void add_runs_options(CLI::App& app, RunsOptions& asked) {
  const auto list = [&](const char* name, std::vector<std::string>& values, const char* help, const char* type) {
    app.add_option(name, values, help)->type_name(type)->delimiter(',')->allow_extra_args(false);
  };
  list("--runs-dir", asked.folders, "folder of runs [the site's, or ./runs]; may be repeated", "FOLDER");
  list("--user", asked.users, "runs of these users, by name or number", "USER");
  app.add_flag("--me", asked.mine, "runs of your own");
  list("--state", asked.states,
       "running, succeeded, failed, cancelled, unreadable; or waiting, submitted, ... of a stage", "STATE");
  list("--name", asked.names, "how a run's or its workflow's name begins, or a pattern with * and ?", "PATTERN");
  app.add_option("--since", asked.since, "not over before then: 12h or 2d ago, or 2026-11-01[T12:30] in UTC")
      ->type_name("TIME");
  app.add_option("--until", asked.until, "begun before then")->type_name("TIME");
  list("--stage", asked.stages, "a line for each stage of this name or kind instead; '*' for all", "PATTERN");
  list("--model", asked.models, "how a stage's model is named: 'llama', '*8.03 B', the folder of one that was brought",
       "PATTERN");
  app.add_option("--figure", asked.figures, "a stage's figure beside a number: 'heldout_loss<3'; shown as a column")
      ->type_name("BOUND")
      ->allow_extra_args(false);
  app.add_option("--sort", asked.sort,
                 "created, name, state, stage, model, user, step, loss, hours, ended, workflow or a "
                 "figure; -KEY for the other way round")
      ->capture_default_str();
  app.add_option("--newest", asked.newest, "no more than the N newest")->type_name("N")->check(CLI::PositiveNumber);
  app.add_flag("--rebuild", asked.rebuild, "make the index of these runs again from their files");
}

void add_options(Command command, CLI::App& app, CommandLine& line) {
  const auto json = [&] { app.add_flag("--json", line.json, "one JSON document on standard output"); };
  const auto allow_of = [&](const std::vector<std::string>& names) {
    app.add_option("--allow", line.allowed,
                   "go on although something does not fit: " + join(names, ", ") + ". May be repeated")
        ->type_name("CHECK")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::IsMember(names));
    // As they were called when each had an option of its own: hidden, and answered with the new one.
    for (const std::string name : {"memory", "device"}) {
      if (std::find(names.begin(), names.end(), name) == names.end()) continue;
      const auto say = [&line, name] {
        line.allowed.push_back(name);
        print(stderr, "longhaul: --ignore-{0} is called --allow {0} now\n", name);
      };
      app.add_flag_callback("--ignore-" + name, say)->group("");
    }
  };
  const auto allow = [&] {
    std::vector<std::string> names;
    for (const FitSubjectText& one : fit_subject_texts()) names.push_back(one.name);
    allow_of(names);
  };
  switch (command) {
    case Command::init:
      app.add_option("FOLDER", line.subject, "folder of texts, rows, a model or a script [here]");
      json();
      break;
    case Command::run:
      add_planning_options(app, line);
      allow();
      add_runs_dir(app, line);
      add_loudness(app, line);
      json();
      add_driving_options(app, line);
      break;
    case Command::submit:
      add_planning_options(app, line);
      allow();
      app.add_option("--driver", line.driver, "who drives the run on: auto, lead, scrontab, job, here")
          ->check(CLI::IsMember({"auto", "lead", "scrontab", "job", "here"}))
          ->capture_default_str();
      add_runs_dir(app, line);
      add_loudness(app, line);
      json();
      add_driving_options(app, line);
      break;
    case Command::validate:
      add_planning_options(app, line);
      allow();
      add_runs_dir(app, line);
      json();
      break;
    case Command::plan:
      add_planning_options(app, line);
      allow();
      app.add_flag("--settings", line.settings, "every setting of every stage");
      app.add_flag("--scripts", line.scripts, "the job scripts, at a Slurm site");
      app.add_flag("--no-queue", line.no_queue, "do not ask Slurm when each job would start");
      app.add_option("--html", line.html, "also a page with plots of what is predicted")->type_name("FILE");
      add_runs_dir(app, line);
      json();
      break;
    case Command::status:
      app.add_flag("--metrics", line.metrics, "where the time of trainings went, in Prometheus' text format");
      app.add_flag("--watch", line.watch, "again and again until the run has ended, on a terminal in place");
      add_duration(app, "--every", line.every_s, "with --watch: how often [2s]");
      app.add_option("RUN", line.named_runs, "path, name or beginning of a name; 'latest' is your newest; or several");
      add_runs_dir(app, line);
      json();
      break;
    case Command::runs:
      add_runs_options(app, line.runs_asked);
      app.add_option("--site", line.site, "whose folder of runs is meant, where --runs-dir names none")
          ->capture_default_str();
      json();
      break;
    case Command::report:
      app.add_option("--output", line.output, "folder for its two files [RUN-report here]")->type_name("FOLDER");
      add_run(app, line);
      json();
      break;
    case Command::faults:
      add_run(app, line);
      json();
      break;
    case Command::logs:
      add_run(app, line);
      app.add_option("STAGE", line.stage, "stage, or stage/variant [the running or failed one]");
      app.add_flag("-f,--follow", line.follow, "go on printing what comes");
      app.add_flag("--raw", line.raw, "control characters as they are, also on a terminal");
      app.add_option("--attempt", line.attempt, "an earlier attempt [the newest]")->check(CLI::PositiveNumber);
      app.add_option("--quiet-limit", line.quiet_limit_s,
                     "seconds without anything new after which --follow gives up, where nobody drives the run")
          ->capture_default_str();
      json();
      break;
    case Command::cancel:
    case Command::resume:
      add_run(app, line);
      if (command == Command::cancel)
        app.add_flag("--server", line.server, "end the servers that the run left running, and nothing else");
      add_loudness(app, line);
      json();
      add_driving_options(app, line);
      break;
    case Command::tick:
      add_run(app, line);
      app.add_flag("--until-quiet", line.until_quiet, "rounds until one changes nothing");
      add_duration(app, "--patience", line.patience_s,
                   "with --until-quiet: for a scheduler that does not answer [15min]");
      app.add_flag(unwritten_record_option, line.unwritten_record)->group("");  // by leads: hidden
      app.add_flag(leave_refused_option, line.leave_refused)->group("");
      app.add_option(round_of_job_option, line.of_job)->group("");
      add_duration(app, "--for", line.for_s, "rounds for so long, or until the run has ended");
      json();
      add_driving_options(app, line);
      break;
    case Command::docs:
      app.add_option("PAGE", line.subject, "print this page alone");
      app.add_option("--output", line.output, "folder for one file per subject")->type_name("FOLDER");
      app.add_option("--man", line.man, "folder for manual pages, longhaul.1 and one for each command")
          ->type_name("FOLDER")
          ->excludes("PAGE")
          ->excludes("--output");
      app.add_option("--figures", line.figures, "folder for the drawings of the pages, as SVG")
          ->type_name("FOLDER")
          ->excludes("PAGE")
          ->excludes("--output")
          ->excludes("--man");
      json();
      break;
    case Command::explain:
      app.add_option("NAME", line.subject, "exit code, key, event, ...")->required();
      json();
      break;
    case Command::doctor:
      app.add_option("--site", line.site, "compare this site's file with the cluster");
      app.add_flag("--job", line.job, "with --site: try it by a job of two nodes, five minutes");
      app.add_option("--class", line.job_class, "with --job: of the site's classes [debug, or the default]")
          ->type_name("CLASS");
      app.add_option("--nodes", line.nodes, "with --job [2]")->check(CLI::Range(1, 16));
      add_duration(app, "--queue", line.queue_s, "with --job: how long it may wait for its start [30min]");
      app.add_flag("--dry-run", line.dry_run, "with --job: print the script and submit nothing");
      app.add_option("--output", line.output,
                     "with --job: the site file that gets what was found [the site's own, or ./site-configs/NAME.toml]")
          ->type_name("FILE");
      add_runs_dir(app, line);
      json();
      break;
    case Command::sites:
      app.add_option("NAME", line.subject, "site's name or file, or 'probe'");
      app.add_flag("--all", line.all, "also what the file leaves at its default");
      app.add_option("--name", line.new_name, "of the site that 'probe' writes [the cluster's]");
      add_sets(app, line, "site.KEY=VALUE; VALUE is TOML. May be repeated");
      json();
      break;
    case Command::checkpoints:
      add_run(app, line);
      app.add_option("STAGE", line.stage, "stage, or stage/variant [all that train]");
      json();
      break;
    case Command::tell:
      add_run(app, line);
      app.add_option("ORDER", line.arguments,
                     "checkpoint | stop-after STEP | set KEY=VALUE... | stacks | fault NAME...");
      app.final_callback([&line] {  // without RUN what stands there is the order
        const std::vector<std::string> orders = {"checkpoint", "stop-after", "set", "stacks", "fault"};
        if (std::ranges::find(orders, line.run) != orders.end())
          line.arguments.insert(line.arguments.begin(), std::exchange(line.run, ""));
        if (line.arguments.empty()) throw CLI::RequiredError("ORDER");
      });
      app.add_option("--stage", line.stage, "which one, where several are running")->type_name("STAGE");
      app.add_option("--wait", line.wait_s, "seconds to wait for the outcome; 0 does not")->capture_default_str();
      json();
      add_driving_options(app, line);
      break;
    case Command::notify:
      add_run(app, line);
      app.add_flag("--test", line.test, "one message more, to see that it arrives");
      json();
      break;
    case Command::fork:
      add_run(app, line);
      app.add_option(
             "--from", line.from,
             "the training stage, and the step of its checkpoint [what --set changes, else what runs or failed, "
             "else the last that has one; its newest]")
          ->type_name("[STAGE][@STEP]");
      add_sets(app, line, "stage.NAME.KEY=VALUE; VALUE is TOML. May be repeated");
      json();
      break;
    case Command::gc:
      add_runs_dir(app, line);
      app.add_flag("--delete", line.erase, "delete what is listed; without it nothing is");
      app.add_option("--keep-last", line.keep_last,
                     "artifacts of all but the newest N runs of a workflow may go, where no other run refers to them")
          ->type_name("N")
          ->check(CLI::NonNegativeNumber);
      app.add_option("--pin", line.pin, "never delete anything of this run or stage")->type_name("RUN[/STAGE]");
      app.add_option("--unpin", line.unpin, "take a pin back")->type_name("RUN[/STAGE]");
      json();
      break;
    case Command::support_bundle:
      add_run(app, line);
      app.add_option("--output", line.output, "the file [RUN.tar.gz here]")->type_name("FILE");
      app.add_option("--size-max", line.size_max_mib, "of what is packed, in MiB")->capture_default_str();
      json();
      break;
    case Command::simulate:
      app.add_option("SCENARIO", line.scenario, "TOML file, see docs/reference/simulate.md")->required();
      app.add_option("--seed", line.seed, "of the faults [the scenario's]")->check(CLI::NonNegativeNumber);
      app.add_option("--trials", line.trials, "runs of which means and bounds are taken [the scenario's]")
          ->check(CLI::Range(2, 10'000));
      app.add_option("--html", line.html, "also a page with plots")->type_name("FILE");
      json();
      break;
    case Command::tune:
      add_planning_options(app, line);
      app.get_option("WORKFLOW")->required(false);
      allow_of({to_string(FitSubject::device)});
      app.add_option("--stage", line.stage,
                     "the training stage whose layout is wanted, or a tune or search stage [the only one]")
          ->type_name("STAGE");
      app.add_flag("--dry-run", line.dry_run, "print the candidates and start nothing");
      add_calibration_options(app, line);
      add_runs_dir(app, line);
      json();
      add_driving_options(app, line);
      break;
    case Command::serving:
      add_question(app, line, "recipe=NAME, prompt_tokens=N, itl_max=30ms, ...; see docs/reference/questions.md");
      app.add_option("--workflow", line.workflow, "take the model of this workflow's deploy stage")->type_name("FILE");
      app.add_option("--stage", line.stage, "of --workflow: the stage whose model it is")->type_name("STAGE");
      json();
      break;
    case Command::size:
      add_question(app, line, "parameters=8B, tokens=1T, days=30, gpus=512, ...; see docs/reference/questions.md");
      json();
      break;
    case Command::data:
      app.add_option("check", line.subject, "what is asked")->required()->check(CLI::IsMember({"check"}));
      app.add_option("FILE", line.data_file, "rows of tuning data: JSON Lines")->required();
      app.add_option("--model", line.model, "folder of the model that reads them: for lengths and the first rows")
          ->type_name("FOLDER");
      app.add_option("--ignore", line.ignored, "a key that need not be used, as `ignore` of a stage. May be repeated")
          ->type_name("KEY");
      app.add_option("--for", line.data_stage, "the kind of the stage [as the first row]")
          ->check(CLI::IsMember({"sft", "align", "reward"}));
      app.add_option("--sequence-length", line.sequence_length, "count the rows that are longer")
          ->check(CLI::PositiveNumber);
      line.limit_s = 3600;
      add_duration(app, "--limit", line.limit_s, "give up after so long [1h]");
      json();
      break;
    case Command::completion:
      app.add_option("SHELL", line.arguments, "bash, zsh or fish")->required();
      add_runs_dir(app, line);
      break;
    case Command::none: break;
  }
}

// "; did you mean '--site'?" of the first option that a command does not have; "".
std::string unknown_option_hint(const CLI::App& app) {
  std::vector<std::string> known;
  for (const CLI::Option* one : app.get_options())
    for (const std::string& name : one->get_lnames())
      if (!one->get_group().empty()) known.push_back("--" + name);
  for (const std::string& word : app.remaining())
    if (starts_with(word, "-")) {
      const std::string hint = option_hint(word.substr(0, word.find('=')), known);
      return hint.empty() ? "" : "; " + hint;
    }
  return {};
}

std::string no_command_text(int argc, const char* const* argv) {
  std::vector<std::string> names;
  for (const CommandSpec& spec : command_specs()) names.push_back(spec.name);
  if (argc < 2 || argv[1][0] == '-') return "no command was given";
  if (const std::string said = command_habit(argv[1]); !said.empty())
    return std::string("unknown command '") + argv[1] + "'; here it is: " + said;
  const std::string nearest = nearest_word(argv[1], names);
  return std::string("unknown command '") + argv[1] + "'; " +
         (nearest.empty() ? "there are: " + join(names, ", ") : "did you mean '" + nearest + "'?");
}

}  // namespace

std::vector<OptionText> option_texts(Command command) {
  CommandLine line;
  CLI::App app;
  add_options(command, app, line);
  std::vector<OptionText> texts;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    OptionText text;
    text.positional = option->get_positional();
    text.name = option->get_name(text.positional);
    if (!option->get_lnames().empty()) text.name = "--" + option->get_lnames().front();
    text.help = option->get_description();
    text.value = option->get_type_name();
    text.takes_value = option->get_expected_max() > 0;
    texts.push_back(std::move(text));
  }
  return texts;
}

CommandLine parse_command_line(int argc, const char* const* argv, const std::string& version) {
  CommandLine line;
  CLI::App app("Longhaul takes raw text to a deployed language model, driven by one workflow file.", "longhaul");
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  app.set_version_flag("--version", version, "print the version and end");
  app.footer(
      "Help for one command: longhaul COMMAND --help\nNothing that longhaul prints has colours, with NO_COLOR or "
      "without.");
  auto formatter = std::make_shared<HelpFormatter>();
  formatter->column_width(34);
  app.formatter(formatter);
  std::map<const CLI::App*, Command> commands;
  for (const CommandSpec& spec : command_specs()) {
    CLI::App* sub = app.add_subcommand(spec.name, spec.summary);
    sub->footer(command_footer(spec));
    add_options(spec.command, *sub, line);
    commands[sub] = spec.command;
  }
  try {
    app.parse(argc, argv);
    CLI::App* chosen = app.get_subcommands().front();
    line.command = commands.at(chosen);
    if (const CLI::Option* site = chosen->get_option_no_throw("--site")) line.site_given = site->count() > 0;
  } catch (const CLI::Success& help) {
    line.finished = true;
    app.exit(help);
  } catch (const CLI::ParseError& problem) {
    line.finished = true;
    line.exit = ExitCode::usage;
    const auto chosen = app.get_subcommands();
    const std::string command = chosen.empty() ? "" : " " + chosen.front()->get_name();
    const bool has_extras = !chosen.empty() && problem.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
    const std::string what = chosen.empty() ? no_command_text(argc, argv)
                                            : problem.what() + (has_extras ? unknown_option_hint(*chosen.front()) : "");
    if (argc < 2) print_text(stdout, grouped_commands_text() + "\n");
    if (std::find(argv + 1, argv + argc, std::string_view("--json")) != argv + argc) {
      const Error error = make_error(ErrorCode::invalid_input, what, "see: longhaul" + command + " --help");
      print_text(stdout, to_json_pretty(errors_document(trim(command), line.exit, std::span(&error, 1))));
    }
    print(stderr, "longhaul{}: {}\nsee: longhaul{} --help\n", command, what, command);
  } catch (const std::exception& problem) {
    line.finished = true;
    line.exit = ExitCode::internal;
    print(stderr, "longhaul: {}\n", problem.what());
  }
  return line;
}

}  // namespace longhaul
