#include "orchestrator/job/request/job_options_check.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "base/text/text.h"
#include "orchestrator/job/request/sbatch_text.h"

namespace longhaul {
namespace {

bool is_digits(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

// Options that have a key of their own -> that key; "" where only the controller may set it.
const std::map<std::string, std::string>& owned_options() {
  static const std::map<std::string, std::string> owned = {
      {"account", "job.account"},
      {"array", ""},
      {"chdir", ""},
      {"clusters", ""},
      {"comment", ""},
      {"constraint", "job.constraint"},
      {"cpus-per-task", "threads"},
      {"dependency", ""},
      {"error", ""},
      {"exclude", "job.exclude"},
      {"exclusive", "job.exclusive"},
      {"gpus", "job.gpus_per_node"},
      {"gpus-per-node", "job.gpus_per_node"},
      {"gpus-per-task", "job.gpus_per_node"},
      {"help", ""},
      {"hold", ""},
      {"input", ""},
      {"job-name", ""},
      {"kill-on-invalid-dep", ""},
      {"licenses", "job.licenses"},
      {"mem", "job.memory"},
      {"no-kill", "job.no_kill"},
      {"no-requeue", "job.requeue"},
      {"nodes", "nodes"},
      {"ntasks", "ranks"},
      {"ntasks-per-node", "job.ranks_per_node"},
      {"open-mode", ""},
      {"output", ""},
      {"parsable", ""},
      {"partition", "job.partition"},
      {"qos", "job.qos"},
      {"quiet", ""},
      {"requeue", "job.requeue"},
      {"reservation", "job.reservation"},
      {"segment", "job.segment"},
      {"signal", "job.stop_before"},
      {"switches", "job.switches"},
      {"test-only", ""},
      {"time", "time_limit"},
      {"uid", ""},
      {"gid", ""},
      {"usage", ""},
      {"version", ""},
      {"wait", ""},
      {"wrap", ""},
  };
  return owned;
}

bool is_option_name(const std::string& name) {
  return !name.empty() && std::islower(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '-' || c == '_'; });
}

}  // namespace

Result<Directive> parse_job_option(const std::string& text, bool own_comments) {
  const std::size_t equals = text.find('=');
  const std::string name =
      starts_with(text, "--") ? text.substr(2, equals == std::string::npos ? equals : equals - 2) : "";
  if (!is_option_name(name))
    return make_error(ErrorCode::invalid_input, "'" + one_line(text) + "' is not an sbatch option",
                      "write \"--name=value\" or \"--name\", with the long name");
  const auto owned = owned_options().find(name);
  if (owned != owned_options().end() && !(own_comments && name == "comment"))
    return make_error(ErrorCode::invalid_input, "--" + name + " cannot be set by options",
                      name == "comment" ? "it is set for every job by the controller, unless site.identity is \"name\""
                      : owned->second.empty() ? "it is set for every job by the controller"
                                              : "use " + owned->second);
  std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (const auto quoted = sbatch_quoted(value); !quoted.ok()) return quoted.error().with_context("--" + name);
  if (equals != std::string::npos && value.empty())
    return make_error(ErrorCode::invalid_input, "--" + name + "= has no value", "write a value, or leave '=' away");
  return Directive{name, std::move(value), ""};
}

bool is_slurm_memory(const std::string& text) {
  if (text.empty()) return false;
  const bool unit = std::string("KMGT").find(text.back()) != std::string::npos;
  return is_digits(unit ? text.substr(0, text.size() - 1) : text) && text.size() <= 16;
}

bool is_slurm_switches(const std::string& text) {
  const std::size_t at = text.find('@');
  if (!is_digits(text.substr(0, at))) return false;
  if (at == std::string::npos) return true;
  const std::string wait = text.substr(at + 1);
  return !wait.empty() &&
         std::all_of(wait.begin(), wait.end(), [](unsigned char c) { return std::isdigit(c) || c == ':' || c == '-'; });
}

bool is_module_name(const std::string& text) {
  return !text.empty() && text.size() <= 200 && text[0] != '-' && is_one_line(text) &&
         std::none_of(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c); });
}

Status check_variable(const std::string& name, const std::string& value) {
  const bool named =
      !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return (std::isalnum(c) && c < 128) || c == '_'; });
  if (!named)
    return make_error(ErrorCode::invalid_input, "'" + one_line(name) + "' cannot name a variable",
                      "use letters, digits and '_', no digit first");
  for (const char* prefix : {"SLURM_", "SBATCH_", "LONGHAUL_"})
    if (starts_with(name, prefix))
      return make_error(ErrorCode::invalid_input, "the variable " + name + " cannot be set here",
                        std::string(prefix) + "* belongs to the programs that start the job");
  if (value.find('\0') != std::string::npos)
    return make_error(ErrorCode::invalid_input, "the value of " + name + " holds a zero byte", "remove it");
  return {};
}

std::vector<std::string> module_loader() {
  return {
      "load_module() {",
      "  loaded_before=${LOADEDMODULES-}",
      "  module load \"$1\" || return 1",
      "  # Lmod, and Tcl modules from 4 on, say by their exit status what came of it; older ones answer 0 in any case.",
      "  if [ -n \"${LMOD_VERSION-}${MODULES_CMD-}\" ] || [ -z \"${LOADEDMODULES+set}\" ]; then return 0; fi",
      "  case \":$LOADEDMODULES:\" in *\":$1:\"* | *\":$1/\"*) return 0 ;; esac",
      "  [ \"$LOADEDMODULES\" != \"$loaded_before\" ]",
      "}",
  };
}

std::vector<std::string> module_preamble() {
  std::vector<std::string> lines = module_loader();
  const std::vector<std::string> rest = {
      "no_module() {",
      "  echo \"longhaul: module load $1 failed on $(hostname); try: module avail ${1%%/*}\" >&2",
      "  exit 71",
      "}",
      "set +eu  # profiles and modules use variables that may be unset",
      "if ! command -v module >/dev/null; then",
      "  # shellcheck source=/dev/null",
      "  . /etc/profile",
      "fi",
      "if ! command -v module >/dev/null; then",
      "  echo \"longhaul: $(hostname) has no module command; take the modules from the site file or the stage\" >&2",
      "  exit 71",
      "fi",
  };
  lines.insert(lines.end(), rest.begin(), rest.end());
  return lines;
}

}  // namespace longhaul
