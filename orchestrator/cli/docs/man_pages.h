// Manual pages of section 1, from the table of commands: longhaul.1 and longhaul-COMMAND.1.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

struct ManPage {
  std::string name;  // "longhaul-run.1"
  std::string text;  // in man(7), of groff and mandoc
};
// `version`: of this program, as `longhaul --version` has it.
std::vector<ManPage> man_pages(const std::string& version);

}  // namespace longhaul
