// The expressions of a template, by the grammar of Jinja 3.1. Each function reads from the cursor's place on, leaves it
// behind what it read, and fails with the line where the grammar is broken or a filter or test is not known.
#pragma once

#include "engine/data/jinja/jinja_cursor.h"

namespace longhaul {

// An expression, or several with commas between, which are a tuple. Without `with_choice` none of them has `a if b`, as
// the `if` behind it belongs to the statement; with `ends_at_names` a comma before `if` or `recursive` is the last.
Result<JinjaNodePtr> read_jinja_tuple(JinjaCursor& cursor, bool with_choice = true, bool ends_at_names = false);

Result<JinjaNodePtr> read_jinja_expression(JinjaCursor& cursor);

// One filter, whose `|` is the current token. `of` is what it is applied to: null for what a block will give.
Result<JinjaNodePtr> read_jinja_filter(JinjaCursor& cursor, JinjaNodePtr of);

}  // namespace longhaul
