// Above: the tiers, with what the tables say of them. Below: what the policy itself answers when a fault comes again
// and again, so that the picture cannot say otherwise than a job's lead decides.
#include <algorithm>

#include "base/text/text.h"
#include "contracts/settings/job/resiliency.h"
#include "orchestrator/cli/figures/code_figures.h"
#include "orchestrator/cli/figures/figure_page.h"
#include "resiliency/restart_decision.h"
#include "resiliency/retry_policy.h"
#include "resiliency/taxonomy/fault_table.h"

namespace longhaul {
namespace {

constexpr int replicas_at_first = 4, times_max = 9;

ResiliencySettings training_defaults() {
  return resiliency_for({}, "pretrain");
}

RestartTier tier_at(int level) {
  return static_cast<RestartTier>(level);
}

std::string color_of(RestartTier tier) {
  return format("box c{}", static_cast<int>(tier));
}

const char* meaning_of(RestartTier tier) {
  switch (tier) {
    case RestartTier::skip: return "nothing: the step is left out, with its data";
    case RestartTier::in_process: return "the processes stay: new communicators, back to the snapshot in memory";
    case RestartTier::in_job: return "new processes on the same hosts";
    case RestartTier::swap: return "new processes, spare hosts in place of those that are left";
    case RestartTier::shrink: return "new processes, fewer replicas, the same global batch";
    case RestartTier::new_job: return "the allocation is given back; the controller asks for another one";
    case RestartTier::stop: return "nothing: the training ends, with the reason";
  }
  return "";
}

std::string budget_text(RestartTier tier) {
  const TierBudgets budgets = budgets_of(training_defaults());
  const RetryBudgets jobs;
  const auto of_one_cause = [](int most) { return format("{} of one cause", most); };
  switch (tier) {
    case RestartTier::skip: return of_one_cause(budgets.skip);
    case RestartTier::in_process: return of_one_cause(budgets.in_process);
    case RestartTier::in_job: return of_one_cause(budgets.in_job);
    case RestartTier::swap: return of_one_cause(budgets.swap);
    case RestartTier::shrink: return "down to min_replicas";
    case RestartTier::new_job:
      return format("faults without progress: of the program {}, of the machine {}; preemptions {}", jobs.application,
                    jobs.infrastructure, jobs.preemptions);
    case RestartTier::stop: break;
  }
  return {};
}

// What only warns starts nothing by itself, unless a setting says so.
bool restarts_something(const FaultInfo& info) {
  return info.group != FaultGroup::none || info.tier == RestartTier::stop;
}

std::string classes_begun_at(RestartTier tier) {
  std::vector<std::string> names;
  for (const FaultInfo& info : fault_table)
    if (info.tier == tier && restarts_something(info)) names.emplace_back(info.name);
  if (tier == RestartTier::shrink) return "none begins here: a lost host without a spare comes here";
  return join(names, ", ");
}

// Returns where the next one begins.
int draw_tier(FigurePage& page, RestartTier tier, int y) {
  constexpr int name_x = figure_left + 34, meaning_x = 140, budget_x = 400, classes_x = 590;
  page.box(color_of(tier), figure_left, y, 24, 24);
  page.text("name middle", figure_left + 12, y + 17, std::to_string(static_cast<int>(tier)));
  page.text("name", name_x, y + 17, to_string(tier));
  const int after_meaning = page.paragraph("", meaning_x, y + 17, budget_x - meaning_x - 20, meaning_of(tier));
  const int after_budget = page.paragraph("", budget_x, y + 17, classes_x - budget_x - 20, budget_text(tier));
  const int after_classes =
      page.paragraph("mono", classes_x, y + 17, figure_width - classes_x - figure_left, classes_begun_at(tier));
  return std::max({after_meaning, after_budget, after_classes}) + 4;
}

int draw_tiers(FigurePage& page, int y) {
  page.text("name", figure_left, y, "tier");
  page.text("name", 140, y, "what is restarted");
  page.text("name", 400, y, "how often");
  page.text("name", 590, y, "fault classes, as their table has them");
  y += 10;
  for (int level = 0; level < restart_tiers; ++level) {
    page.line("rule", figure_left, y, figure_width - figure_left, y);
    y = draw_tier(page, tier_at(level), y + 6);
  }
  return y;
}

struct FaultStory {
  const char* text;
  FaultClass fault;
  bool all_ranks_alive = false, host_lost = false;
  int spares = 0;
  bool shrinks = false;
};
constexpr FaultStory fault_stories[] = {
    {"a step whose loss jumped", FaultClass::loss_spike, true},
    {"all ranks wait in a collective", FaultClass::stuck_collective, true},
    {"a rank crashes, no spare host", FaultClass::crash},
    {"a rank crashes, one spare host", FaultClass::crash, false, false, 1},
    {"the user's program fails", FaultClass::exception},
    {"memory runs out", FaultClass::out_of_memory},
    {"a GPU is lost, one spare host", FaultClass::gpu_lost, false, false, 1},
    {"hosts are lost, one spare, may shrink", FaultClass::host_unreachable, false, true, 1, true},
    {"a host is lost, no spare", FaultClass::host_unreachable, false, true},
    {"another job needs the nodes", FaultClass::preempted},
    {"the stage refuses its input", FaultClass::bad_input},
};

TierOffers story_offers(const FaultStory& story, const ResiliencySettings& settings, int spares_left,
                        int replicas_left) {
  TierOffers offers;
  if (!story.shrinks) offers.shrink = {false, "resiliency.shrink is off"};
  offers.dp_replicas = replicas_left;
  offers.dp_replicas_min = settings.min_replicas;
  limit_offers(settings, spares_left, offers);
  return offers;
}

// The fault comes every ten minutes; copies on the nodes have gone a few steps further each time, and no whole
// checkpoint lies in between.
std::vector<RestartTier> tiers_of(const FaultStory& story) {
  constexpr std::int64_t apart_ms = 600'000;
  ResiliencySettings settings = training_defaults();
  settings.spares = story.spares, settings.shrink = story.shrinks;
  std::vector<RestartTier> tiers;
  TierHistory history;
  int spares = story.spares, left_replicas = replicas_at_first, host = 1;
  while (tiers.size() < times_max) {
    DiagnosedFault found{.fault = story.fault, .scope = info_of(story.fault).scope};
    if (accuses_host(found.scope) || found.scope == FaultScope::rank) found.host = format("host {}", host);
    if (story.host_lost) found.host_lost = found.host;
    found.cause = story.text;
    found.at_ms = static_cast<std::int64_t>(tiers.size()) * apart_ms;
    FaultView view = view_of(found, settings);
    view.all_ranks_alive = story.all_ranks_alive;
    view.skippable = info_of(story.fault).tier == RestartTier::skip;
    view.made_progress = true;
    RestartDecision decided =
        decide_restart(view, std::move(history), story_offers(story, settings, spares, left_replicas), settings);
    history = std::move(decided.history);
    const RestartTier tier = decided.decision.tier;
    tiers.push_back(tier);
    if (tier >= RestartTier::new_job) break;
    if (tier == RestartTier::swap) --spares, ++host;
    if (tier == RestartTier::shrink) --left_replicas, ++host;
  }
  return tiers;
}

int draw_stories(FigurePage& page, int y) {
  constexpr int cells_x = 420, cell = 30;
  page.text("name", figure_left, y, "when it comes again, a few steps further each time");
  page.text("small", cells_x, y, "1st time, 2nd, ... until a checkpoint further than any before is whole");
  y += 10;
  for (const FaultStory& story : fault_stories) {
    page.text("", figure_left, y + 17, story.text);
    page.text("mono", 300, y + 17, info_of(story.fault).name);
    int x = cells_x;
    std::string last;
    for (const RestartTier tier : tiers_of(story)) {
      page.box(color_of(tier), x, y, 24, 24);
      page.text("name middle", x + 12, y + 17, std::to_string(static_cast<int>(tier)));
      x += cell;
      last = to_string(tier);
    }
    page.text("small", x + 4, y + 16, last);
    y += cell;
  }
  return y;
}

}  // namespace

std::string restart_figure() {
  FigurePage page(figure_width, "tiers of restarts, and what follows when a fault comes again");
  page.text("title", figure_left, 26, "Restart tiers, from the cheapest on");
  const int y = draw_tiers(page, 54);
  return page.file(draw_stories(page, y + 28) + 8);
}

}  // namespace longhaul
