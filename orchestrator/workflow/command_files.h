// Where a `command` stage starts, and whether the files that it names there can be run: said before anything runs.
#pragma once

#include <string>

#include "base/error/diagnostics.h"
#include "base/value/value.h"
#include "orchestrator/workflow/source/file_view.h"

namespace longhaul {

// Puts the folder at which a relative `workdir` starts into the settings of a command stage: `folder`, absolute, where
// the workflow lies. A written one stays. In a container whose stage writes no workdir nothing is put: the folder need
// not be mounted there.
void complete_workdir(Value& settings, bool in_container, const std::string& folder);

// Of settings that complete_workdir has completed, outside containers: the folder exists; a program of argv that is
// named by a path is there and may be executed; a script that is handed to an interpreter (`python3 train.py`) is
// there. `where` is "stage.NAME", `table` the stage as written, for places.
void check_command_files(const std::string& where, const Value& table, const Value& settings, const FileView& files,
                         Diagnostics& diagnostics);

}  // namespace longhaul
