// What a template finds without being given it: the global functions, and `loop` within a loop.
#pragma once

#include <cstddef>
#include <ctime>
#include <optional>

#include "engine/data/jinja/values/jinja_value.h"

namespace longhaul {

// range, dict, namespace and raise_exception by their names; with `now`, strftime_now as well, which shows that time.
JinjaTable jinja_functions(const std::optional<std::tm>& now);

// The members of `loop` in the turn of items[at]. `depth` is 1 for the outermost loop. The table keeps nothing of
// `items` but copies of the two neighbours.
JinjaTable jinja_loop(const JinjaList& items, std::size_t at, int depth);

}  // namespace longhaul
