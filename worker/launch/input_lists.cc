#include "worker/launch/input_lists.h"

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/text/visible_text.h"
#include "contracts/settings/stages/command.h"

namespace longhaul {

std::string input_list_path(const std::string& launch_dir, const TaskInput& input) {
  return join_path(launch_dir, "inputs/" + step_variable(input.name));
}

Status write_input_lists(const Task& task, const std::string& launch_dir) {
  if (!task.inputs.empty()) LH_CHECK(make_directories(join_path(launch_dir, "inputs")));
  for (const TaskInput& input : task.inputs) {
    std::string lines;
    for (const std::string& path : input.paths) {
      if (path.find('\n') != std::string::npos)
        return make_error(ErrorCode::invalid_input,
                          format("input '{}': {} has a line end in its name", input.name, visible_line(path)),
                          "rename it");
      lines += path + "\n";
    }
    LH_CHECK(write_file_renamed(input_list_path(launch_dir, input), lines));
  }
  return {};
}

}  // namespace longhaul
