#include "engine/curate/filter/page_identity.h"

#include <doctest/doctest.h>

#include "engine/curate/read/inputs.h"

namespace longhaul {
namespace {

TEST_CASE("a page has one name in all its languages") {
  const auto namer = PageNamer::create("");
  REQUIRE(namer.ok());
  const struct {
    const char* path;
    const char* page;
    const char* language;
  } cases[] = {
      {"debian-handbook/html/es-ES/sect.apt-get.html", "debian-handbook/html/sect.apt-get.html", "es"},
      {"debian-handbook/html/en-US/sect.apt-get.html", "debian-handbook/html/sect.apt-get.html", "en"},
      {"installation-guide-amd64/zh_CN/ch01.html", "installation-guide-amd64/ch01.html", "zh"},
      {"debian/FAQ/de/choosing.de.html", "debian/FAQ/choosing.html", "de"},
      {"debian/FAQ/zh-cn/choosing.zh-cn.html", "debian/FAQ/choosing.html", "zh"},
      {"debian/FAQ/choosing.en.html", "debian/FAQ/choosing.html", "en"},
      {"debian/FAQ/choosing.html", "debian/FAQ/choosing.html", ""},
      {"notes.txt", "notes.txt", ""},
      {"de", "de", ""},
  };
  for (const auto& c : cases) {
    CAPTURE(c.path);
    CHECK(namer->name(c.path).page == c.page);
    CHECK(namer->name(c.path).language == c.language);
  }
}

TEST_CASE("language tags") {
  CHECK(is_language_tag("pt-BR"));
  CHECK(is_language_tag("zh-Hant"));
  CHECK_FALSE(is_language_tag("xx"));
  CHECK_FALSE(is_language_tag("html"));
  CHECK_FALSE(is_language_tag("en-"));
  CHECK_FALSE(is_language_tag("en-12"));
}

TEST_CASE("page_key names pages by its groups; other paths keep the general rule; mistakes are errors") {
  const auto namer = PageNamer::create("^([^/]+)/html/[^/]+/(.*)$");
  REQUIRE(namer.ok());
  CHECK(namer->name("book/html/klingon/a.html").page == "book/a.html");
  CHECK(namer->name("faq/de/a.html").page == "faq/a.html");
  CHECK_FALSE(PageNamer::create("(unclosed").ok());
  CHECK_FALSE(PageNamer::create("no group").ok());
}

TEST_CASE("patterns: * stays in a folder, ** does not") {
  CHECK(matches_pattern("a.html", "*.html"));
  CHECK_FALSE(matches_pattern("x/a.html", "*.html"));
  CHECK(matches_pattern("x/a.html", "**/*.html"));
  CHECK(matches_pattern("a.html", "**/*.html"));
  CHECK(matches_pattern("x/y/z/a.html", "**/*.html"));
  CHECK(matches_pattern("x/y/z/a.html", "x/**"));
  CHECK(matches_pattern("x/de/a.html", "x/*/a.ht?l"));
  CHECK_FALSE(matches_pattern("x/y/de/a.html", "x/*/a.html"));
  CHECK_FALSE(matches_pattern("a.htm", "*.html"));
}

}  // namespace
}  // namespace longhaul
