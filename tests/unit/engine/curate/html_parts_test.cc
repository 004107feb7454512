// Parts of pages that are neither paragraphs nor furniture: tables, listings, lists, captions, metadata, and names.
#include <doctest/doctest.h>

#include "engine/curate/html/html_names.h"
#include "engine/curate/html/html_text.h"

namespace longhaul {
namespace {

TEST_CASE("names of parts are read by whole words") {
  CHECK(name_words("related-stories postBody") == "|related stories|post body|");
  CHECK(name_words(" -- ") == "");
  for (const char* harmless : {"making-keys", "generating", "operating", "shared-memory", "symbolic", "has-sidebar",
                               "accreditation", "dated", "section", "main-content"}) {
    CAPTURE(harmless);
    CHECK(name_says(name_words(harmless)) == NameSays::nothing);
  }
  for (const char* part : {"related-work", "comment-syntax", "date-objects", "login-nodes", "search-trees"}) {
    CAPTURE(part);
    CHECK(name_says(name_words(part)) == NameSays::part);
  }
  for (const char* furniture : {"related-posts", "comments", "shareBar", "sharebar", "relatedposts", "sidebar2",
                                "js-social-links", "sign-up", "read-more"}) {
    CAPTURE(furniture);
    CHECK(name_says(name_words(furniture)) == NameSays::furniture);
  }
  CHECK(name_says(name_words("sidebar article-body")) == NameSays::content);
}

TEST_CASE("cells of a table of data keep their order, also beside empty ones") {
  const char* const html =
      "<table><tr><th></th><th>north</th><th>south</th></tr><tr><td>wind</td><td></td><td><p>3</p><p>m/s</p></td></tr>"
      "<tr><td>rain</td><td>1<br>2</td><td></td></tr></table>";
  CHECK(extract_all_text(html).text == "| north | south\nwind | | 3 m/s\nrain | 1 2 |");
  HtmlTextSettings settings;
  settings.markdown_tables = true;
  CHECK(extract_all_text(html, settings).text ==
        "| | north | south |\n| --- | --- | --- |\n| wind | | 3 m/s |\n| rain | 1 2 | |");
}

TEST_CASE("a listing keeps its lines, whatever its author made them of") {
  CHECK(extract_all_text("<pre>a<br>  b<br><br>c</pre>").text == "a\n  b\n\nc");
  CHECK(extract_all_text("<pre><div>a</div><div>  b</div></pre>").text == "a\n  b");
  CHECK(extract_all_text("<pre><span class='lineno'>1</span>a\n<span class='lineno'>2</span>b</pre>").text == "a\nb");
}

TEST_CASE("hidden elements are those that the browser does not show") {
  for (const char* hidden :
       {"hidden", "style='display:\nnone !important'", "style='visibility: hidden'", "aria-hidden='true'"}) {
    CAPTURE(hidden);
    CHECK(extract_all_text(std::string("<p>seen</p><p ") + hidden + ">not</p>").text == "seen");
  }
}

TEST_CASE("what a browser with scripts does not show, and pictures without text, give no text") {
  CHECK(
      extract_all_text("<p>seen</p><noscript><img src='a.png' alt='not'><p>Switch scripts on</p></noscript><p>too</p>")
          .text == "seen\n\ntoo");
  CHECK(extract_all_text("<p>a <img src='a.png' alt='a harbour'> b</p><script>let x = '<p>not</p>'</script>").text ==
        "a b");
}

TEST_CASE("definitions, what opens on a click, and the end of a list stay") {
  const std::string prose =
      "The harbour of the old town was built three centuries ago, and the families who live behind it still repair "
      "nets by hand. Visitors come in summer; in winter the place belongs to the gulls and the wind.";
  const std::string text =
      extract_main_text("<div><p>" + prose + "</p><p>" + prose + "</p><details><summary>More</summary><p>" + prose +
                        " Folded.</p></details><dl><dt>net</dt><dd>what catches</dd></dl><ul>"
                        "<li>rope</li><li>hook</li></ul></div>")
          .text;
  for (const char* part : {"More", "Folded.", "net", "what catches", "- rope\n- hook"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("a caption with a number belongs to the text") {
  const std::string prose =
      "<p>The harbour of the old town was built three centuries ago, and the families who live behind it still repair "
      "nets by hand. Visitors come in summer; in winter the place belongs to the gulls and the wind.</p>";
  const std::string text =
      extract_main_text("<div>" + prose +
                        "<figure><img><figcaption>Figure 2: A net, drawn by hand, of the year in "
                        "which the harbour was built.</figcaption></figure>" +
                        prose + "<figure><img><figcaption>Photo by nobody</figcaption></figure>" + prose + "</div>")
          .text;
  CHECK(text.find("Figure 2: A net") != std::string::npos);
  CHECK(text.find("Photo by nobody") == std::string::npos);
}

TEST_CASE("what a page says of itself is kept") {
  const PageText page = extract_main_text(
      "<html lang='pt-BR'><head><title>T</title><meta name='author' content='A. B.'><meta "
      "property='article:published_time' content='2024-05-06'><link rel='canonical' href='https://x.org/p'></head>"
      "<body><p>text</p></body></html>");
  CHECK(page.author == "A. B.");
  CHECK(page.date == "2024-05-06");
  CHECK(page.url == "https://x.org/p");
  CHECK(page.language == "pt-BR");
}

}  // namespace
}  // namespace longhaul
