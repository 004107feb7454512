// Small checks of what users write into jobs: sbatch options, memory, modules, variables.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"
#include "orchestrator/job/request/sbatch_text.h"

namespace longhaul {

// "--name=value" or "--name". invalid_input: another form, or an option that has a key of its own or that only the
// controller may set; the hint says which key. Comments are the user's own at a site whose identity is "name".
Result<Directive> parse_job_option(const std::string& text, bool own_comments = false);

bool is_slurm_memory(const std::string& text);    // "200G", "0"
bool is_slurm_switches(const std::string& text);  // "1", "1@01:00:00"
bool is_module_name(const std::string& text);

// A variable that a job script may export.
Status check_variable(const std::string& name, const std::string& value);

// Shell lines that define `load_module NAME`: `module load`, and a status other than 0 where it was not loaded. Tcl
// modules before 4 (Cray's and many clusters' 3.2) say why on stderr and answer 0: what they have loaded stands in
// LOADEDMODULES, by its own name, or by another one where NAME is an alias.
std::vector<std::string> module_loader();
// Shell lines before the first module is loaded: those, and what finds the command or says what to do where there is
// none.
std::vector<std::string> module_preamble();

}  // namespace longhaul
