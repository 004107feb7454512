#include "orchestrator/cli/docs/man_pages.h"

#include <algorithm>
#include <cctype>

#include "base/text/text.h"
#include "orchestrator/cli/options/command_line.h"

namespace longhaul {
namespace {

// Text between macros: what the formatter would take for its own is escaped, a hyphen stays one.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

// A line of text; one that begins like a macro is none.
std::string line_of(const std::string& text) {
  const std::string out = escaped(text);
  return (starts_with(out, ".") || starts_with(out, "'") ? "\\&" + out : out) + "\n";
}

std::string head_of(const std::string& title, const std::string& version) {
  return ".TH " + escaped(title) + " 1 \"\" \"" + escaped(version) + "\" \"Longhaul\"\n";
}

// As it is typed, in a fixed width where there is one.
std::string examples_of(const std::vector<std::string>& lines) {
  std::string text = ".nf\n";
  for (const std::string& line : lines) text += line_of(line);
  return text + ".fi\n";
}

std::string exit_codes_of(const CommandSpec& spec) {
  std::string text = ".SH EXIT STATUS\n";
  for (const ExitCodeText& code : exit_code_texts()) {
    const bool every = static_cast<int>(code.code) <= static_cast<int>(ExitCode::usage);
    if (!every && std::find(spec.exit_codes.begin(), spec.exit_codes.end(), code.code) == spec.exit_codes.end())
      continue;
    text += format(".TP\n.B {}\n", static_cast<int>(code.code)) + line_of(plain_text(code.meaning));
  }
  return text;
}

std::string options_of(const CommandSpec& spec) {
  std::string text = ".SH OPTIONS\n";
  for (const OptionText& option : option_texts(spec.command)) {
    text += ".TP\n.B " + escaped(option.name);
    if (option.takes_value && !option.positional) text += " \\fI" + escaped(option.value) + "\\fP";
    text += "\n" + line_of(plain_text(option.help));
  }
  return text;
}

std::string see_also(const std::vector<std::string>& names) {
  std::string text = ".SH SEE ALSO\n";
  for (std::size_t i = 0; i < names.size(); ++i)
    text += ".BR " + escaped(names[i]) + " (1)" + (i + 1 < names.size() ? "," : "") + "\n";
  return text;
}

ManPage command_page(const CommandSpec& spec, const std::string& version) {
  const std::string name = "longhaul-" + spec.name;
  std::string text = head_of(name, version);
  text += ".SH NAME\n" + escaped(name) + " \\- " + escaped(plain_text(spec.summary)) + "\n";
  text += ".SH SYNOPSIS\n" + examples_of({spec.usage});
  text += ".SH DESCRIPTION\n" + line_of(plain_text(spec.paragraph));
  text += options_of(spec);
  if (!spec.examples.empty()) text += ".SH EXAMPLES\n" + examples_of(spec.examples);
  return {name + ".1", text + exit_codes_of(spec) + see_also({"longhaul"})};
}

ManPage main_page(const std::string& version) {
  std::string text = head_of("longhaul", version);
  text += ".SH NAME\nlonghaul \\- from raw text to a deployed language model, driven by one workflow file\n";
  text += ".SH SYNOPSIS\n" + examples_of({"longhaul COMMAND [options]", "longhaul COMMAND --help"});
  text += ".SH DESCRIPTION\n" + line_of(
                                    "What a run is, and how a workflow is written, stands in the pages beside the "
                                    "program: README.md, your-own-data.md, workflows.md.");
  std::vector<std::string> pages;
  for (const CommandGroup& group : command_groups()) {
    std::string title = group.title;
    std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
    text += ".SH " + escaped(title) + "\n";
    for (const Command command : group.commands) {
      const CommandSpec& spec = command_spec(command);
      text += ".TP\n.B " + escaped(spec.name) + "\n" + line_of(plain_text(spec.summary));
      pages.push_back("longhaul-" + spec.name);
    }
  }
  return {"longhaul.1", text + see_also(pages)};
}

}  // namespace

std::vector<ManPage> man_pages(const std::string& version) {
  std::vector<ManPage> pages = {main_page(version)};
  for (const CommandSpec& spec : command_specs()) pages.push_back(command_page(spec, version));
  return pages;
}

}  // namespace longhaul
