// Completion for shells, written from the command table and the field tables. The scripts know commands and options;
// names that change (runs, stages, sites, keys) they ask of `longhaul completion words KIND ...`.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/cli/options/command_line.h"
#include "orchestrator/cli/session/installation.h"

namespace longhaul {

// "bash", "zsh" or "fish"; "" for any other shell.
std::string completion_script(const std::string& shell);

// What may stand in a place: `asked` is {"runs"}, {"sites"}, {"kinds"}, {"stages", RUN}, {"stage-keys", KIND},
// {"set", WORKFLOW, typed so far} or {"question", "serving" or "size", typed so far}. Never an error: no choices where
// nothing can be known. Names that files or folders bring are choices only where they are made of [A-Za-z0-9._,=+@/-].
std::vector<std::string> completion_choices(const std::vector<std::string>& asked, const CommandLine& line,
                                            const Installation& installation);

// Dotted keys of a stage of this kind that --set can name, with those that every stage has; empty for no kind.
std::vector<std::string> stage_key_choices(const std::string& kind);

}  // namespace longhaul
