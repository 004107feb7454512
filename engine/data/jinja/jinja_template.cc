#include "engine/data/jinja/jinja_template.h"

#include "engine/data/jinja/jinja_interpreter.h"
#include "engine/data/jinja/jinja_parser.h"

namespace longhaul {

Result<JinjaTemplate> JinjaTemplate::parse(const std::string& source, const std::string& name,
                                           const JinjaSetup& setup) {
  LH_TRY(JinjaNodes nodes, parse_jinja(source, name, setup));
  JinjaTemplate made;
  made.name_ = name;
  made.strict_ = setup.strict_undefined;
  made.nodes_ = std::make_shared<const JinjaNodes>(std::move(nodes));
  return made;
}

Result<JinjaRendering> JinjaTemplate::render(const JinjaTable& variables, const std::optional<std::tm>& now,
                                             const JinjaLimits& limits) const {
  return JinjaInterpreter(name_, variables, now, limits, strict_).run(*nodes_);
}

}  // namespace longhaul
