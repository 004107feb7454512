#include "engine/curate/html/html_text.h"

#include <doctest/doctest.h>

#include <ctime>
#include <random>

#include "base/text/text.h"
#include "engine/curate/extract/charset.h"
#include "engine/curate/html/html_depth.h"
#include "engine/curate/html/html_tree.h"

namespace longhaul {
namespace {

const char* const html_text_prose =
    "The harbour of the old town was built three centuries ago, and the families who live behind it still repair "
    "nets by hand. Visitors come in summer; in winter the place belongs to the gulls, the fishermen and the wind.";

std::string html_text_page(const std::string& body) {
  return "<!DOCTYPE html><html><head><title>  The  harbour </title><script>var x = '<p>not "
         "text</p>';</script></head><body>" +
         body + "</body></html>";
}

bool html_text_has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Processor time, so that a busy machine does not fail the test.
double html_text_seconds(const std::string& html) {
  const std::clock_t start = std::clock();
  (void)extract_main_text(html);
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

std::string html_text_repeat(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

TEST_CASE("the article stays, what surrounds it goes") {
  const std::string prose = html_text_prose;
  const PageText page = extract_main_text(html_text_page(
      "<nav><a href='/'>Home</a> <a href='/n'>News</a></nav><div class='content'><h1>A harbour</h1><p>" + prose +
      "</p><p>" + prose +
      " More.</p><ul><li>Nets and ropes, new and old</li><li>Boats</li></ul><pre>first line\n    second line</pre><p>" +
      prose +
      " End.</p></div><div class='related-stories'><p><a href='/1'>Ten harbours you must see before winter "
      "comes</a></p></div>"
      "<footer>Copyright, all rights reserved by the harbour company</footer>"));
  CHECK(page.title == "The harbour");
  CHECK(html_text_has(page.text, prose + "\n\n"));
  CHECK(html_text_has(page.text, "A harbour"));
  CHECK(html_text_has(page.text, "- Nets and ropes, new and old\n- Boats"));
  CHECK(html_text_has(page.text, "first line\n    second line"));
  CHECK_FALSE(html_text_has(page.text, "News"));
  CHECK_FALSE(html_text_has(page.text, "Ten harbours"));
  CHECK_FALSE(html_text_has(page.text, "Copyright"));
  CHECK_FALSE(html_text_has(page.text, "not text"));
}

TEST_CASE("a chapter of a manual keeps its boxes and listings and loses its navigation") {
  const std::string prose = html_text_prose;
  const PageText page = extract_main_text(html_text_page(
      "<ul class='docnav'><li class='previous'><a href='a.html'>Previous</a></li></ul><div class='section'><h2>6.2. "
      "Nets</h2>"
      "<div class='para'>" +
      prose + "</div><div class='sidebar'><p><strong>BACK TO BASICS Knots</strong></p><div class='para'>A knot " +
      prose + "</div></div><pre class='screen'># apt install nets</pre><div class='para'>Then " + prose +
      "</div></div><div class='navfooter'><table><tr><td><a href='b.html'>Next</a></td></tr></table></div>"));
  CHECK(html_text_has(page.text, "6.2. Nets"));
  CHECK(html_text_has(page.text, "A knot The harbour"));
  CHECK(html_text_has(page.text, "# apt install nets"));
  CHECK_FALSE(html_text_has(page.text, "Previous"));
  CHECK_FALSE(html_text_has(page.text, "Next"));
}

TEST_CASE("hidden elements and discussions do not count as content") {
  const std::string prose = html_text_prose;
  const PageText page = extract_main_text(html_text_page(
      "<div class='article'><p>" + prose + "</p></div><p style='display: none'>Secret " + prose +
      "</p><div class='comment-list'>" + html_text_repeat("<p>I disagree: " + prose + "</p>", 3) + "</div>"));
  CHECK(page.text == prose);
}

TEST_CASE("entities, breaks and table rows become text") {
  const PageText page = extract_all_text(
      "<p>a &amp; b &lt;c&gt; &eacute;&#x20AC;<br>next<br><br>far</p><table><tr><td>x</td><td>y</td></tr></table>");
  CHECK(page.text == "a & b <c> \xC3\xA9\xE2\x82\xAC\nnext\n\nfar\n\nx | y");
}

TEST_CASE("charsets: marks, declarations, and none") {
  CHECK(decode_bytes("\xEF\xBB\xBFh\xC3\xA9", true).text == "h\xC3\xA9");
  CHECK(decode_bytes(std::string("\xFF\xFEh\0\xE9\0", 6), true).text == "h\xC3\xA9");
  CHECK(decode_bytes("<meta charset=\"iso-8859-2\">\xB1", true).text == "<meta charset=\"iso-8859-2\">\xC4\x85");
  CHECK(decode_bytes("<meta http-equiv=content-type content='text/html; charset=Shift_JIS'>\x93\xFA", true).charset ==
        "shift_jis");
  CHECK(decode_bytes("na\xEFve \x93quoted\x94", true).text == "na\xC3\xAFve \xE2\x80\x9Cquoted\xE2\x80\x9D");
  CHECK(decode_bytes("<meta charset=latin1>h\xC3\xA9", true).text ==
        "<meta charset=latin1>h\xC3\xA9");  // the bytes know better
  CHECK(decode_bytes("gr\xC3\xBC\xC3\x9F \xFF dich", true).text == "gr\xC3\xBC\xC3\x9F \xEF\xBF\xBD dich");
  CHECK(decode_bytes("<meta charset=no-such-thing>\xE9", true).charset == "windows-1252");
}

TEST_CASE("nothing and nonsense are pages too") {
  CHECK(extract_main_text("").text.empty());
  CHECK(extract_all_text("a < b").text == "a < b");
  CHECK(extract_main_text("<!-- never closed").title.empty());
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::string bytes;
    const char* const tags[] = {"<div>", "</div>", "<p",   ">",          "<table><tr>", "</b>",
                                "<b>",   "<!--",   "\xFF", "&#x110000;", "<svg>",       "<title>"};
    for (int i = 0; i < 3000; ++i) {
      bytes += random() % 2 ? std::string(1, static_cast<char>(random() & 0xFF)) : tags[random() % std::size(tags)];
    }
    const PageText page = extract_main_text(bytes);
    CHECK(is_valid_utf8(page.text));
    CHECK(is_valid_utf8(page.title));
  }
}

#if defined(__SANITIZE_ADDRESS__)
constexpr double monstrous_seconds = 10;  // what is not seen to takes minutes without sanitizers
#else
constexpr double monstrous_seconds = 1;
#endif

// A parser pays for every open element at every tag: 100,000 nested elements took it over a minute.
TEST_CASE("monstrous pages take less than a second") {
  const int count = 100'000;
  SUBCASE("nested blocks, closed") {
    CHECK(html_text_seconds(html_text_repeat("<div>", count) + "deep" + html_text_repeat("</div>", count)) <
          monstrous_seconds);
  }
  SUBCASE("nested blocks, never closed") {
    CHECK(html_text_seconds(html_text_repeat("<div>x", count)) < monstrous_seconds);
  }
  SUBCASE("nested formatting") {
    CHECK(html_text_seconds(html_text_repeat("<b><i>x", count / 2)) < monstrous_seconds);
  }
  SUBCASE("nested tables") {
    CHECK(html_text_seconds(html_text_repeat("<table><tr><td>", count / 3)) < monstrous_seconds);
  }
  SUBCASE("nested lists") {
    CHECK(html_text_seconds(html_text_repeat("<ul><li>", count / 2)) < monstrous_seconds);
  }
  SUBCASE("one tag with many attributes") {
    std::string tag = "<p";
    for (int i = 0; i < count; ++i) tag += " a" + std::to_string(i);
    CHECK(html_text_seconds(tag + ">text") < monstrous_seconds);
  }
  SUBCASE("tags without end") {
    CHECK(html_text_seconds(html_text_repeat("<a ", count)) < monstrous_seconds);
  }
  SUBCASE("comments without end") {
    CHECK(html_text_seconds(html_text_repeat("<!--", count)) < monstrous_seconds);
  }
  SUBCASE("scripts without end") {
    CHECK(html_text_seconds(html_text_repeat("<noscript>", count)) < monstrous_seconds);
  }
}

TEST_CASE("impossible character references leave no bytes that are no character") {
  for (const char* reference : {"&#x80000080;", "&#xffffff80;", "&#x110000;", "&#xd800;", "&#99999999999999999999;"}) {
    CAPTURE(reference);
    const std::string html = std::string("<title>a") + reference + "b</title><p>a" + reference + "b</p>";
    CHECK(is_valid_utf8(extract_main_text(html).title));
    CHECK(is_valid_utf8(extract_all_text(html).title));
    CHECK(is_valid_utf8(extract_all_text(html).text));
  }
}

TEST_CASE("the text below the depth limit stays") {
  const std::string html = html_text_repeat("<div>", 1000) + "deep" + html_text_repeat("</div>", 1000) + "<p>after</p>";
  CHECK(extract_all_text(html).text == "deep\n\nafter");
  const std::string flat = limit_html_depth("<div><div><div>x</div></div></div><p>y</p>", 2);
  CHECK(flat == "<div><div> x </div></div><p>y</p>");
  // Tables and lists bring levels of their own.
  CHECK(limit_html_depth("<table><tr><td><ul><li>x</ul></table>", 5) == "<table><tr><td> <li>x </table>");
  CHECK(limit_html_depth("<table><tr><td><ul><li>x</ul></table>", 6) == "<table><tr><td><ul><li>x</ul></table>");
}

TEST_CASE("misnested tags stay as they are while the page is shallow") {
  const std::string html = "<div><span><div>a</span></div>b</b></div></section>";
  CHECK(limit_html_depth(html, 256) == html);
}

}  // namespace
}  // namespace longhaul
