// Ranks are placed by their coordinates alone, and hosts are drawn around the ranks that follow each other: another
// order of ranks gives another picture.
#include <algorithm>

#include "base/text/text.h"
#include "contracts/layout/axis_ranks.h"
#include "contracts/layout/parallel_dims.h"
#include "orchestrator/cli/figures/code_figures.h"
#include "orchestrator/cli/figures/figure_page.h"

namespace longhaul {
namespace {

constexpr int mesh_host_ranks = 8, marked_rank = 5;
constexpr int cell_width = 82, cell_height = 58, block_gap = 12, mesh_host_gap = 34, stage_gap = 52;
constexpr int mesh_left = 92, mesh_top = 92, margin_x = figure_left;

ParallelDims drawn_dims() {
  ParallelDims dims;
  dims.tp = dims.cp = dims.pp = dims.dp_shard = dims.dp_replicate = 2;
  dims.ep = 8;
  return dims;
}

struct DrawnRank {
  int x = 0, y = 0;
};

// Across: tp, then dp_shard, then dp_replicate; down: cp, then pp.
DrawnRank place_of(const ParallelDims& dims, const RankCoordinates& at) {
  const int block = dims.tp * cell_width + block_gap;
  return {
      mesh_left + at.tp * cell_width + at.dp_shard * block + at.dp_replicate * (dims.dp_shard * block + mesh_host_gap),
      mesh_top + at.cp * cell_height + at.pp * (dims.cp * cell_height + stage_gap)};
}

void draw_mesh_host(FigurePage& page, const ParallelDims& dims, int host) {
  constexpr int margin = 8, heading = 20;
  int x1 = 1 << 20, y1 = x1, x2 = 0, y2 = 0;
  for (int rank = host * mesh_host_ranks; rank < (host + 1) * mesh_host_ranks; ++rank) {
    const DrawnRank at = place_of(dims, coordinates_of(dims, rank));
    x1 = std::min(x1, at.x), y1 = std::min(y1, at.y);
    x2 = std::max(x2, at.x + cell_width), y2 = std::max(y2, at.y + cell_height);
  }
  page.box("panel", x1 - margin, y1 - heading, x2 - x1 + 2 * margin, y2 - y1 + heading + margin);
  page.text("small", x1, y1 - 6, format("host {}", host));
}

void draw_rank(FigurePage& page, const ParallelDims& dims, int rank) {
  const RankCoordinates at = coordinates_of(dims, rank);
  const DrawnRank place = place_of(dims, at);
  const char* const mark = rank == marked_rank ? " marked" : "";
  page.box(format("box c{}{}", at.dp(dims), mark), place.x + 2, place.y + 2, cell_width - 4, cell_height - 4);
  const int middle = place.x + cell_width / 2;
  page.text("name middle", middle, place.y + 19, format("rank {}", rank));
  page.text("small middle", middle, place.y + 34, format("tp {} · cp {}", at.tp, at.cp));
  page.text("small middle", middle, place.y + 48, format("ep {}", expert_coordinates_of(dims, at).ep));
}

void draw_replica_names(FigurePage& page, const ParallelDims& dims) {
  for (int replicate = 0; replicate < dims.dp_replicate; ++replicate)
    for (int shard = 0; shard < dims.dp_shard; ++shard) {
      RankCoordinates at;
      at.dp_replicate = replicate, at.dp_shard = shard;
      const DrawnRank place = place_of(dims, at);
      const int middle = place.x + dims.tp * cell_width / 2;
      page.text("small middle", middle, mesh_top - 28, format("dp_replicate {} · dp_shard {}", replicate, shard));
    }
  for (int stage = 0; stage < dims.pp; ++stage) {
    RankCoordinates at;
    at.pp = stage;
    page.text("name end", mesh_left - 16, place_of(dims, at).y + dims.cp * cell_height / 2, format("pp {}", stage));
  }
}

std::string axis_help(const std::string& key) {
  for (const FieldInfo& field : parallel_dims_fields().describe())
    if (field.name == key) return field.options.help;
  return {};
}

struct AxisRow {
  const char* key;  // of the table of layouts
  std::vector<int> ranks;
};

std::vector<AxisRow> axis_rows(const ParallelDims& dims) {
  const RankCoordinates at = coordinates_of(dims, marked_rank);
  return {{"tp", ranks_along(dims, at, &RankCoordinates::tp)},
          {"cp", ranks_along(dims, at, &RankCoordinates::cp)},
          {"dp_shard", ranks_along(dims, at, &RankCoordinates::dp_shard)},
          {"dp_replicate", ranks_along(dims, at, &RankCoordinates::dp_replicate)},
          {"pp", ranks_along(dims, at, &RankCoordinates::pp)},
          {"ep", expert_ranks_along(dims, at, {&ExpertCoordinates::ep})}};
}

// Whom the marked rank works with, axis by axis. Returns where it ends.
int draw_axes(FigurePage& page, const ParallelDims& dims, int width, int y) {
  constexpr int members_x = 150, help_x = 340;
  page.text("name", margin_x, y, "axis");
  page.text("name", members_x, y, format("rank {} works with", marked_rank));
  page.text("name", help_x, y, "for");
  for (const AxisRow& row : axis_rows(dims)) {
    y += 24;
    page.line("rule", margin_x, y - 17, width - margin_x, y - 17);
    std::vector<std::string> ranks;
    for (const int rank : row.ranks) ranks.push_back(std::to_string(rank));
    page.text("mono", margin_x, y, format("{} = {}", row.key, row.ranks.size()));
    page.text("", members_x, y, join(ranks, ", "));
    page.text("", help_x, y, axis_help(row.key));
  }
  return y + 16;
}

}  // namespace

std::string mesh_figure() {
  const ParallelDims dims = drawn_dims();
  const int ranks = dims.world_size();
  const DrawnRank last = place_of(dims, coordinates_of(dims, ranks - 1));
  const int width = last.x + cell_width + margin_x + 8;
  FigurePage page(width, "how the ranks of a layout lie on hosts");
  page.text("title", margin_x, 26, format("{} ranks on {} hosts", ranks, ranks / mesh_host_ranks));
  page.text("mono", margin_x, 44,
            dims.to_string() + format(" (dp_replicate={} dp_shard={})", dims.dp_replicate, dims.dp_shard));
  for (int host = 0; host < ranks / mesh_host_ranks; ++host) draw_mesh_host(page, dims, host);
  for (int rank = 0; rank < ranks; ++rank) draw_rank(page, dims, rank);
  draw_replica_names(page, dims);
  return page.file(draw_axes(page, dims, width, last.y + cell_height + 48));
}

}  // namespace longhaul
