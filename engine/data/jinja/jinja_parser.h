// From a template's text to its nodes, by the grammar of Jinja 3.1 as far as it is done. Statements, filters and tests
// that are not known are refused here, with their line, whether or not a conversation would ever reach them.
#pragma once

#include <string>
#include <string_view>

#include "engine/data/jinja/jinja_ast.h"
#include "engine/data/jinja/jinja_setup.h"

namespace longhaul {

Result<JinjaNodes> parse_jinja(std::string_view source, const std::string& name, const JinjaSetup& setup = {});

}  // namespace longhaul
