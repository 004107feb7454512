#include "engine/curate/html/html_text.h"
#include "engine/curate/readers/page_reader.h"

namespace longhaul {

// A page is its main text.
Status read_html(const ReadJob& job) {
  return read_page(job, [&](std::string_view bytes, FoundDocument& document) {
    HtmlTextSettings html;
    html.markdown_tables = job.settings.markdown_tables;
    PageText page = extract_main_text(bytes, html, job.repeated);
    document.repeated_bytes = page.repeated_bytes;
    document.title = std::move(page.title);
    document.author = std::move(page.author);
    document.date = std::move(page.date);
    document.url = std::move(page.url);
    document.text = std::move(page.text);
  });
}

}  // namespace longhaul
