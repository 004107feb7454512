// How a template is set up: options of Jinja's Environment that differ between those who run templates.
#pragma once

namespace longhaul {

// As transformers sets up chat templates, where nothing is said.
struct JinjaSetup {
  bool trim_blocks = true;             // the first line end behind a block is dropped
  bool lstrip_blocks = true;           // blanks before a block that begins its line are dropped
  bool keep_trailing_newline = false;  // the template's own last line end is kept
  bool strict_undefined =
      false;  // what is undefined is an error wherever it is used, but in `is defined` and `default`
};

}  // namespace longhaul
