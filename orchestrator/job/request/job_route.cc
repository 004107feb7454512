#include <algorithm>

#include "base/text/text.h"
#include "orchestrator/job/request/job_directives.h"
#include "orchestrator/job/request/sbatch_text.h"

namespace longhaul {
namespace {

void ask_for_account(const JobSources& from, JobDirectives& lines) {
  const SiteConfig& config = from.config();
  const JobOptions& job = from.job();
  const Chosen account =
      from.choose(job.account, "job.account", from.job_class.account, "account", config.account, "account");
  const Chosen suffix =
      from.choose("", "", from.job_class.account_suffix, "account_suffix",
                  from.job_class.account.empty() || account.by_user ? config.account_suffix : "", "account_suffix");
  if (account.value.empty() && config.account_required) {
    from.problem_at(SourcePos{from.site.files.empty() ? config.name : from.site.files.front(), 0, 0},
                    from.site_text() + " takes no job without an account",
                    "add --set 'site.account=\"NAME\"', or a site file of your own with inherits = \"" + config.name +
                        "\" and account = \"NAME\", or job = { account = \"NAME\" } to the stage");
  } else if (!account.value.empty()) {
    Chosen whole = account;
    if (!suffix.value.empty() && !ends_with(account.value, suffix.value)) {
      whole.value += suffix.value;
      whole.origin += "; '" + suffix.value + "': " + suffix.origin;
    }
    lines.add("account", whole);
  }
}

}  // namespace

std::string ask_for_route(const JobSources& from, JobDirectives& lines) {
  const SiteConfig& config = from.config();
  const JobOptions& job = from.job();
  ask_for_account(from, lines);
  const Chosen partition = from.choose(job.partition, "job.partition", from.job_class.partition, "partition");
  if (partition.by_user && !config.partitions.empty())
    for (const std::string& one : split(partition.value, ','))
      if (std::find(config.partitions.begin(), config.partitions.end(), one) == config.partitions.end()) {
        const std::string nearest = nearest_word(one, config.partitions);
        from.problem(
            "job.partition", from.site_text() + " has no partition '" + one_line(one) + "'",
            nearest.empty() ? "partitions: " + join(config.partitions, ", ") : "did you mean '" + nearest + "'?");
      }
  lines.add_if("partition", partition);
  lines.add_if("qos", from.choose(job.qos, "job.qos", from.job_class.qos, "qos"));
  lines.add_if("constraint", from.choose(job.constraint, "job.constraint", from.job_class.constraint, "constraint"));
  lines.add_if("reservation",
               from.choose(job.reservation, "job.reservation", from.job_class.reservation, "reservation"));
  lines.add_if("licenses", from.of_user(job.licenses, "job.licenses"));
  return partition.value;
}

}  // namespace longhaul
