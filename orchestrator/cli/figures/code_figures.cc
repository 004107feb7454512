#include "orchestrator/cli/figures/code_figures.h"

namespace longhaul {

std::vector<CodeFigure> code_figures() {
  return {{"mesh.svg", mesh_figure()},
          {"launch.svg", launch_figure()},
          {"restart-tiers.svg", restart_figure()},
          {"checkpoint.svg", checkpoint_figure()}};
}

}  // namespace longhaul
