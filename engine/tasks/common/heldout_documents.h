// The held-out texts of a tokens artifact, document by document.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// `folder`: as the stage kind tokenize writes it (engine/data/tokenize_task.h). The bounds of documents are those of
// heldout.idx, the texts what its own tokenizer makes of heldout.bin; together they are heldout.txt, to the byte
// (invalid_input otherwise). A folder that has heldout.txt alone holds one document. Never empty; documents without
// text are left out.
Result<std::vector<std::string>> heldout_documents(const std::string& folder);

}  // namespace longhaul
