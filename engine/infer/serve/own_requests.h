// A server without token belongs to one person and answers only what that person's own programs send. What reaches it
// by way of a web browser is refused: a page of a stranger may post to 127.0.0.1 without asking (a "simple request"),
// and reads answers too once its own name has been pointed there (DNS rebinding). Neither can choose the Host that a
// browser sends, leave out Origin where it posts, or send application/json without a question first.
#pragma once

#include <optional>

#include "engine/infer/http/http_message.h"
#include "engine/infer/serve/openai_api.h"

namespace longhaul {

// Why a request is not answered by a server without token: 403 for a Host other than localhost, 127.x.y.z or [::1]
// (with any port: a tunnel may stand between) and for any Origin, 415 for a POST that is not application/json.
std::optional<ApiError> not_of_own_programs(const HttpRequest& head);

}  // namespace longhaul
