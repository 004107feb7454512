// Unicode normalization form C, by ICU. The only file that knows ICU here is nfc.cc; a build without ICU says so.
#pragma once

#include <string>
#include <string_view>

#include "base/error/result.h"

namespace longhaul {

Status require_nfc();  // ErrorCode::unsupported where this build has no ICU
// `text`: valid UTF-8. Already normalized text is copied. Only after require_nfc() is ok.
std::string compose_nfc(std::string_view text);

}  // namespace longhaul
