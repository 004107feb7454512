// The words of a refusal are those that the code says.
#include "contracts/borders/border_table.h"

#include <doctest/doctest.h>

#include <string>

#include "base/files/files.h"

using namespace longhaul;

TEST_CASE("borders: the words of every refusal stand in the source that is named") {
  int refusals = 0;
  for (const auto table : {file_border(), page_border(), model_border(), template_border()})
    for (const BorderEntry& entry : table) {
      CAPTURE(entry.what);
      CAPTURE(entry.text);
      CHECK(std::string(entry.text).size() > 2);
      CHECK((entry.treatment == Treatment::refused) == (*entry.source != '\0'));
      if (entry.treatment != Treatment::refused) continue;
      ++refusals;
      const auto source = read_file(std::string(LONGHAUL_SOURCE_DIR) + "/" + entry.source);
      REQUIRE_MESSAGE(source.ok(), source.error().message());
      CHECK(source->find(entry.text) != std::string::npos);
    }
  CHECK(refusals > 10);
}
