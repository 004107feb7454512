// Room engine/data/jinja
// A subset of Jinja that runs chat templates as transformers sets it up, within limits of steps, depth and output.
// jinja_template.h is the way in; jinja_lexer.h, jinja_parser.h and jinja_interpreter.h are its three steps;
// jinja_evaluator.h works out expressions for the third, jinja_budget.h bounds it.
// What the subset lacks is refused with its line; nothing is approximated.
// It knows no tokenizer and no conversation: engine/data/template does.
//
// A chat template: Jinja as transformers runs it (3.1, sandboxed, trim_blocks, lstrip_blocks, loop controls, `tojson`,
// `raise_exception`, `strftime_now`, {% generation %}), less what no family of models uses. What is not done is refused
// with its line, when the template is read where that can be seen then; nothing is approximated.
//
//   statements  if, for ... if ... else, set (also of blocks and namespaces), macro, filter, with, raw, break, continue
//   refused     include, import, extends, block, call, recursive loops, autoescape, *args; letters beyond those of
//               values/text_case.h changed in case; numbers beyond 64 bits; printing of what Python prints with an
//               address
//
// A template is a program of a stranger's: it runs within limits of steps, of text and of nesting, and sees nothing but
// the values that it is given.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error/result.h"
#include "engine/data/jinja/jinja_setup.h"
#include "engine/data/jinja/values/jinja_value.h"

namespace longhaul {

struct JinjaNode;

struct JinjaLimits {
  std::uint64_t steps = 5'000'000;  // parts evaluated, and bytes handled by 256
  std::uint64_t output_bytes = std::uint64_t{1} << 24;
};

struct JinjaRendering {
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>> answers;  // [begin, end) of each {% generation %} block, in bytes
};

class JinjaTemplate {
 public:
  // `name` stands in errors, as name:line. ErrorCode::unsupported: not done here, or no Jinja.
  static Result<JinjaTemplate> parse(const std::string& source, const std::string& name, const JinjaSetup& setup = {});
  const std::string& name() const { return name_; }

  // `now` is what strftime_now() shows; without it the template has no such function. Texts must be UTF-8. Thread-safe.
  // Errors carry the line; ErrorCode::invalid_input: the template itself refused, by raise_exception.
  Result<JinjaRendering> render(const JinjaTable& variables, const std::optional<std::tm>& now = {},
                                const JinjaLimits& limits = {}) const;

 private:
  std::string name_;
  bool strict_ = false;
  std::shared_ptr<const std::vector<std::unique_ptr<JinjaNode>>> nodes_;
};

}  // namespace longhaul
