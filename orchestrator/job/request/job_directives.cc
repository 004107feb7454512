#include "orchestrator/job/request/job_directives.h"

#include <algorithm>

#include "orchestrator/job/request/job_options_check.h"
#include "orchestrator/job/request/sbatch_text.h"

namespace longhaul {

void JobDirectives::add(const std::string& option, const Chosen& chosen) {
  if (const auto quoted = sbatch_quoted(chosen.value); !quoted.ok())
    return from_.problem_at(chosen.where, "--" + option + ": " + quoted.error().what, quoted.error().hint);
  const std::vector<std::string>& forbidden = from_.config().ask.forbid;
  if (std::find(forbidden.begin(), forbidden.end(), option) != forbidden.end())
    return from_.problem_at(chosen.where, from_.site_text() + " refuses jobs with --" + option,
                            chosen.by_user ? "remove it" : "take it from the site file, or from its ask.forbid");
  lines_.push_back({option, chosen.value, chosen.origin});
}

void JobDirectives::add_if(const std::string& option, const Chosen& chosen) {
  if (!chosen.value.empty()) add(option, chosen);
}

void JobDirectives::add_options(const std::vector<std::string>& options, const Chosen& written) {
  for (const std::string& text : options) {
    const auto option = parse_job_option(text, from_.config().identity == "name");
    if (!option.ok()) {
      from_.problem_at(written.where, option.error().what, option.error().hint);
      continue;
    }
    const auto set = std::ranges::find_if(lines_, [&](const Directive& line) { return line.option == option->option; });
    if (set == lines_.end()) {
      add(option->option, {option->value, written.origin, written.where, written.by_user});
    } else if (option->option == "gres") {  // the GPUs and what else a node has
      const Chosen both{set->value + "," + option->value, set->origin + "; " + written.origin, written.where,
                        written.by_user};
      lines_.erase(set);
      add("gres", both);
    } else {
      from_.problem_at(written.where, "--" + option->option + " is set already", "remove it here");
    }
  }
}

void ask_for_options(const JobSources& from, JobDirectives& lines) {
  lines.add_options(from.config().ask.options, from.of_site("", "ask.options"));
  lines.add_options(from.job_class.options, from.of_site("", from.class_path("options")));
  lines.add_options(from.job().options, from.of_user("", "job.options"));
}

}  // namespace longhaul
