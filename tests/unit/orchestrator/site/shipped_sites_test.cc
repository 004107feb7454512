// Every site file that the project ships is right, and says of every value where it was read or that nobody has checked
// it.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "orchestrator/site/site_config.h"

namespace longhaul {
namespace {

const std::string shipped_folder = LONGHAUL_SOURCE_DIR "/site-configs";

bool stands_below(const std::string& path, const std::string& above) {
  return path == above || starts_with(path, above + ".");
}

}  // namespace

TEST_CASE("shipped sites can be read, are named as their files and describe themselves") {
  const auto names = site_names({shipped_folder});
  CHECK(names.size() >= 18);
  for (const std::string& name : names) {
    CAPTURE(name);
    const auto site = load_site(name, {shipped_folder});
    REQUIRE_MESSAGE(site.ok(), site.error().message());
    CHECK(site->config.name == name);
    CHECK(!site->config.description.empty());
    for (const JobClass& one : site->config.classes)
      if (site->config.partitions.size() > 0)
        CHECK(std::find(site->config.partitions.begin(), site->config.partitions.end(), one.partition) !=
              site->config.partitions.end());
  }
}

TEST_CASE("every value of a shipped site has a source or is marked unverified, and no mark is left over") {
  for (const std::string& name : site_names({shipped_folder})) {
    const std::string path = join_path(shipped_folder, name + ".toml");
    CAPTURE(path);
    Value table = read_toml_file(path).value();
    std::vector<std::string> marks;
    if (const Value* sources = table.find("sources"))
      for (const ValueMember& member : sources->as_table()) {
        marks.push_back(member.key);
        CHECK(member.value.is_string());
        CHECK(member.value.as_string().size() > 5);
      }
    if (const Value* unverified = table.find("unverified"))
      for (const Value& one : unverified->as_array()) marks.push_back(one.as_string());
    CHECK(table.find("read_on") != nullptr);  // load_site() sees to its form
    for (const char* about_the_file :
         {"name", "description", "inherits", "sources", "read_on", "unverified", "verified", "origins"})
      table.erase(about_the_file);
    const auto leaves = leaves_of(table);
    for (const auto& [leaf, value] : leaves) {
      if (ends_with(leaf, ".description")) continue;
      CAPTURE(leaf);
      CHECK(std::any_of(marks.begin(), marks.end(), [&](const std::string& m) { return stands_below(leaf, m); }));
    }
    for (const std::string& mark : marks) {
      CAPTURE(mark);
      CHECK(
          std::any_of(leaves.begin(), leaves.end(), [&](const auto& leaf) { return stands_below(leaf.first, mark); }));
    }
  }
}

}  // namespace longhaul
