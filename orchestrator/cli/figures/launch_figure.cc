// Commands are those of the functions that a job's plan and script come from; deadlines are those of a training
// whose settings are the defaults, by the hierarchy that `longhaul plan` holds them against.
#include <algorithm>

#include "base/text/text.h"
#include "contracts/control/control_times.h"
#include "contracts/settings/job/resiliency.h"
#include "orchestrator/cli/figures/code_figures.h"
#include "orchestrator/cli/figures/figure_page.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/job/launcher_arguments.h"
#include "orchestrator/job/request/step_plan.h"
#include "orchestrator/site/submission_times.h"
#include "resiliency/stage_timeouts.h"
#include "resiliency/timeout_hierarchy.h"

namespace longhaul {
namespace {

constexpr int hosts_x = 250, host_width = 230, host_gap = 16;
constexpr int lead_y = 92, agent_y = 196, ranks_y = 290, hosts_end = 362;

// Two nodes with ranks and a spare one.
JobPlan three_node_job() {
  JobPlan plan;
  plan.nodes = 2, plan.spares = 1, plan.ranks = 8, plan.ranks_per_node = 4, plan.cpus_per_rank = 16;
  const SiteConfig site;
  plan.launcher = rank_launcher(plan, site, true);
  plan.agent_launcher = agent_launcher(plan.nodes + plan.spares, site, plan.gpus_per_node);
  return plan;
}

TimeoutHierarchy default_deadlines() {
  TimeoutHierarchy all = hierarchy_of(resiliency_for({}, "pretrain"), "pretrain");
  all.submission = {seconds_of(submission_deadline_ms), "submit_deadline"};
  all.settle.seconds = seconds_of(in_flight_ms);
  all.driver_silent.seconds = seconds_of(driver_silence_ms);
  return all;
}

int host_x(int host) {
  return hosts_x + host * (host_width + host_gap) + 12;
}

void draw_host_ranks(FigurePage& page, const JobPlan& plan, int host) {
  constexpr int cell = 46;
  page.box("box", host_x(host) + 8, ranks_y, 212, 62);
  for (int i = 0; i < plan.ranks_per_node; ++i) {
    const int x = host_x(host) + 14 + i * (cell + 3);
    page.box("box c0", x, ranks_y + 26, cell, 26);
    page.text("middle", x + cell / 2, ranks_y + 43, std::to_string(host * plan.ranks_per_node + i));
  }
  page.text("name", host_x(host) + 14, ranks_y + 16, "ranks");
}

void draw_job_host(FigurePage& page, const JobPlan& plan, int host) {
  const int x = host_x(host);
  const bool spare = host >= plan.nodes;
  page.box("panel", x, 66, host_width, hosts_end - 66);
  page.text("small", x + 14, 84,
            format("host {}{}", host + 1,
                   spare       ? ": a spare"
                   : host == 1 ? ": of the standby"
                               : ""));
  page.box("box c1", x + 14, agent_y, 118, 36);
  page.text("name", x + 26, agent_y + 23, "agent");
  if (!spare) draw_host_ranks(page, plan, host);
}

// What the lead starts: agents (2) and ranks (3); what reports to it: pages (4), agents (5).
void draw_arrows(FigurePage& page, const JobPlan& plan) {
  constexpr int bus_y = lead_y + 20, reports_y = 168;
  constexpr int agent_dx = 40, report_dx = 100, ranks_dx = 190;
  const int hosts = plan.nodes + plan.spares;
  page.line("", host_x(0) + 186, bus_y, host_x(hosts - 1) + agent_dx, bus_y);
  page.line("dashed", host_x(0) + report_dx, reports_y, host_x(hosts - 1) + report_dx, reports_y);
  for (int host = 0; host < hosts; ++host) {
    const int x = host_x(host), from = host == 0 ? lead_y + 40 : bus_y;
    page.arrow("", x + agent_dx, from, x + agent_dx, agent_y);
    page.text("name", x + agent_dx + 6, agent_y - 8, "2");
    page.line("dashed", x + report_dx, agent_y, x + report_dx, reports_y);
    page.text("name", x + report_dx + 6, agent_y - 8, "5");
    if (host >= plan.nodes) continue;
    page.arrow("", x + ranks_dx, host == 0 ? lead_y + 40 : bus_y, x + ranks_dx, ranks_y);
    page.text("name", x + ranks_dx + 6, ranks_y - 8, "3");
    page.arrow("dashed", x + report_dx, ranks_y, x + report_dx, agent_y + 36);
    page.text("name", x + report_dx + 6, ranks_y - 20, "4");
  }
  page.arrow("dashed", host_x(0) + report_dx, reports_y, host_x(0) + report_dx, lead_y + 40);
}

void draw_control(FigurePage& page) {
  page.box("box c2", figure_left, lead_y - 12, 180, 64);
  page.text("name", figure_left + 12, lead_y + 10, "longhaul");
  page.text("small", figure_left + 12, lead_y + 28, "the controller's round, on a");
  page.text("small", figure_left + 12, lead_y + 42, "login node or inside a job");
  page.box("box c4", host_x(0) + 14, lead_y, 172, 40);
  page.text("name", host_x(0) + 26, lead_y + 25, "lead");
  page.arrow("", figure_left + 180, lead_y + 20, host_x(0) + 14, lead_y + 20);
  page.text("name", figure_left + 200, lead_y + 14, "1");
}

// The line by which a job's script becomes the lead.
std::string lead_line(const JobPlan& plan) {
  const auto script = job_script(plan, {.run = "RUN",
                                        .stage = "STAGE",
                                        .run_dir = "/RUN",
                                        .worker = "longhaul-worker",
                                        .attempt_dir = "/RUN/stages/STAGE/attempts/1",
                                        .of_attempt = {}});
  if (!script.ok()) return script.error().message();
  for (const std::string& line : split(*script, '\n'))
    if (line.find(" lead --attempt") != std::string::npos) return trim(line);
  return "the script starts no lead";
}

struct LaunchStep {
  std::string what, command;
};

std::vector<LaunchStep> launch_steps(const JobPlan& plan) {
  const TimeoutHierarchy times = default_deadlines();
  return {
      {"The controller writes job.sbatch and hands it to Slurm; on the first host the script becomes the lead",
       lead_line(plan)},
      {"The lead starts an agent on each host, beside the ranks; the agent of another host is its standby",
       join(plan.agent_launcher, " ") + " longhaul-worker agent --attempt FOLDER"},
      {"The lead starts the ranks; after a fault once more, in the same job",
       join(plan.launcher, " ") +
           " longhaul-worker rank --log-dir FOLDER --beat-dir FOLDER -- longhaul-engine run ..."},
      {format(
           "Each rank writes a heartbeat page of shared memory; its agent looks at it every {:g} s, and at once when "
           "the rank ends",
           times.beat_interval.seconds),
       ""},
      {format(
           "Agents report what has changed, every {:g} s at the latest; the lead says something every {:g} s, and an "
           "agent that hears nothing for {:g} s looks for another lead",
           times.report_interval.seconds, seconds_of(ping_interval_ms), seconds_of(lead_silent_ms)),
       ""},
  };
}

int draw_launch_steps(FigurePage& page, const JobPlan& plan, int y) {
  constexpr int text_x = figure_left + 24;
  int number = 0;
  for (const LaunchStep& step : launch_steps(plan)) {
    page.text("name", figure_left, y, std::to_string(++number));
    y = page.paragraph("", text_x, y, figure_right - text_x, step.what);
    if (!step.command.empty()) y = page.paragraph("mono", text_x, y + 2, figure_right - text_x, step.command);
    y += 8;
  }
  return y;
}

int draw_deadlines(FigurePage& page, int y) {
  page.text("title", figure_left, y,
            "Deadlines of a training with the settings' defaults, from the shortest on (right: the key that sets it)");
  y += 26;
  const std::vector<NamedDeadline> all = deadlines_in_order(default_deadlines());
  const int rows = static_cast<int>(all.size() + 1) / 2;
  for (int i = 0; i < static_cast<int>(all.size()); ++i) {
    const NamedDeadline& one = all[static_cast<std::size_t>(i)];
    const int x = figure_left + i / rows * (figure_width / 2), at = y + i % rows * 20;
    page.text("end", x + 48, at, format("{:g} s", one.timeout.seconds));
    page.text("", x + 58, at, one.name);
    page.text("mono", x + 374, at, replace_all(one.timeout.setting, "resiliency.", ""));
  }
  return y + rows * 20;
}

}  // namespace

std::string launch_figure() {
  const JobPlan plan = three_node_job();
  FigurePage page(figure_width, "who starts whom in a job, and who reports to whom");
  page.text("title", figure_left, 30, "Who starts whom (solid), and who reports to whom (dashed)");
  page.text("small", host_x(0), 56,
            format("one job of Slurm: {} hosts with {} ranks each, and {} spare", plan.nodes, plan.ranks_per_node,
                   plan.spares));
  for (int host = 0; host < plan.nodes + plan.spares; ++host) draw_job_host(page, plan, host);
  draw_control(page);
  draw_arrows(page, plan);
  const int y = draw_launch_steps(page, plan, hosts_end + 34);
  return page.file(draw_deadlines(page, y + 24) + 4);
}

}  // namespace longhaul
