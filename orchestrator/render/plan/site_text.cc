#include "orchestrator/render/plan/site_text.h"

#include <algorithm>

#include "base/text/text.h"
#include "base/toml.h"
#include "orchestrator/render/draw/text_table.h"

namespace longhaul {
namespace {

std::string value_text(const Value& value) {
  Value holder = Value::make_table();
  holder.set("x", value);
  return trim(to_toml(holder).substr(3));
}

std::string note_of(const ValueOrigin& origin) {
  if (!origin.verified) return "UNVERIFIED";
  return origin.source.empty() || origin.read_on.empty() ? origin.source : origin.source + "; read " + origin.read_on;
}

// Values that somebody said, or all: path -> value, in the order of the schema.
std::vector<std::pair<std::string, const Value*>> shown_values(const Site& site, bool with_defaults) {
  std::vector<std::pair<std::string, const Value*>> shown;
  for (const auto& [path, value] : leaves_of(site.values))
    if (!starts_with(path, "origins.") && (with_defaults || site.origins.count(path) > 0))
      shown.emplace_back(path, value);
  return shown;
}

}  // namespace

std::string site_text(const Site& site, bool with_defaults) {
  std::vector<std::vector<std::string>> rows = {{"key", "value", "said by", "source"}};
  int unverified = 0;
  for (const auto& [path, value] : shown_values(site, with_defaults)) {
    const auto origin = site.origins.find(path);
    if (origin == site.origins.end()) {
      rows.push_back({path, clipped(value_text(*value), 60), "default", ""});
      continue;
    }
    if (!origin->second.verified) ++unverified;
    rows.push_back(
        {path, clipped(value_text(origin->second.written), 60), origin->second.site, note_of(origin->second)});
  }
  std::string out = site.config.name + ": " + site.config.description + "\n";
  for (const std::string& file : site.files) out += "  " + file + "\n";
  out += "\n" + text_table(rows);
  if (unverified > 0)
    out += format("\n{} value{} nobody has checked; longhaul doctor --site {} compares with the cluster\n", unverified,
                  unverified == 1 ? "" : "s", shell_quoted(site.config.name));
  return out;
}

Value site_value(const Site& site) {
  Value document = Value::make_table();
  document.set("name", site.config.name);
  document.set("files", ValueArray(site.files.begin(), site.files.end()));
  Value& values = document.set("values", Value::make_array());
  for (const auto& [path, value] : shown_values(site, true)) {
    Value one = Value::make_table();
    one.set("key", path);
    one.set("value", *value);
    const auto origin = site.origins.find(path);
    one.set("site", origin == site.origins.end() ? "default" : origin->second.site);
    if (origin != site.origins.end()) {
      one.set("source", origin->second.source);
      if (!origin->second.read_on.empty()) one.set("read_on", origin->second.read_on);
      one.set("verified", origin->second.verified);
    }
    values.push_back(std::move(one));
  }
  return document;
}

std::vector<std::string> site_row_header() {
  return {"site", "scheduler", "a node", "classes", "unverified", "description"};
}

std::vector<std::string> site_row(const Site& site) {
  const NodeShape& node = site.config.node;
  std::vector<std::string> classes;
  for (const JobClass& one : site.config.classes) classes.push_back(one.name);
  const auto unverified = std::count_if(site.origins.begin(), site.origins.end(),
                                        [](const auto& origin) { return !origin.second.verified; });
  std::string shape = node.cores > 0 ? format("{} cores", node.cores) : "";
  if (node.gpus > 0) shape += (shape.empty() ? "" : ", ") + format("{} GPUs", node.gpus);
  return {site.config.name,
          site.config.scheduler,
          shape.empty() ? "-" : shape,
          classes.empty() ? "-" : join(classes, " "),
          std::to_string(unverified),
          site.config.description};
}

}  // namespace longhaul
