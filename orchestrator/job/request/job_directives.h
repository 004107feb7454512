// The #SBATCH lines of one job, and the four groups of wishes that make them. Each line is quoted as sbatch reads it,
// and held to what the site forbids; what cannot be asked is a problem at the place where it was written.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/job/request/job_length.h"
#include "orchestrator/job/request/job_shape.h"
#include "orchestrator/job/request/job_sources.h"
#include "orchestrator/job/request/sbatch_text.h"

namespace longhaul {

class JobDirectives {
 public:
  explicit JobDirectives(const JobSources& from) : from_(from) {}

  void add(const std::string& option, const Chosen& chosen);
  void add_if(const std::string& option, const Chosen& chosen);  // nothing where there is no value
  // Options as users and sites write them ("--gres=disk:1"), behind the others: one that is set already is a problem,
  // but for --gres, of which one line holds all.
  void add_options(const std::vector<std::string>& options, const Chosen& written);

  std::vector<Directive> take() { return std::move(lines_); }

 private:
  const JobSources& from_;
  std::vector<Directive> lines_;
};

// Account, partition, QoS and what else chooses nodes; the partition that was chosen, or "".
std::string ask_for_route(const JobSources& from, JobDirectives& lines);
// Nodes, tasks, CPUs, GPUs, memory.
void ask_for_resources(const JobSources& from, const JobShape& shape, JobDirectives& lines);
// Time, the signal before its end, and what the scheduler does when a node fails. Whether it may requeue the job.
bool ask_for_behaviour(const JobSources& from, const JobLength& length, JobDirectives& lines);
// Options of site, class and stage that have no key of their own.
void ask_for_options(const JobSources& from, JobDirectives& lines);

}  // namespace longhaul
