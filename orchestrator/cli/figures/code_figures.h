// Room orchestrator/cli/figures
// The drawings of docs/figures: the code's own tables and functions as pictures, so that a picture changes with them.
// code_figures.h lists them; each has a source of its own (mesh, launch, restart tiers, checkpoint), and figure_page.h
// has the text, boxes and arrows that they are drawn with.
// It knows no run: what a run looks like is drawn by orchestrator/render/report.
//
// To renew docs/figures: longhaul docs --figures docs/figures
#pragma once

#include <string>
#include <vector>

namespace longhaul {

struct CodeFigure {
  std::string name;  // "mesh.svg"
  std::string svg;   // a file, of one shape a line
};
std::vector<CodeFigure> code_figures();

// How the ranks of one layout lie on hosts, and whom one of them works with on each axis.
std::string mesh_figure();
// Who starts whom in a job of several nodes, who reports to whom how often, and which deadlines apply.
std::string launch_figure();
// The tiers of restarts with their budgets and faults, and what follows when a fault comes again.
std::string restart_figure();
// Where copies of a training's state lie, and how a checkpoint becomes whole.
std::string checkpoint_figure();

}  // namespace longhaul
