// Endpoints of users that judge or continue what a model has written: one request for all of a step on a rank.
//
//   POST url   {"items": [..., ...]}
//   2xx        {NAME: [..., ...]}   one for each item, in their order
#pragma once

#include <string>

#include "base/value/value.h"

namespace longhaul {

// The list `name` of the answer to `items`, as long as those. An endpoint that does not answer, or by the status 503,
// is asked once more where the deadline, which is for both tries together, leaves time for it. unavailable: it does not
// answer, by another status than 2xx, by no JSON, or by another number.
Result<ValueArray> ask_endpoint(const std::string& url, std::int64_t deadline_s, Value items, const char* name);

}  // namespace longhaul
