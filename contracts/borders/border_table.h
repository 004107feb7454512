// Room contracts/borders
// What comes from outside (pages, files, models, templates, requests), and how each of it is treated.
// border_table.h has the tables of pages, files, models and templates; request_field.h that of requests.
// The engine reads request_field.h; docs/compatibility.md is written from both.
//
// What comes from outside beside rows (contracts/settings/stages/tuning_row_form.h) and requests (request_field.h), and
// how each is treated: pages, files, models and templates. docs/compatibility.md is written from it. The message of a
// refusal stand in the source that is named, {} where it names what it found: a test looks.
#pragma once

#include <span>

namespace longhaul {

enum class Treatment { taken, refused };

struct BorderEntry {
  const char* what;
  Treatment treatment;
  const char* text;    // taken: as what; refused: the message
  const char* source;  // refused: where they stand; "" of what is taken
};

std::span<const BorderEntry> file_border();
std::span<const BorderEntry> page_border();
std::span<const BorderEntry> model_border();
std::span<const BorderEntry> template_border();

}  // namespace longhaul
