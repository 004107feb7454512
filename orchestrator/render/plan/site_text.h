// A site for people: its values with where each comes from.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/site/site_config.h"

namespace longhaul {

// One line each: key, value, the file that says it, and its source, "nobody has checked it", or "default".
// `with_defaults`: also what no file says.
std::string site_text(const Site& site, bool with_defaults);
Value site_value(const Site& site);

// One line of the list of sites: name, scheduler, nodes, classes, how many values are unverified, description.
std::vector<std::string> site_row(const Site& site);
std::vector<std::string> site_row_header();

}  // namespace longhaul
