// The file of an index: an SQLite database, which other programs can open as well, with a line behind it that says
// which format it has and what the digest of all before it is. Written beside and renamed.
#pragma once

#include <string>

#include "orchestrator/index/sqlite.h"

namespace longhaul {

// Of the tables in it, raised by hand when they change, or what is written into them.
inline constexpr int runs_index_format = 1;

// not_found: there is none. invalid_input: it is not this user's own, or could have been written by others. corrupt: it
// is damaged, of another format, or of another folder of runs. The error names the file and what is wrong with it.
Result<SqlDatabase> load_index_file(const std::string& path, const std::string& runs_dir);

// Makes the folder, which nobody else may enter, where it is not there.
Status save_index_file(const std::string& path, SqlDatabase& database);

}  // namespace longhaul
