#include "orchestrator/job/driver_text.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/job/request/sbatch_text.h"

namespace longhaul {
namespace {

constexpr double driver_job_s = 3600;       // of one driver job; the next one is queued behind it
constexpr double driver_job_margin_s = 90;  // for its end
constexpr double scrontab_margin_s = 10;    // between the end of one tick and the next
constexpr const char* disabled_mark = "#DISABLED";

bool is_for_drivers(const JobClass& one) {
  return std::find(one.kinds.begin(), one.kinds.end(), "driver") != one.kinds.end();
}

// What the driver's own jobs ask for: one core, where the site has shared nodes.
PlannedStage driver_stage(const Site& site) {
  PlannedStage stage;
  stage.stage = "driver";
  stage.kind = "command";
  stage.common.time_limit.value = driver_job_s;
  stage.common.threads = 1;
  stage.common.job.gpus_per_node = 0;
  stage.common.job.exclusive = "no";
  stage.common.job.requeue = site.config.can.requeue == "no" ? "no" : "yes";
  if (const JobClass* const own = driver_class(site)) {
    stage.common.job.job_class = own->name;
    if (own->max_wall.value > 0) stage.common.time_limit.value = std::min(driver_job_s, own->max_wall.value);
  }
  return stage;
}

struct DriverJob {
  std::vector<Directive> directives;
  double wall_s = driver_job_s;
};

Result<DriverJob> plan_driver(const Site& site) {
  Diagnostics diagnostics;
  JobPlan plan = plan_job(site, driver_stage(site), diagnostics);
  LH_CHECK(diagnostics.to_status("no job can drive the run at this site"));
  DriverJob job{std::move(plan.directives), plan.wall_s > 0 ? plan.wall_s : driver_job_s};
  // A node's whole memory is what trainings ask for; a tick needs next to nothing.
  const bool own_memory = driver_class(site) && !driver_class(site)->memory.empty();
  std::erase_if(job.directives, [&](const Directive& d) {
    return d.option == "signal" || d.option == "open-mode" || (d.option == "mem" && !own_memory);
  });
  return job;
}

std::string begin_mark(const std::string& run) {
  return "# longhaul run " + run + ": begin\n";
}
std::string end_mark(const std::string& run) {
  return "# longhaul run " + run + ": end\n";
}

// Where the marks of a run stand and what lies between them.
struct Block {
  std::size_t begin = std::string::npos, end = 0;  // of the table
  std::string lines;
};
Block find_block(const std::string& table, const std::string& run) {
  Block block;
  const std::size_t end = table.find(end_mark(run));
  block.begin = end == std::string::npos ? end : table.rfind(begin_mark(run), end);
  if (block.begin == std::string::npos) return block;
  block.end = end + end_mark(run).size();
  const std::size_t from = block.begin + begin_mark(run).size();
  block.lines = table.substr(from, end - from);
  return block;
}

std::string tick_command(const SiteConfig& site, const DriverContext& context) {
  const int minutes = std::max(1, static_cast<int>(std::lround(site.driver_interval.value / 60)));
  const double stay_s = std::min(site.driver_stay.value, minutes * 60 - scrontab_margin_s);
  return format("exec {} tick {} {}\n", shell_quote(join_path(context.programs, "longhaul")),
                shell_quote(context.run_dir),
                stay_s > 0 ? format("--for {:.0f}s", stay_s) : std::string("--until-quiet"));
}

}  // namespace

const JobClass* driver_class(const Site& site) {
  const auto& classes = site.config.classes;
  const auto own = std::find_if(classes.begin(), classes.end(), is_for_drivers);
  if (own != classes.end()) return &*own;
  if (const JobClass* const usual = site.config.find_class(site.config.default_class)) return usual;
  return classes.size() == 1 ? &classes.front() : nullptr;
}

bool has_class_for_drivers(const Site& site) {
  const JobClass* const own = driver_class(site);
  return own && is_for_drivers(*own);
}

std::string driver_class_problem(const Site& site) {
  const JobClass* const own = driver_class(site);
  if (has_class_for_drivers(site)) return {};
  const int gpus = own && own->gpus_per_node >= 0 ? own->gpus_per_node : site.config.node.gpus;
  if (gpus == 0) return {};
  const std::string whose = own ? "the class '" + own->name + "'" : "the site";
  return format("no class is for drivers, and nodes of {} have {} GPU{}", whose, gpus, gpus == 1 ? "" : "s");
}

std::string driver_job_name(const std::string& run) {
  return sbatch_job_name("lh-driver-" + run);
}

Result<std::string> driver_job_script(const Site& site, const DriverContext& context, const std::string& name,
                                      const std::function<std::string(double)>& tick_arguments) {
  LH_TRY(const DriverJob job, plan_driver(site));
  std::string text = "#!/bin/bash\n# Drives the run " + one_line(context.run) +
                     " from inside of a small job, behind which the next one is queued until the run has ended.\n";
  text += "#SBATCH --job-name=" + sbatch_job_name("lh-" + name + "-" + context.run) + "\n";
  for (const Directive& directive : job.directives) {
    LH_TRY(const std::string quoted, sbatch_quoted(directive.value));
    text += "#SBATCH --" + directive.option + (directive.value.empty() ? "" : "=" + quoted) + "\n";
  }
  text += "#SBATCH --open-mode=append\n#SBATCH --output=" +
          sbatch_file_pattern(join_path(context.run_dir, "driver/" + name + ".log")) + "\n";
  return text + format("exec {} tick {} {}\n", shell_quote(join_path(context.programs, "longhaul")),
                       shell_quote(context.run_dir), tick_arguments(job.wall_s));
}

Result<std::string> driver_job_script(const Site& site, const DriverContext& context) {
  return driver_job_script(site, context, "driver", [](double wall_s) {
    return format("--for {:.0f}s", std::max(30.0, wall_s - driver_job_margin_s));
  });
}

Result<std::string> scrontab_lines(const Site& site, const DriverContext& context) {
  if (!is_one_line(context.run_dir))
    return make_error(ErrorCode::invalid_input, "'" + one_line(context.run_dir) + "' cannot stand in a scrontab",
                      "choose a folder without line ends in its name");
  LH_TRY(const DriverJob job, plan_driver(site));
  std::string lines;
  // One core is what a job gets that does not ask for more.
  for (const Directive& directive : job.directives) {
    const char* const routing[] = {"partition", "qos", "account", "reservation", "constraint", "time"};
    if (std::find(std::begin(routing), std::end(routing), directive.option) == std::end(routing)) continue;
    LH_TRY(const std::string quoted, sbatch_quoted(directive.value));
    lines += "#SCRON --" + directive.option + (directive.value.empty() ? "" : "=" + quoted) + "\n";
  }
  lines += "#SCRON --job-name=" + sbatch_job_name("lh-tick-" + context.run) + "\n";
  lines += "#SCRON --open-mode=append\n#SCRON --output=" +
           sbatch_file_pattern(join_path(context.run_dir, "driver/tick.log")) + "\n";
  const int minutes = std::max(1, static_cast<int>(std::lround(site.config.driver_interval.value / 60)));
  const std::string every = minutes == 1 ? "*" : format("*/{}", minutes);  // scrontab refuses a step of 1
  return lines + format("{} * * * * {}\n", every, shell_quoted(context.tick_script));
}

std::string tick_script(const Site& site, const DriverContext& context, const std::string& path,
                        const std::string& slurm_conf) {
  std::string text = "#!/bin/sh\n# Ticks the run " + one_line(context.run) + "; its lines in scrontab start this.\n";
  if (!path.empty()) text += "export PATH=" + shell_quote(path) + "\n";
  if (!slurm_conf.empty()) text += "export SLURM_CONF=" + shell_quote(slurm_conf) + "\n";
  return text + tick_command(site.config, context);
}

std::string without_scrontab_lines(const std::string& table, const std::string& run) {
  const Block block = find_block(table, run);
  if (block.begin == std::string::npos) return table;
  return table.substr(0, block.begin) + table.substr(block.end);
}

std::string with_scrontab_lines(const std::string& table, const std::string& run, const std::string& lines) {
  std::string others = without_scrontab_lines(table, run);
  if (!others.empty() && !ends_with(others, "\n")) others += "\n";
  return others + begin_mark(run) + lines + end_mark(run);
}

ScrontabState scrontab_state(const std::string& table, const std::string& run, const std::string& command) {
  const Block block = find_block(table, run);
  bool active = false;
  for (const std::string& line : split(block.lines, '\n')) {
    if (starts_with(trim(line), disabled_mark)) return ScrontabState::disabled;
    if (!starts_with(trim(line), "#") && line.find(command) != std::string::npos) active = true;
  }
  return active ? ScrontabState::active : ScrontabState::absent;
}

}  // namespace longhaul
