#include "engine/data/files/document_lines.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <thread>

#include "base/error/diagnostics.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

constexpr std::size_t batch_bytes = 16 << 20;
constexpr std::size_t line_problems_shown = 20;

Result<DocumentLine> read_document(std::string_view line) {
  LH_TRY(Value object, parse_json(line));
  Value* text = object.find("text");
  if (!text) return make_error(ErrorCode::invalid_input, "'text' is missing");
  if (!text->is_string())
    return make_error(ErrorCode::invalid_input, format("'text' is {}, expected a text", text->kind_name()));
  return DocumentLine{text->as_string(), object.get_string("language", "und")};
}

struct Row {
  std::string_view text;
  int line = 0;
};

}  // namespace

Status for_each_document(const std::string& path, int threads,
                         const std::function<void(const DocumentLine&, std::size_t index, int thread)>& each,
                         const std::function<Status(std::size_t batch_size, double fraction)>& done) {
  LH_TRY(const MappedFile file, MappedFile::open(path));
  const std::string_view all = file.view();
  Diagnostics problems;
  std::size_t hidden = 0;
  int line = 0;
  for (std::size_t at = 0; at < all.size();) {
    std::vector<Row> rows;
    for (const std::size_t begin = at;
         at < all.size() && at - begin < batch_bytes && rows.size() < batch_documents_max;) {
      const std::size_t end = std::min(all.find('\n', at), all.size());
      const std::string_view row = all.substr(at, end - at);
      at = end + 1;
      ++line;
      if (row.find_first_not_of(" \t\r") != std::string_view::npos) rows.push_back({row, line});
    }
    std::vector<std::optional<Error>> errors(rows.size());
    const auto work = [&](int thread) {
      const auto lanes = static_cast<std::size_t>(std::max(threads, 1));
      for (auto i = static_cast<std::size_t>(thread); i < rows.size(); i += lanes) {
        Result<DocumentLine> document = read_document(rows[i].text);
        if (document.ok())
          each(*document, i, thread);
        else
          errors[i] = document.error();
      }
    };
    std::vector<std::thread> workers;
    for (int thread = 1; thread < threads; ++thread) workers.emplace_back(work, thread);
    work(0);
    for (std::thread& worker : workers) worker.join();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!errors[i]) continue;
      if (problems.size() < line_problems_shown)
        problems.add(SourcePos{path, rows[i].line, 0}, errors[i]->what);
      else
        ++hidden;
    }
    if (problems.empty()) {
      const Status status =
          done(rows.size(), static_cast<double>(std::min(at, all.size())) / static_cast<double>(all.size()));
      LH_CHECK(status);
    }
  }
  return problems.to_status(hidden > 0 ? format("and {} more lines with errors", hidden) : "no tokens were written");
}

}  // namespace longhaul
