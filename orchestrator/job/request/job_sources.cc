#include "orchestrator/job/request/job_sources.h"

namespace longhaul {

SourcePos JobSources::site_place(const std::string& path) const {
  const auto found = site.origins.find(path);
  if (found != site.origins.end()) return found->second.where;
  return {site.files.empty() ? "site " + config().name : site.files.front(), 0, 0};
}

Chosen JobSources::of_user(const std::string& value, const std::string& key) const {
  return {value, "workflow: " + name(key), stage.place_of(key), true};
}

Chosen JobSources::of_site(const std::string& value, const std::string& path) const {
  return {value, site.origin_of(path), site_place(path), false};
}

Chosen JobSources::choose(const std::string& user, const std::string& key, const std::string& of_class,
                          const std::string& class_key, const std::string& of_all, const std::string& path) const {
  if (!user.empty()) return of_user(user, key);
  if (!of_class.empty()) return of_site(of_class, class_path(class_key));
  if (!of_all.empty()) return of_site(of_all, path);
  return {};
}

Chosen JobSources::exclusive() const {
  return choose(job().exclusive, "job.exclusive", job_class.exclusive, "exclusive", config().ask.exclusive ? "yes" : "",
                "ask.exclusive");
}

void JobSources::problem(const std::string& key, const std::string& what, const std::string& hint) const {
  problem_at(stage.place_of(key), what, hint);
}

void JobSources::problem_at(const SourcePos& where, const std::string& what, const std::string& hint) const {
  diagnostics.add(where, what, hint);
}

}  // namespace longhaul
