// Manual pages are those of the commands, in man(7).
#include "orchestrator/cli/docs/man_pages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "base/text/text.h"
#include "orchestrator/cli/options/command_line.h"

namespace longhaul {
namespace {

namespace man_pages_test {

const ManPage& page_of(const std::vector<ManPage>& pages, const std::string& name) {
  const auto found = std::find_if(pages.begin(), pages.end(), [&](const ManPage& page) { return page.name == name; });
  REQUIRE(found != pages.end());
  return *found;
}

TEST_CASE("man: a page for each command and one that lists them") {
  const std::vector<ManPage> pages = man_pages("longhaul 1.2.3");
  CHECK(pages.size() == command_specs().size() + 1);
  const std::string& main = page_of(pages, "longhaul.1").text;
  CHECK(starts_with(main, ".TH longhaul 1 \"\" \"longhaul 1.2.3\" \"Longhaul\"\n"));
  for (const CommandSpec& spec : command_specs()) {
    CAPTURE(spec.name);
    CHECK(main.find(".B " + replace_all(spec.name, "-", "\\-") + "\n") != std::string::npos);
    const std::string& text = page_of(pages, "longhaul-" + spec.name + ".1").text;
    for (const char* section :
         {".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n", ".SH OPTIONS\n", ".SH EXIT STATUS\n"})
      CHECK(text.find(section) != std::string::npos);
    for (const OptionText& option : option_texts(spec.command))
      CHECK(text.find(".B " + replace_all(option.name, "-", "\\-")) != std::string::npos);
  }
}

TEST_CASE("man: no line of text is taken for a macro, and examples stand as they are typed") {
  static const std::set<std::string> macros = {".TH", ".SH", ".TP", ".B", ".BR", ".nf", ".fi"};
  for (const ManPage& page : man_pages("longhaul 1.2.3"))
    for (const std::string& line : split(page.text, '\n')) {
      CAPTURE(page.name);
      CAPTURE(line);
      if (starts_with(line, ".")) CHECK(macros.contains(line.substr(0, line.find(' '))));
      CHECK(!starts_with(line, "'"));
    }
  const std::string run = page_of(man_pages("x"), "longhaul-run.1").text;
  CHECK(run.find("\nlonghaul run my.toml \\-\\-set params.steps=500 \\-\\-set 'params.languages=[\"ca\",\"es\"]'\n") !=
        std::string::npos);
  CHECK(run.find(".B \\-\\-runs\\-dir \\fIFOLDER\\fP\n") != std::string::npos);
}

}  // namespace man_pages_test

}  // namespace
}  // namespace longhaul
