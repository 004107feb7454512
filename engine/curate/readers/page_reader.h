// What readers of files that are one document each have in common.
#pragma once

#include <functional>
#include <string_view>

#include "engine/curate/readers/document_readers.h"

namespace longhaul {

// Reads the whole file, and lets `extract` fill the document from its bytes unless there are too many of them. The time
// that `extract` takes is the document's.
Status read_page(const ReadJob& job,
                 const std::function<void(std::string_view bytes, FoundDocument& document)>& extract);

}  // namespace longhaul
