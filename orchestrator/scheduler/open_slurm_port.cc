#include "orchestrator/scheduler/open_slurm_port.h"

#include <unistd.h>

#include "base/files.h"
#include "base/text.h"
#include "orchestrator/scheduler/cli_port.h"
#include "orchestrator/scheduler/helper_port.h"

namespace longhaul {
namespace {

Result<OpenedSlurmPort> open_helper(const std::string& path, const ProgramPaths& programs, std::int64_t deadline_ms,
                                    const std::string& cluster) {
  if (::access(path.c_str(), X_OK) != 0)
    return make_error(ErrorCode::not_found, "there is no " + path,
                      "build it with libslurm's headers (libslurm-dev), or use slurm_backend = \"cli\"");
  HelperPort::Options options;
  options.programs = programs;
  options.deadline_ms = deadline_ms;
  options.cluster = cluster;
  auto port = std::make_unique<HelperPort>(path, options);
  LH_CHECK(port->start());
  const auto configuration = port->configuration();
  std::string why = "longhaul-slurm is there and fits slurmctld ";
  if (configuration.ok()) {
    why += configuration->version;
  } else if (configuration.error().code == ErrorCode::unavailable) {
    // Nothing speaks against it; a release that does not fit is told by the first request that is answered.
    why = "longhaul-slurm is there; slurmctld does not answer now, so its release is not known";
  } else {
    return configuration.error();
  }
  return OpenedSlurmPort{std::move(port), "libslurm", std::move(why)};
}

Result<OpenedSlurmPort> open_cli(const std::string& reason, const ProgramPaths& programs, std::int64_t deadline_ms,
                                 const std::string& cluster) {
  const auto version = CliPort::installed_version(programs);
  if (!version.ok())
    return make_error(ErrorCode::not_found, "sbatch cannot be run here: " + version.error().what,
                      "load the site's Slurm module, or run this on a login node");
  return OpenedSlurmPort{std::make_unique<CliPort>(deadline_ms, programs, cluster), "cli", reason};
}

}  // namespace

Result<OpenedSlurmPort> open_slurm_port(const std::string& choice, const std::string& programs_dir,
                                        const std::map<std::string, std::string>& programs, std::int64_t deadline_ms,
                                        const std::string& cluster) {
  if (choice == "cli") return open_cli("slurm_backend = \"cli\"", programs, deadline_ms, cluster);
  if (choice != "auto" && choice != "libslurm")
    return make_error(ErrorCode::invalid_input, "slurm_backend = \"" + choice + "\" is unknown",
                      "use auto, libslurm or cli");
  auto helper = open_helper(join_path(programs_dir, "longhaul-slurm"), programs, deadline_ms, cluster);
  if (helper.ok() || choice == "libslurm") return helper;
  auto cli = open_cli(helper.error().what, programs, deadline_ms, cluster);
  if (cli.ok()) return cli;
  return make_error(ErrorCode::not_found,
                    "Slurm cannot be reached from here: " + cli.error().what + "; and " + helper.error().what,
                    cli.error().hint);
}

}  // namespace longhaul
