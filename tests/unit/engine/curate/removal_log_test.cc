#include "engine/curate/removal_log.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

CurateDocument document_named(const char* id, const char* text) {
  CurateDocument document;
  document.id = id, document.source = std::string(id) + ".html", document.text = text;
  return document;
}

TEST_CASE("a removed document is counted in the step under way, has a line and is known as gone") {
  RemovalLog removals;
  const CurateDocument first = document_named("1", "four"), second = document_named("2", "seventy");
  removals.begin("clean", 2, 11);
  CHECK_FALSE(removals.has(first));
  removals.remove(first, "short", "1 line");
  removals.end(1, 7, 0.5);
  CHECK(removals.has(first));
  CHECK_FALSE(removals.has(second));
  REQUIRE(removals.steps().size() == 1);
  REQUIRE(removals.steps()[0].reasons.size() == 1);
  CHECK(removals.steps()[0].reasons[0].documents == 1);
  CHECK(removals.steps()[0].reasons[0].bytes == 4);
  CHECK(removals.lines() == R"({"id":"1","source":"1.html","step":"clean","reason":"short","detail":"1 line"})"
                            "\n");
}

TEST_CASE("what is only counted has no line, and what has only a line is not counted") {
  RemovalLog removals;
  const CurateDocument document = document_named("1", "four");
  removals.begin("read", 1, 4);
  removals.end(1, 4, 0);
  removals.begin("split", 1, 4);
  removals.count("held_out", 0, 3);
  CHECK(removals.lines() == "");
  removals.note(document, "held_out", "whole");
  removals.end(1, 1, 0);
  CHECK(removals.has(document));
  CHECK(removals.lines().find(R"("step":"split")") != std::string::npos);
  REQUIRE(removals.steps().size() == 2);
  CHECK(removals.steps()[0].reasons.empty());
  REQUIRE(removals.steps()[1].reasons.size() == 1);
  CHECK(removals.steps()[1].reasons[0].documents == 0);
  CHECK(removals.steps()[1].reasons[0].bytes == 3);
}

}  // namespace
}  // namespace longhaul
