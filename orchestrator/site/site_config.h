// A site file says where runs happen and what holds there: the scheduler, the classes of jobs with their limits, how
// GPUs are asked for, modules and variables, bandwidths (site_schema.h). Files inherit from each other (`inherits =
// "parent"`), table by table; the nearer file wins. ${site.NAME} in a workflow names these keys.
//
// No value stands alone: [sources] of a file says where it was read ("classes.prod.max_wall" = "...", or "classes" for
// all below) and `read_on` when ("2026-11", for all that the file says), `unverified` names those that nobody has
// checked, which `longhaul doctor --site` asks about; [verified] holds what a job has tried (verified_values.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error/diagnostics.h"
#include "base/value/value.h"
#include "orchestrator/site/site_schema.h"

namespace longhaul {

// Where one value of a site comes from.
struct ValueOrigin {
  std::string site;      // the name of the file that says it: "slurm-generic"; "--set"; "driver lead"
  SourcePos where;       // there
  std::string source;    // where the file's author read it; "" if the file does not say
  std::string read_on;   // when: "2026-11-27", "2026-11"; "" if the file does not say
  bool verified = true;  // false: named in `unverified`
  Value written;         // as the file writes it: "72h" and not "259200s"
};

struct Site {
  SiteConfig config;
  Value values;                    // table: every key with its value, for ${site.NAME} and site.toml of a run
  std::vector<std::string> files;  // that were read, nearest first
  // Of every value that some file says, by its path ("classes.prod.qos"). What is missing here is a default.
  std::map<std::string, ValueOrigin> origins;

  // "site leonardo: classes.prod.qos", "default: ask.exclusive", "driver lead: ask.requeue".
  std::string origin_of(const std::string& path) const;
  // Writes down a value that no file says but that follows from something else; `config` is the caller's to change.
  void set_derived(const std::string& path, Value value, const std::string& from, const std::string& source);
};

// `name` is a site's name, looked up as <name>.toml in `folders`, or the path of a .toml file; also the frozen
// site.toml of a run. "local" needs no file. Relative paths in a site file start at its folder. `sets` ("account=...",
// TOML on the right) win over all files. Problems come out together.
Result<Site> load_site(const std::string& name, const std::vector<std::string>& folders,
                       const std::vector<std::string>& sets = {});

// The names of all sites in these folders and "local", sorted.
std::vector<std::string> site_names(const std::vector<std::string>& folders);

// Paths of the leaves of a table with their values: "ask.memory", "environment.NCCL_NET".
std::vector<std::pair<std::string, const Value*>> leaves_of(const Value& table);

}  // namespace longhaul
