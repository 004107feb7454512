// Room orchestrator/cli/docs
// Pages that are generated from tables in contracts/borders and not from settings.
// It only writes text: what is taken and refused is decided where it is read.
//
// docs/compatibility.md: a table for each border at which something of others comes in. To renew it:
// longhaul docs compatibility > docs/compatibility.md
#pragma once

#include "orchestrator/cli/options/reference_docs.h"

namespace longhaul {

ReferencePage compatibility_page();

}  // namespace longhaul
