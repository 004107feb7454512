// Room orchestrator/cli/options
// The command line as data: options, commands with their help, exit codes, and the generated reference pages.
// command_specs.h lists the commands; command_line.h parses, and its source alone includes CLI11.
// exit_code.h and json_keys.h are what scripts may rely on; reference_docs.h prints docs/reference from tables.
// It opens no run and starts nothing, so that help and completion work without a run.
//
// The command line as a struct. The only file that knows the parsing library is command_line.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orchestrator/cli/options/command_specs.h"
#include "orchestrator/cli/options/runs_options.h"

namespace longhaul {

struct CommandLine {
  Command command = Command::none;
  // Set when there is nothing left to do: help or version was printed, or a usage error.
  bool finished = false;
  ExitCode exit = ExitCode::ok;

  std::string workflow;                              // run validate plan
  std::string scenario;                              // simulate
  std::int64_t seed = -1;                            // simulate; -1: the scenario's
  int trials = 0;                                    // simulate; 0: the scenario's
  std::string html;                                  // simulate plan
  std::string question;                              // serving size: a file
  std::string run;                                   // "" is the newest
  std::vector<std::string> named_runs;               // status
  RunsOptions runs_asked;                            // runs
  std::string stage;                                 // logs tune
  bool dry_run = false;                              // tune
  bool calibrate = false, processors = false;        // tune
  int ranks = 0, threads = 0, nodes = 0, steps = 0;  // tune --calibrate; 0: as the site is
  std::vector<std::string> sets;
  std::string site = "local";
  std::string runs_dir;  // "": the site's, or ./runs
  bool json = false;
  bool settings = false;             // plan
  bool scripts = false;              // plan
  bool no_queue = false;             // plan
  std::vector<std::string> allowed;  // plan run submit validate tune: checks that refuse nothing (orchestrator/fit/)
  bool all = false;                  // sites NAME
  bool site_given = false;           // --site stood on the command line
  std::string subject;               // sites: a name, "probe", or ""; docs: a page; data: "check"
  std::string new_name;              // sites probe
  bool metrics = false;              // status
  bool watch = false;                // status
  double every_s = 2;                // status --watch
  bool server = false;               // cancel
  bool quiet = false;                // run submit resume
  bool verbose = false;              // run submit resume
  bool follow = false;               // logs
  bool raw = false;                  // logs
  int attempt = 0;                   // logs; 0 is the newest
  double quiet_limit_s = 600;        // logs --follow
  std::string output;                // docs support-bundle tune
  std::string man;                   // docs: folder of manual pages
  std::string figures;               // docs: folder of drawings
  std::vector<std::string>
      arguments;                     // tell: the order; completion: the shell, or what is asked for; serving size: keys
  std::string driver = "auto";       // submit
  bool until_quiet = false;          // tick
  double patience_s = 900;           // tick --until-quiet
  bool unwritten_record = false;     // tick, of a lead
  bool leave_refused = false;        // tick, of a lead
  std::string of_job;                // the same: its job's id
  double for_s = 0;                  // tick; 0: one round
  double wait_s = 60;                // tell
  bool test = false;                 // notify
  std::string from;                  // fork: STAGE[@STEP]
  bool erase = false;                // gc --delete
  int keep_last = -1;                // gc; -1: artifacts stay
  std::string pin, unpin;            // gc
  bool job = false;                  // doctor
  std::string job_class;             // doctor --job; "": debug, or the default
  double queue_s = 1800;             // doctor --job: until it starts
  double size_max_mib = 64;          // support-bundle
  std::string data_file, model;      // data check: a file of rows, and the folder of the model that reads them
  std::string data_stage;            // data check: sft, align or "": as the first row
  std::vector<std::string> ignored;  // data check: keys
  std::int64_t sequence_length = 0;  // data check; 0: none
  double limit_s = 0;                // data check
  std::string fault_plan;            // tests
  std::string worker_fault_plan;     // tests
};
struct OptionText {
  std::string name;  // "--site"; of a positional: "RUN"
  std::string help;
  std::string value;  // what it takes, in words: "FOLDER"
  bool takes_value = false, positional = false;
};
// All visible options of a command, as the parser knows them.
std::vector<OptionText> option_texts(Command command);

// Prints help and usage errors itself.
CommandLine parse_command_line(int argc, const char* const* argv, const std::string& version);

}  // namespace longhaul
