#include "orchestrator/site/site_config.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "contracts/settings/job/port_range.h"
#include "orchestrator/site/verified_values.h"

namespace longhaul {
namespace {

constexpr int inheritance_max = 8;

// A file of that name here, a name that is nearly it, or names that begin so.
std::string unknown_site_hint(const std::string& name, const std::vector<std::string>& folders) {
  const std::string file = name + ".toml";
  if (file_exists(file)) return "a site file is named by its path: --site ./" + file;
  const std::vector<std::string> known = site_names(folders);
  std::vector<std::string> meant;
  if (const std::string nearest = nearest_word(name, known); !nearest.empty()) meant.push_back(nearest);
  if (meant.empty())
    std::copy_if(known.begin(), known.end(), std::back_inserter(meant),
                 [&](const std::string& one) { return !name.empty() && starts_with(one, name + "-"); });
  return (meant.empty() ? "" : "did you mean '" + join(meant, "' or '") + "'? ") + "known sites: " + join(known, ", ");
}

Result<std::string> find_site_file(const std::string& name, const std::vector<std::string>& folders) {
  if (name.find('/') != std::string::npos && !ends_with(name, ".toml"))
    return make_error(ErrorCode::invalid_input, "'" + name + "' cannot name a site",
                      "write the name of a site, or the path of a file that ends with .toml");
  if (ends_with(name, ".toml")) {
    if (!file_exists(name)) return make_error(ErrorCode::not_found, "site file " + name + " does not exist");
    return name;
  }
  for (const std::string& folder : folders) {
    const std::string path = join_path(folder, name + ".toml");
    if (file_exists(path)) return path;
  }
  if (name == "local") return std::string();
  return make_error(ErrorCode::not_found, "there is no site '" + name + "'", unknown_site_hint(name, folders));
}

// Relative paths of a site file start at its folder.
void anchor_paths(Value& table, const std::string& folder) {
  for (const char* key : {"data", "runs", "artifacts", "constants"}) {
    Value* value = table.find(key);
    if (!value || !value->is_string() || value->as_string().empty() || starts_with(value->as_string(), "/")) continue;
    const SourcePos where = value->pos;
    *value = Value(absolute_path(join_path(folder, value->as_string())));
    value->pos = where;
  }
}

void collect_leaves(const Value& table, const std::string& prefix,
                    std::vector<std::pair<std::string, const Value*>>& out) {
  for (const ValueMember& member : table.as_table()) {
    const std::string path = prefix.empty() ? member.key : prefix + "." + member.key;
    if (member.value.is_table())
      collect_leaves(member.value, path, out);
    else
      out.emplace_back(path, &member.value);
  }
}

// How much of `path` the key `said` names: its length if it is the path or a table above it, 0 if it is neither.
std::size_t covers(const std::string& said, const std::string& path) {
  if (said == path || (starts_with(path, said) && path[said.size()] == '.')) return said.size();
  return 0;
}

// One file, or the command line, as a layer of a site.
struct Layer {
  std::string name;
  Value table;       // without the keys about the file itself
  Value sources;     // path -> text
  Value read_on;     // text: when the sources were read
  Value unverified;  // list of paths
  Value verified;    // path -> what a job has found (verified_values.h)
  Value origins;     // of a frozen site: path -> "site" or "site: source" or "site (unverified)"
};

Value take(Value& table, const char* key) {
  const Value* found = table.find(key);
  Value taken = found ? *found : Value();
  table.erase(key);
  return taken;
}

// "2026-11-27" or "2026-11".
bool is_date(const std::string& text) {
  const std::string form = "dddd-dd-dd";
  if (text.size() != 7 && text.size() != 10) return false;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i]) return false;
  return true;
}

void check_meta(const Layer& layer, Diagnostics& diagnostics) {
  if (!layer.sources.is_null() && !layer.sources.is_table())
    diagnostics.add(layer.sources.pos,
                    "site.sources is " + std::string(layer.sources.kind_name()) + ", expected a table",
                    "write [sources] with \"classes.prod.max_wall\" = \"where you read it\"");
  if (!layer.read_on.is_null() && !(layer.read_on.is_string() && is_date(layer.read_on.as_string())))
    diagnostics.add(layer.read_on.pos, "site.read_on is no date of the form 2026-11-27 or 2026-11",
                    "write in quotes when the sources were read");
  if (!layer.unverified.is_null() && !layer.unverified.is_array())
    diagnostics.add(layer.unverified.pos,
                    "site.unverified is " + std::string(layer.unverified.kind_name()) + ", expected a list of text");
}

ValueOrigin origin_in(const Layer& layer, const std::string& path, const Value& written) {
  ValueOrigin origin{layer.name, written.pos, "", "", true, written};
  if (layer.read_on.is_string()) origin.read_on = layer.read_on.as_string();
  std::size_t best = 0;
  if (layer.sources.is_table())
    for (const ValueMember& member : layer.sources.as_table())
      if (const std::size_t length = covers(member.key, path); length > best && member.value.is_string()) {
        best = length;
        origin.source = member.value.as_string();
      }
  if (layer.unverified.is_array())
    for (const Value& said : layer.unverified.as_array())
      if (said.is_string() && covers(said.as_string(), path) >= std::max<std::size_t>(best, 1)) origin.verified = false;
  if (layer.origins.is_table())
    if (const Value* frozen = layer.origins.find(path); frozen && frozen->is_table()) {
      origin.site = frozen->get_string("site");
      origin.source = frozen->get_string("source");
      origin.read_on = frozen->get_string("read_on");
      origin.verified = frozen->get_bool("verified", true);
    }
  return origin;
}

// Adds what `merged` does not say yet, and where it stands.
void merge_layer(Value& merged, const Value& below, const Layer& layer, const std::string& prefix, Site& site) {
  for (const ValueMember& member : below.as_table()) {
    const std::string path = prefix.empty() ? member.key : prefix + "." + member.key;
    Value* own = merged.find(member.key);
    if (!own) {
      ValueMember added = member;
      if (member.value.is_table()) {
        added.value = Value::make_table();
        added.value.pos = member.value.pos;
      }
      merged.as_table().push_back(std::move(added));
      own = &merged.as_table().back().value;
      if (!member.value.is_table()) {
        // A frozen site holds defaults too; they have no origin there.
        if (!layer.origins.is_table() || layer.origins.find(path))
          site.origins[path] = origin_in(layer, path, member.value);
        continue;
      }
    }
    if (own->is_table() && member.value.is_table()) merge_layer(*own, member.value, layer, path, site);
  }
}

const Value* at_path(const Value& table, const std::string& path) {
  const Value* at = &table;
  for (const std::string& key : split(path, '.'))
    if (!at || !(at = at->find(key))) return nullptr;
  return at;
}

Value& made_at_path(Value& table, const std::string& path) {
  Value* at = &table;
  for (const std::string& key : split(path, '.')) {
    Value* below = at->find(key);
    at = below ? below : &at->set(key, Value());
  }
  return *at;
}

// A file says where to write it now; a run that an earlier version froze keeps its value.
void move_old_keys(Layer& layer, Diagnostics& diagnostics) {
  for (const MovedKey& key : moved_site_keys()) {
    const std::size_t dot = key.was.find('.');
    const std::string name = key.was.substr(dot + 1);
    Value* table = layer.table.find(key.was.substr(0, dot));
    const Value* found = table != nullptr && table->is_table() ? table->find(name) : nullptr;
    if (found == nullptr) continue;
    if (layer.origins.is_table())
      made_at_path(layer.table, key.is) = *found;
    else
      diagnostics.add(found->pos, "site." + key.was + " decides nothing and has moved: it is site." + key.is + " now",
                      "write " + name + " below [facts]");
    table = layer.table.find(key.was.substr(0, dot));
    table->erase(name);
  }
}

// After all files: the nearest that reports a value counts.
void take_verified(const Layer& layer, Value& merged, Site& site, Diagnostics& diagnostics) {
  for (const VerifiedValue& one : verified_values(layer.verified, diagnostics)) {
    const Value* said = at_path(merged, one.key);
    if (said && !(*said == one.value)) continue;
    const auto known = site.origins.find(one.key);
    if (known != site.origins.end() && known->second.verified && !known->second.source.empty()) continue;
    if (!said) {
      Value& made = made_at_path(merged, one.key);
      made = one.value;
      made.pos = one.where;
    }
    ValueOrigin& origin = site.origins[one.key];
    if (!said) origin.site = layer.name, origin.where = one.where, origin.written = one.value;
    origin.source = one.source(), origin.verified = true;
  }
}

// "account=me" as TOML has it; what is TOML already, or no plain word, stays as it is.
std::string with_quotes(const std::string& set) {
  const std::size_t equals = set.find('=');
  if (equals == std::string::npos || parse_toml(set + "\n", "").ok()) return set;
  const std::string word = trim(set.substr(equals + 1));
  const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '/';
  });
  return is_plain ? set.substr(0, equals + 1) + "\"" + word + "\"" : set;
}

Result<Layer> override_layer(const std::vector<std::string>& sets) {
  Layer layer;
  layer.name = "--set";
  std::string text;
  for (const std::string& given : sets) {
    const std::string set = with_quotes(given);
    if (auto one = parse_toml(set + "\n", "--set site." + set); !one.ok() || one->size() != 1)
      return make_error(ErrorCode::invalid_input, "--set site." + set + " is not KEY=VALUE with a TOML value",
                        "text needs quotes: --set 'site.account=\"name\"'");
    text += set + "\n";
  }
  LH_TRY(layer.table, parse_toml(text, "--set site"));
  return layer;
}

Value origins_value(const Site& site) {
  Value table = Value::make_table();
  for (const auto& [path, origin] : site.origins) {
    Value one = Value::make_table();
    one.set("site", origin.site);
    if (!origin.source.empty()) one.set("source", origin.source);
    if (!origin.read_on.empty()) one.set("read_on", origin.read_on);
    if (!origin.verified) one.set("verified", false);
    table.set(path, std::move(one));
  }
  return table;
}

std::vector<JobClass> read_classes(const Value& merged, Diagnostics& diagnostics) {
  std::vector<JobClass> classes;
  const Value* table = merged.find("classes");
  if (!table) return classes;
  if (!table->is_table()) {
    diagnostics.add(table->pos, "site.classes is " + std::string(table->kind_name()) + ", expected a table",
                    "write [classes.NAME]");
    return classes;
  }
  for (const ValueMember& member : table->as_table()) {
    if (!member.value.is_table()) {
      diagnostics.add(member.value.pos,
                      "site.classes." + member.key + " is " + member.value.kind_name() + ", expected a table");
      continue;
    }
    JobClass one = job_class_fields().parse(member.value, "site.classes." + member.key, diagnostics);
    one.name = member.key;
    classes.push_back(std::move(one));
  }
  return classes;
}

void check_names(const SiteConfig& config, const Value& merged, Diagnostics& diagnostics) {
  if (config.default_class.empty() || config.find_class(config.default_class)) return;
  std::vector<std::string> names;
  for (const JobClass& one : config.classes) names.push_back(one.name);
  diagnostics.add(merged.find("default_class")->pos, "there is no class '" + config.default_class + "'",
                  names.empty() ? "add [classes." + config.default_class + "]" : "classes: " + join(names, ", "));
}

void check_access(const SiteConfig& config, const Value& merged, Diagnostics& diagnostics) {
  if (!config.is_private || (config.group.empty() && config.readers.empty())) return;
  const char* other = config.group.empty() ? "readers" : "group";
  diagnostics.add(merged.find("private")->pos, format("private = true, and {} names who else may read", other),
                  "leave one of the two out");
}

void check_ports(const SiteConfig& config, const Value& merged, Diagnostics& diagnostics) {
  const auto ports = parse_port_range(config.network.ports);
  const Value* network = merged.find("network");
  const Value* written = network && network->is_table() ? network->find("ports") : nullptr;
  if (!ports.ok() && written) diagnostics.add(written->pos, "network.ports: " + ports.error().what, ports.error().hint);
}

// [programs]: known names, and paths that do not depend on where one stands.
void check_program_paths(const Value& programs, Diagnostics& diagnostics) {
  static const std::set<std::string> known = {"sbatch", "squeue", "sacct", "scontrol", "scancel", "scrontab", "lfs"};
  for (const ValueMember& member : programs.as_table()) {
    if (!known.contains(member.key))
      diagnostics.add(member.value.pos,
                      "programs." + member.key + " is none of the programs that are started by name here",
                      "known: " + join({known.begin(), known.end()}, ", "));
    else if (member.value.is_string() && !starts_with(member.value.as_string(), "/"))
      diagnostics.add(member.value.pos,
                      format("programs.{} = \"{}\" is no absolute path", member.key, member.value.as_string()),
                      "write the path that `command -v " + member.key + "` prints");
  }
}

// It stands behind --mpi= on a command line; which values there are knows srun.
void check_mpi_name(const std::string& mpi, const Value& launcher, Diagnostics& diagnostics) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == '+'; };
  const Value* said = launcher.find("mpi");
  if (said && (mpi.empty() || !std::all_of(mpi.begin(), mpi.end(), fits)))
    diagnostics.add(said->pos, "launcher.mpi = \"" + mpi + "\" is no name of a plugin",
                    "one of those that `srun --mpi=list` prints, such as \"pmix\", or \"none\"");
}

Status read_layers(const std::string& name, const std::vector<std::string>& folders, std::vector<Layer>& layers,
                   Site& site) {
  std::string next = name;
  while (!next.empty()) {
    LH_TRY(const std::string path, find_site_file(next, folders));
    if (path.empty()) break;  // "local" without a file
    if (std::find(site.files.begin(), site.files.end(), path) != site.files.end() ||
        site.files.size() >= inheritance_max)
      return make_error(ErrorCode::invalid_input, "site '" + name + "' inherits in a circle",
                        join(site.files, " -> ") + " -> " + path);
    site.files.push_back(path);
    Layer layer;
    LH_TRY(layer.table, read_toml_file(path));
    next = layer.table.get_string("inherits");
    if (ends_with(next, ".toml") && !starts_with(next, "/")) next = join_path(parent_path(path), next);
    layer.table.erase("inherits");
    layer.sources = take(layer.table, "sources");
    layer.read_on = take(layer.table, "read_on");
    layer.unverified = take(layer.table, "unverified");
    layer.verified = take(layer.table, "verified");
    layer.origins = take(layer.table, "origins");
    layer.name = file_name(path).substr(0, file_name(path).rfind(".toml"));
    if (const std::string own = layer.table.get_string("name"); !own.empty())
      layer.name = own;
    else
      layer.table.set("name", layer.name);
    anchor_paths(layer.table, absolute_path(parent_path(path)));
    layers.push_back(std::move(layer));
  }
  return {};
}

}  // namespace

std::vector<std::pair<std::string, const Value*>> leaves_of(const Value& table) {
  std::vector<std::pair<std::string, const Value*>> leaves;
  collect_leaves(table, "", leaves);
  return leaves;
}

std::vector<std::string> site_names(const std::vector<std::string>& folders) {
  std::set<std::string> names = {"local"};
  for (const std::string& folder : folders)
    if (const auto files = list_directory(folder); files.ok())
      for (const std::string& file : *files)
        if (ends_with(file, ".toml")) names.insert(file.substr(0, file.size() - 5));
  return {names.begin(), names.end()};
}

std::string Site::origin_of(const std::string& path) const {
  const auto found = origins.find(path);
  if (found == origins.end()) return "default: " + path;
  const std::string& from = found->second.site;
  if (from == "--set") return "--set site: " + path;
  return (starts_with(from, "driver ") || from == "slurmctld" ? from : "site " + from) + ": " + path;
}

void Site::set_derived(const std::string& path, Value value, const std::string& from, const std::string& source) {
  Value* at = &values;
  const std::vector<std::string> keys = split(path, '.');
  for (std::size_t i = 0; i + 1 < keys.size(); ++i) {
    Value* below = at->find(keys[i]);
    at = below ? below : &at->set(keys[i], Value::make_table());
  }
  at->set(keys.back(), value);
  origins[path] = {from, {}, source, "", true, std::move(value)};
  values.set("origins", origins_value(*this));
}

Result<Site> load_site(const std::string& name, const std::vector<std::string>& folders,
                       const std::vector<std::string>& sets) {
  Site site;
  std::vector<Layer> layers;
  if (!sets.empty()) {
    LH_TRY(Layer asked, override_layer(sets));
    layers.push_back(std::move(asked));
  }
  LH_CHECK(read_layers(name, folders, layers, site));
  Diagnostics diagnostics;
  Value merged = Value::make_table();
  for (Layer& layer : layers) {
    check_meta(layer, diagnostics);
    move_old_keys(layer, diagnostics);
    merge_layer(merged, layer.table, layer, "", site);
  }
  for (const Layer& layer : layers) take_verified(layer, merged, site, diagnostics);
  site.config = site_fields().parse(merged, "site", diagnostics, {"classes", "sources", "unverified", "inherits"});
  site.config.classes = read_classes(merged, diagnostics);
  if (const Value* notify = merged.find("notify")) check_notify(site.config.notify, notify->pos, diagnostics);
  if (const Value* launcher = merged.find("launcher"); launcher && launcher->is_table())
    check_mpi_name(site.config.launcher.mpi, *launcher, diagnostics);
  if (const Value* programs = merged.find("programs"); programs && programs->is_table())
    check_program_paths(*programs, diagnostics);
  if (const Value* faults = merged.find("faults")) check_fault_commands(site.config.faults, *faults, diagnostics);
  if (diagnostics.empty()) check_names(site.config, merged, diagnostics);
  check_ports(site.config, merged, diagnostics);
  if (diagnostics.empty()) check_access(site.config, merged, diagnostics);
  if (const Value* notify = merged.find("notify")) check_notify(site.config.notify, notify->pos, diagnostics);
  LH_CHECK(diagnostics.to_status(""));
  site.values = site_fields().to_value(site.config);
  if (!site.config.classes.empty()) {
    Value classes = Value::make_table();
    for (const JobClass& one : site.config.classes) classes.set(one.name, job_class_fields().to_value(one));
    site.values.set("classes", std::move(classes));
  }
  if (!site.origins.empty()) site.values.set("origins", origins_value(site));
  return site;
}

}  // namespace longhaul
