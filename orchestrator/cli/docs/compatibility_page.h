// docs/compatibility.md: a table for each border at which something of others comes in. To renew it:
// longhaul docs compatibility > docs/compatibility.md
#pragma once

#include "orchestrator/cli/options/reference_docs.h"

namespace longhaul {

ReferencePage compatibility_page();

}  // namespace longhaul
