#include "orchestrator/scheduler/port/open_slurm_port.h"

#include <unistd.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/scheduler/port/cli_port.h"
#include "orchestrator/scheduler/port/helper_port.h"

namespace longhaul {
namespace {

// What every port is opened with.
struct PortSettings {
  const ProgramPaths& programs;
  std::int64_t deadline_ms;
  const std::string& cluster;
  const std::vector<std::string>& environment;
};

Result<OpenedSlurmPort> open_helper(const std::string& path, const PortSettings& settings) {
  if (::access(path.c_str(), X_OK) != 0)
    return make_error(ErrorCode::not_found, "there is no " + path,
                      "build it with libslurm's headers (libslurm-dev), or use slurm_backend = \"cli\"");
  HelperPort::Options options;
  options.programs = settings.programs;
  options.deadline_ms = settings.deadline_ms;
  options.cluster = settings.cluster;
  options.environment = settings.environment;
  auto port = std::make_unique<HelperPort>(path, options);
  LH_CHECK(port->start());
  const auto configuration = port->configuration();
  std::string why = "longhaul-slurm is there and fits slurmctld ";
  if (configuration.ok()) {
    why += configuration->version;
  } else if (configuration.error().code == ErrorCode::unavailable) {
    // Nothing speaks against it; a release that does not fit shows in the first request that is answered.
    why = "longhaul-slurm is there; slurmctld does not answer now, so its release is not known";
  } else {
    return configuration.error();
  }
  return OpenedSlurmPort{std::move(port), "libslurm", std::move(why),
                         configuration.ok() ? configuration->cli_filters : std::string()};
}

Result<OpenedSlurmPort> open_cli(const std::string& reason, const PortSettings& settings) {
  const auto version = CliPort::installed_version(settings.programs);
  if (!version.ok()) {
    // One that gives no answer is there: a file system or a wrapper takes its time, and it is asked again.
    const bool may_pass = version.error().code == ErrorCode::unavailable || version.error().code == ErrorCode::timeout;
    return make_error(
        may_pass ? ErrorCode::unavailable : ErrorCode::not_found, "sbatch cannot be run here: " + version.error().what,
        may_pass ? "it is there, and may answer later" : "load the site's Slurm module, or run this on a login node");
  }
  return OpenedSlurmPort{
      std::make_unique<CliPort>(settings.deadline_ms, settings.programs, settings.cluster, settings.environment), "cli",
      reason, ""};
}

// The filters of a site's command line route, default and check what people submit: jobs that do not pass them are
// others than those by hand. Where sbatch is not there, libslurm is all there is, and it is said.
Result<OpenedSlurmPort> mind_filters(OpenedSlurmPort helper, const PortSettings& settings) {
  if (helper.filters.empty()) return helper;
  const std::string found = "CliFilterPlugins=" + helper.filters;
  auto cli = open_cli(found + ": filters that sbatch asks, and libslurm would pass by", settings);
  if (!cli.ok()) {
    helper.why += "; " + found + " are passed by, for sbatch is not there";
    return helper;
  }
  cli->filters = helper.filters;
  return cli;
}

}  // namespace

Result<OpenedSlurmPort> open_slurm_port(const std::string& choice, const std::string& programs_dir,
                                        const std::map<std::string, std::string>& programs, std::int64_t deadline_ms,
                                        const std::string& cluster, const std::vector<std::string>& environment) {
  const PortSettings settings{programs, deadline_ms, cluster, environment};
  if (choice == "cli") return open_cli("slurm_backend = \"cli\"", settings);
  if (choice != "auto" && choice != "libslurm")
    return make_error(ErrorCode::invalid_input, "slurm_backend = \"" + choice + "\" is unknown",
                      "use auto, libslurm or cli");
  auto helper = open_helper(join_path(programs_dir, "longhaul-slurm"), settings);
  if (helper.ok() && choice == "auto") return mind_filters(std::move(helper).value(), settings);
  if (helper.ok() || choice == "libslurm") return helper;
  auto cli = open_cli(helper.error().what, settings);
  if (cli.ok()) return cli;
  return make_error(cli.error().code,
                    "Slurm cannot be reached from here: " + cli.error().what + "; and " + helper.error().what,
                    cli.error().hint);
}

}  // namespace longhaul
