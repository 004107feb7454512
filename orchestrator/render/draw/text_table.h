// Room orchestrator/render/draw
// Tables as text and as HTML, with every cell escaped.
// text_table.h pads columns and makes control characters visible; html_table.h escapes.
// It knows neither runs nor plans, only rows of text.
//
// Columns of text with two blanks between them; the last column is not padded. UTF-8 counts by code points. Control
// characters of a cell are made visible, newlines too: a row is a line.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace longhaul {

std::string text_table(const std::vector<std::vector<std::string>>& cells);

std::size_t code_points(const std::string& text);
// At most `columns` code points; "…" stands for what was cut.
std::string clipped(const std::string& text, std::size_t columns);

}  // namespace longhaul
