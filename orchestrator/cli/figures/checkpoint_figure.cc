// Names of files, partners and the order of a save come from contracts/checkpoints, by which the engine writes; how
// often and how many from the settings' own defaults.
#include <algorithm>

#include "base/text/text.h"
#include "contracts/checkpoints/checkpoint_files.h"
#include "contracts/records/checkpoint_format.h"
#include "contracts/records/state_owner.h"
#include "contracts/settings/groups/checkpoint.h"
#include "orchestrator/cli/figures/code_figures.h"
#include "orchestrator/cli/figures/figure_page.h"
#include "resiliency/taxonomy/restart_tier.h"

namespace longhaul {
namespace {

constexpr int panel_gap = 24, padding = 12;
constexpr int saving_ranks = 8, saving_ranks_of_host = 4, drawn_owner = 1;  // whose share is followed
constexpr std::int64_t saved_step = 240;

// "checkpoint.keep_last = 2", as the table of settings has it.
std::string checkpoint_setting(const std::string& name) {
  for (const FieldInfo& field : checkpoint_fields().describe())
    if (field.name == name) return format("{} = {}", name, field.default_text);
  return {};
}

// A box with a heading and lines of names of files, which may be indented. Returns where it ends.
int draw_slot(FigurePage& page, const char* color, int x, int y, int box_width, const std::string& heading,
              const std::vector<std::string>& names) {
  const int height = 30 + (names.empty() ? 0 : FigurePage::line_height * static_cast<int>(names.size()) + 6);
  page.box(format("box {}", color), x, y, box_width, height);
  page.text("name", x + 10, y + 20, heading);
  int line = y + 40;
  for (const std::string& name : names) {
    const std::size_t indent = name.find_first_not_of(' ');
    page.text("mono", x + 10 + 7 * static_cast<int>(indent), line, name.substr(indent));
    line += FigurePage::line_height;
  }
  return y + height;
}

std::vector<std::string> files_of_copy(int keeper) {
  const std::string shard = shard_file_name(drawn_owner, saving_ranks);
  return {format("local_dir/{}<32 hex>/{}/{}/", local_copies_prefix, local_rank_folder(keeper),
                 checkpoint_folder_name(saved_step)),
          "    " + shard, "    " + local_part_name(shard)};
}

std::string host_of_saving_rank(int rank) {
  const int host = rank / saving_ranks_of_host, first = host * saving_ranks_of_host;
  return format("host {}: ranks {} to {}", host, first, first + saving_ranks_of_host - 1);
}

// The two hosts that hold copies of one rank's share.
int draw_hosts(FigurePage& page, int y) {
  constexpr int host_width = (figure_right - figure_left - panel_gap) / 2, inner = host_width - 2 * padding,
                height = 220;
  const int keeper = partner_of(drawn_owner, saving_ranks), x1 = figure_left + padding,
            x2 = figure_left + host_width + panel_gap + padding;
  page.box("panel", figure_left, y, host_width, height);
  page.box("panel", figure_left + host_width + panel_gap, y, host_width, height);
  page.text("small", x1, y + 18, host_of_saving_rank(drawn_owner));
  page.text("small", x2, y + 18, host_of_saving_rank(keeper));
  const int state_end =
      draw_slot(page, "", x1, y + 28, inner, format("rank {}: its share of weights and moments", drawn_owner), {});
  const int snapshot_y = state_end + 16;
  const int copies_y =
      draw_slot(page, "c0", x1, snapshot_y, inner - 60, "1. snapshot in the process's memory", {}) + 16;
  draw_slot(page, "c1", x1, copies_y, inner, "2. its own copy on the node", files_of_copy(drawn_owner));
  draw_slot(page, "c2", x2, copies_y, inner, format("3. the copy of its partner, rank {}", keeper),
            files_of_copy(keeper));
  page.arrow("", x1 + 30, state_end, x1 + 30, snapshot_y);
  page.arrow("", x1 + inner - 30, state_end, x1 + inner - 30, copies_y);
  page.arrow("", x1 + inner, y + 43, x2 + 40, copies_y);
  page.text("small", x2 + 60, y + 64,
            format("over the network: rank {} keeps rank {}'s", keeper, owner_kept_by(keeper, saving_ranks)));
  return y + height;
}

struct SharedFile {
  std::string path;
  const char* meaning;
};

std::vector<SharedFile> shared_files() {
  const std::string folder = format("{}/{}/", checkpoints_name, checkpoint_folder_name(saved_step));
  const StateOwner launch{.attempt = 1, .restarts = 0, .epoch = 1, .host = "n1", .launch = 3};
  return {
      {folder + shard_file_name(drawn_owner, saving_ranks, launch.tag()), "what the rank wrote; launch 3 of attempt 1"},
      {folder + checkpoint_manifest_name, "entries and digests of all ranks: without it this is no checkpoint"},
      {folder + checkpoint_verified_name, "digest of the manifest, once all ranks have read everything back"},
      {folder + checkpoint_pin_name, "only where somebody puts it there: this one is never removed"},
      {format("{}/{}", checkpoints_name, checkpoint_latest_name), "which is the newest: a hint, never the truth"},
      {format("{}/{}", checkpoints_name, time_line_name), "after a roll-back: which states still count"}};
}

int draw_shared(FigurePage& page, int y) {
  const std::vector<SharedFile> files = shared_files();
  constexpr int meaning_x = 570;
  std::vector<std::string> names;
  for (const SharedFile& file : files) names.push_back(file.path);
  const int end = draw_slot(page, "c4", figure_left + padding, y + 28, figure_right - figure_left - 2 * padding,
                            "4. checkpoint", names);
  int line = y + 68;
  for (const SharedFile& file : files) {
    page.text("small", meaning_x, line, file.meaning);
    line += FigurePage::line_height;
  }
  page.text("small", figure_left + padding, y + 18, "shared file system: runs/RUN/stages/STAGE/state/");
  return end + padding;
}

// How often each of the four is made, how many there are, and which restarts begin from it.
int draw_intervals(FigurePage& page, int y) {
  struct Row {
    const char* number;
    std::vector<std::string> often;
    std::string kept;
    std::vector<RestartTier> tiers;
  };
  using enum RestartTier;
  const Row rows[] = {
      {"1", {checkpoint_setting("snapshot_every")}, "1", {in_process}},
      {"2, 3",
       {checkpoint_setting("local_every_steps")},
       format("{} steps by each rank", local_copies_kept),
       {in_job, swap, shrink}},
      {"4",
       {checkpoint_setting("every_steps"), checkpoint_setting("at_end")},
       join({checkpoint_setting("keep_last"), checkpoint_setting("keep_every"), checkpoint_setting("keep_best")}, ", "),
       {new_job}},
  };
  page.text("name", figure_left, y, "copy");
  page.text("name", 90, y, "every so many steps (0: never)");
  page.text("name", 340, y, "how many stay");
  page.text("name", 680, y, "enough for these restart tiers");
  for (const Row& row : rows) {
    y += 24;
    page.line("rule", figure_left, y - 17, figure_right, y - 17);
    std::vector<std::string> tiers;
    for (const RestartTier tier : row.tiers) tiers.emplace_back(to_string(tier));
    page.text("name", figure_left, y, row.number);
    page.text("mono", 90, y, join(row.often, ", "));
    page.text("mono", 340, y, row.kept);
    page.text("mono", 680, y, join(tiers, ", "));
  }
  return y;
}

// Down, across and down again.
void draw_elbow(FigurePage& page, int x1, int y1, int x2, int y2) {
  constexpr int down = 7;
  if (x1 == x2) return page.arrow("", x1, y1, x2, y2);
  page.line("", x1, y1, x1, y1 + down);
  page.line("", x1, y1 + down, x2, y1 + down);
  page.arrow("", x2, y1 + down, x2, y2);
}

// One row for each step of a save, in the column of who does it.
int draw_save(FigurePage& page, int y) {
  constexpr SaveActor actors[] = {SaveActor::training, SaveActor::writer, SaveActor::first_rank};
  constexpr int column = 256, box_width = 240, box_height = 38, row_height = 58, file_x = figure_left + 3 * column + 4;
  for (const SaveActor actor : actors)
    page.text("name", figure_left + static_cast<int>(actor) * column, y, to_string(actor));
  page.text("name", file_x, y, "what appears");
  y += 12;
  int number = 0, last_x = 0;
  for (const SaveStep& one : checkpoint_save_steps()) {
    const int x = figure_left + static_cast<int>(one.actor) * column;
    if (number > 0) draw_elbow(page, last_x + box_width / 2, y - row_height + box_height, x + box_width / 2, y);
    page.box(one.renamed ? "box c4" : "box", x, y, box_width, box_height);
    const std::string text = format("{}. {}", ++number, one.what);
    page.paragraph("small", x + 8, y + (text_width("small", text) > box_width - 16 ? 16 : 23), box_width - 16, text);
    const std::string file = std::string(one.file) == "shard" ? "shard-*.safetensors" : one.file;
    page.text("mono", file_x, y + 16, file);
    if (one.renamed) page.text("small", file_x, y + 32, "written beside and renamed in");
    last_x = x;
    y += row_height;
  }
  return y;
}

}  // namespace

std::string checkpoint_figure() {
  FigurePage page(figure_width, "copies of a training's state, and how a checkpoint becomes whole");
  page.text("title", figure_left, 26,
            format("Where the share of rank {} of {} lies, from the nearest copy to the farthest", drawn_owner,
                   saving_ranks));
  const int hosts_end = draw_hosts(page, 42);
  page.box("panel", figure_left, hosts_end + panel_gap, figure_right - figure_left,
           28 + 30 + 6 * FigurePage::line_height + 6 + padding);
  const int intervals = draw_intervals(page, draw_shared(page, hosts_end + panel_gap) + 28);
  page.text("title", figure_left, intervals + 48, "How a checkpoint becomes whole, while the training goes on");
  return page.file(draw_save(page, intervals + 78));
}

}  // namespace longhaul
