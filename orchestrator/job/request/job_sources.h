// Room orchestrator/job/request
// What one job asks a site's scheduler for: sizes, time, directives, each with the place where it was decided.
// job_sources.h is where values come from; job_shape.h and job_length.h are numbers, job_directives.h the lines.
// job_class.h, job_wall.h, stage_wall.h and step_plan.h choose; sbatch_text.h and job_options_check.h know sbatch.
// It writes no script and knows no run folder: the same site and stage ask for the same, everywhere.
//
// Where the values of one job come from: the stage's own, its class's, the site's; in that order of precedence. The one
// place that knows how the origin of a value is named to people and where its problem is reported.
#pragma once

#include <string>

#include "base/error/diagnostics.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// A value with the place it was decided at.
struct Chosen {
  std::string value, origin;
  SourcePos where;
  bool by_user = false;
};

// Borrows all but the class.
struct JobSources {
  const Site& site;
  const PlannedStage& stage;
  JobClass job_class;  // of the site; one without a name: none
  Diagnostics& diagnostics;

  const SiteConfig& config() const { return site.config; }
  const JobOptions& job() const { return stage.common.job; }

  std::string name(const std::string& key) const { return "stage." + stage.stage + "." + key; }
  std::string class_path(const std::string& key) const { return "classes." + job_class.name + "." + key; }
  std::string site_text() const { return "site '" + config().name + "'"; }
  SourcePos site_place(const std::string& path) const;

  Chosen of_user(const std::string& value, const std::string& key) const;
  Chosen of_site(const std::string& value, const std::string& path) const;
  // The stage's value, else its class's, else the site's; an empty one is none.
  Chosen choose(const std::string& user, const std::string& key, const std::string& of_class,
                const std::string& class_key, const std::string& of_all = {}, const std::string& path = {}) const;
  // "yes" where the job wants whole nodes.
  Chosen exclusive() const;

  // At the key of the stage, or at any place.
  void problem(const std::string& key, const std::string& what, const std::string& hint) const;
  void problem_at(const SourcePos& where, const std::string& what, const std::string& hint) const;
};

}  // namespace longhaul
