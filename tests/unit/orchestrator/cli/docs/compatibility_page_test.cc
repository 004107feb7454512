// docs/compatibility.md is what the tables in code say. To renew it: longhaul docs compatibility >
// docs/compatibility.md
#include "orchestrator/cli/docs/compatibility_page.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {

TEST_CASE("docs/compatibility.md is not stale, and has a table for every border") {
  const auto kept = read_file(LONGHAUL_SOURCE_DIR "/docs/compatibility.md");
  REQUIRE_MESSAGE(kept.ok(), kept.error().message());
  const bool fresh = trim(*kept) == trim(wrapped_page(compatibility_page().text));
  CHECK_MESSAGE(fresh, "run longhaul docs compatibility > docs/compatibility.md");
  for (const char* border : {"Pages", "Files", "Rows of tuning data", "Models", "Chat templates", "Requests"})
    CHECK(kept->find(format("\n## {}\n", border)) != std::string::npos);
}

}  // namespace longhaul
