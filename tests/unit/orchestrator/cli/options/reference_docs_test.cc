// docs/reference is what the program says of itself. To renew it: longhaul docs --output docs/reference
#include "orchestrator/cli/options/reference_docs.h"

#include <doctest/doctest.h>

#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/cli/options/command_specs.h"

namespace longhaul {

TEST_CASE("docs/reference is not stale") {
  std::set<std::string> names;
  for (const ReferencePage& page : reference_pages()) {
    names.insert(page.name);
    const auto kept = read_file(join_path(LONGHAUL_SOURCE_DIR "/docs/reference", page.name));
    REQUIRE_MESSAGE(kept.ok(), kept.error().message());
    const bool fresh = *kept == wrapped_page(page.text);
    CHECK_MESSAGE(fresh, page.name << " is stale: run longhaul docs --output docs/reference");
  }
  const auto kept = list_directory(LONGHAUL_SOURCE_DIR "/docs/reference");
  REQUIRE(kept.ok());
  for (const std::string& name : *kept) CHECK(names.count(name) == 1);
}

TEST_CASE("pages are wrapped where they are prose, and so that no line becomes a list or a heading") {
  CHECK(wrapped_page("one two three\n\nfour", 8) == "one two\nthree\n\nfour");
  CHECK(wrapped_page("word without-any-space", 8) == "word\nwithout-any-space");
  CHECK(wrapped_page("one two - three", 8) == "one\ntwo -\nthree");
  CHECK(wrapped_page("`code` begins this line", 10) == "`code`\nbegins\nthis line");
  for (const char* kept : {"| a table | of many columns |", "# a heading that is long", "    code that is long",
                           "- a list that is long", "<!-- a comment -->", "```\ncode that is long\n```\n"})
    CHECK(wrapped_page(kept, 8) == kept);
}

TEST_CASE("exit codes are distinct, and every error has one") {
  std::set<int> codes;
  for (const ExitCodeText& text : exit_code_texts()) CHECK(codes.insert(static_cast<int>(text.code)).second);
  CHECK(exit_code_for(ErrorCode::invalid_input) == ExitCode::invalid_input);
  CHECK(exit_code_for(ErrorCode::conflict) == ExitCode::conflict);
  for (int code = 0; code <= static_cast<int>(ErrorCode::conflict); ++code)
    CHECK(codes.count(static_cast<int>(exit_code_for(static_cast<ErrorCode>(code)))) == 1);
}

TEST_CASE("help of every command has an example of itself") {
  for (const CommandSpec& spec : command_specs()) {
    REQUIRE(!spec.examples.empty());
    CHECK(starts_with(spec.usage, "longhaul " + spec.name));
    for (const std::string& example : spec.examples) CHECK(example.find("longhaul " + spec.name) != std::string::npos);
    CHECK(command_footer(spec).find("Exit codes:\n  0  ") != std::string::npos);
  }
}

}  // namespace longhaul
