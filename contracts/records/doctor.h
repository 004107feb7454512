// What `longhaul doctor --job` and its job agree on: what is to be looked at, and the facts that come out. Both are
// JSON files in one folder of the shared file system, which is there for this look alone.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"

namespace longhaul {

struct DoctorOrder {
  static constexpr int format = 1;
  std::string folder;                       // of this look, seen by all nodes
  std::vector<std::string> launcher;        // arguments that start the ranks, as for any job of the site
  std::vector<std::string> agent_launcher;  // one agent a node, beside the ranks
  std::vector<std::string> sbatch;   // how a job is submitted from inside: program and options, without the script
  std::string mpi;                   // of srun --mpi=, as the site file says
  std::string ports;                 // contracts/records/attempt.h
  std::string node_local;            // folder of each node; "": the site names none
  std::vector<std::string> modules;  // that the script has loaded
  int nodes = 1, ranks = 1;
  int gpus_per_node = 0;  // that the job asked for
};
std::string doctor_order_path(const std::string& folder);
Status write_doctor_order(const DoctorOrder& order);
Result<DoctorOrder> read_doctor_order(const std::string& path);

// One thing found. `answer` is "yes" or "no" or a value; "unknown": it could not be tried, and `detail` says why.
struct DoctorFact {
  std::string name;  // "submit_from_compute"
  std::string answer;
  std::string detail;  // one sentence
  // The key of the site file that it decides, with the value found: "can.submit_from_compute" = "yes"; "": none.
  std::string key = {};
  Value value = {};
};
Value doctor_fact_to_value(const DoctorFact& fact);
DoctorFact doctor_fact_of(const Value& value);

// Files of a look. Facts: an array of all so far, written anew (beside, and renamed) whenever there are more; the job
// has no more to say once `done` is there.
std::string doctor_facts_path(const std::string& folder);
std::string doctor_done_path(const std::string& folder);
Status write_doctor_facts(const std::string& folder, const std::vector<DoctorFact>& facts);
Result<std::vector<DoctorFact>> read_doctor_facts(const std::string& folder);  // empty: none yet

}  // namespace longhaul
