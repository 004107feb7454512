#include "orchestrator/workflow/command_files.h"

#include <algorithm>
#include <array>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/settings/stages/command.h"

namespace longhaul {
namespace {

bool is_interpreter(const std::string& program) {
  static constexpr std::array<std::string_view, 8> known = {"python", "python3", "bash",  "sh",
                                                            "perl",   "ruby",    "julia", "Rscript"};
  const std::string name = file_name(program);
  return std::find(known.begin(), known.end(), name) != known.end() || starts_with(name, "python3.");
}

class ProgramCheck {
 public:
  ProgramCheck(const std::string& where, const std::string& folder, const FileView& files, Diagnostics& diagnostics)
      : where_(where), folder_(folder), files_(files), diagnostics_(diagnostics) {}

  void check(const std::vector<std::string>& argv, const Value& table) {
    if (argv.empty()) return;
    const Value* written = table.find("argv");
    const SourcePos at = written ? written->pos : table.pos;
    const std::string& program = argv.front();
    if (program.find('/') != std::string::npos)
      check_executable(program, at);
    else if (argv.size() > 1 && is_interpreter(program))
      check_script(argv[1], at);
    else if ((ends_with(program, ".py") || ends_with(program, ".sh")) &&
             files_.expand(join_path(folder_, program)).ok())
      diagnostics_.add(at, where_ + ": " + program + " is looked for on PATH, and lies beside the workflow",
                       "write \"./" + program + "\"");
  }

  // The name of a file in place of the text of a script: the shell would look for it along PATH, or may not start it.
  void check_text(const std::string& script, const Value& table) {
    const std::string name = trim(script);
    const bool is_python = ends_with(name, ".py");
    if ((!is_python && !ends_with(name, ".sh")) || name.find_first_of(" \t\n;|&$") != std::string::npos) return;
    if (!files_.expand(path_of(name)).ok() || (name.find('/') != std::string::npos && files_.executable(path_of(name))))
      return;
    const Value* written = table.find("script");
    diagnostics_.add(written ? written->pos : table.pos,
                     where_ + ".script is the text of a script, and " + name + " the name of a file",
                     "write argv = [\"" + std::string(is_python ? "python3" : "bash") + "\", \"" + name + "\"]");
  }

 private:
  std::string path_of(const std::string& name) const { return absolute_path(join_path(folder_, name)); }

  void check_executable(const std::string& program, SourcePos at) {
    const std::string path = path_of(program);
    // Of an absolute path only what is here is judged: the nodes that run it may have other software.
    if (!files_.expand(path).ok()) {
      if (starts_with(program, "/")) return;
      return diagnostics_.add(at, where_ + ": " + path + " does not exist",
                              "a relative path starts at the stage's workdir, " + folder_);
    }
    if (files_.executable(path)) return;
    std::string by_interpreter = ends_with(program, ".py") ? "python3" : "bash";
    diagnostics_.add(at, where_ + ": " + path + " may not be executed",
                     "chmod +x " + path + ", or write argv = [\"" + by_interpreter + "\", \"" + program + "\"]");
  }

  // Options and what a shell or an interpreter makes of its first argument are its own.
  void check_script(const std::string& script, SourcePos at) {
    const bool is_script = ends_with(script, ".py") || ends_with(script, ".sh");
    if (!is_script || starts_with(script, "/") || files_.expand(path_of(script)).ok()) return;
    diagnostics_.add(at, where_ + ": " + path_of(script) + " does not exist",
                     "a relative path starts at the stage's workdir, " + folder_);
  }

  const std::string& where_;
  const std::string& folder_;
  const FileView& files_;
  Diagnostics& diagnostics_;
};

}  // namespace

void complete_workdir(Value& settings, bool in_container, const std::string& folder) {
  if (!settings.get_string("workdir_from").empty()) return;
  if (in_container && settings.get_string("workdir").empty()) return;
  settings.set("workdir_from", folder);
}

void check_command_files(const std::string& where, const Value& table, const Value& settings, const FileView& files,
                         Diagnostics& diagnostics) {
  Diagnostics reported;  // when the settings were made
  const CommandSettings command = command_fields().parse(settings, where, reported);
  const std::string folder = working_folder(command);
  if (folder.empty()) return;
  if (!command.workdir.empty() && !files.expand(folder).ok()) {
    const Value* written = table.find("workdir");
    diagnostics.add(written ? written->pos : table.pos, where + ".workdir: " + folder + " does not exist",
                    "make it first; a relative path starts where the workflow lies");
    return;
  }
  ProgramCheck check(where, folder, files, diagnostics);
  check.check(command.argv, table);
  check.check_text(command.script, table);
  const Value* steps = table.find("step");
  for (const CommandStep& step : command.steps) {
    const Value* of_step = steps ? steps->find(step.name) : nullptr;
    check.check(step.argv, of_step ? *of_step : table);
  }
}

}  // namespace longhaul
