#include "engine/curate/examine.h"

#include <algorithm>
#include <chrono>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "engine/curate/extract/charset.h"
#include "engine/curate/extract/clean_text.h"
#include "engine/curate/filter/language.h"
#include "engine/curate/html/html_text.h"

namespace longhaul {
namespace {

class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void remove(ExaminedDocument& examined, const char* step, std::string reason, std::string detail) {
  examined.removed_in = step;
  examined.reason = std::move(reason);
  examined.detail = std::move(detail);
}

bool is_wanted_language(const std::string& code, const std::vector<std::string>& wanted) {
  if (wanted.empty()) return true;
  const std::string base = code.substr(0, code.find('-'));
  return std::any_of(wanted.begin(), wanted.end(),
                     [&](const std::string& w) { return w == code || w == base || (w == "nb" && base == "no"); });
}

// From clean text on; `examined.document.text` is what was extracted.
void examine_text(ExaminedDocument& examined, const CurateSettings& settings) {
  CurateDocument& document = examined.document;
  examined.extracted_bytes = static_cast<std::int64_t>(document.text.size());
  {
    const Stopwatch watch(examined.clean_s);
    document.text = clean_text(document.text);
    document.title = replace_all(clean_text(document.title), "\n", " ");
  }
  examined.clean_bytes = static_cast<std::int64_t>(document.text.size());
  if (document.text.empty()) return remove(examined, "clean", "empty", "no text in the page's main content");
  {
    const Stopwatch watch(examined.language_s);
    const LanguageGuess guess = detect_language(document.text);
    document.language = guess.code;
    if (guess.code == "und") {
      if (!settings.keep_unknown_language)
        return remove(examined, "language", "unknown", "CLD2 knows no language like this");
    } else if (guess.score < settings.language_score_min) {
      return remove(examined, "language", "mixed",
                    format("{} is {:.0f} % of the text; at least {:.0f} % wanted", guess.code, 100 * guess.score,
                           100 * settings.language_score_min));
    } else if (!is_wanted_language(guess.code, settings.languages)) {
      return remove(examined, "language", "not_wanted", guess.code);
    }
  }
  {
    const Stopwatch watch(examined.line_rules_s);
    document.text = apply_line_rules(document.text, settings.line_rules, examined.removed_lines);
    if (document.text.empty()) return remove(examined, "line_rules", "empty", "every line broke a rule");
  }
  const Stopwatch watch(examined.document_rules_s);
  if (auto verdict =
          broken_document_rule(document.text, document.language, settings.document_rules, &examined.rules_left_out)) {
    remove(examined, "document_rules", verdict->rule, verdict->detail);
  }
}

void name_document(CurateDocument& document, const std::string& source, const std::string& path,
                   const PageNamer& namer) {
  document.source = source;
  document.id = hex64(xxh3_64(source));
  PageIdentity identity = namer.name(path);
  document.page = std::move(identity.page);
  document.path_language = std::move(identity.language);
}

void read_fields(CurateDocument& document, const Value& object) {
  document.title = object.get_string("title");
  document.author = object.get_string("author");
  document.date = object.get_string("date");
  document.url = object.get_string("url");
  document.text = object.get_string("text");
}

Result<ExaminedFile> examine_records(const InputFile& file, const CurateSettings& settings, const PageNamer& namer) {
  ExaminedFile result;
  const auto record = [&](const InputRecord& found) {
    ExaminedDocument examined;
    const std::string origin = found.object.get_string("page", found.object.get_string("url"));
    const std::string source = format("{}#{}", file.source, found.line);
    name_document(examined.document, source, origin.empty() ? source : origin, namer);
    read_fields(examined.document, found.object);
    examined.raw_bytes = found.bytes;
    examine_text(examined, settings);
    result.documents.push_back(std::move(examined));
  };
  const auto rejected = [&](RejectedRecord found) { result.rejected.push_back(std::move(found)); };
  LH_CHECK(read_records(file, settings.page_bytes_max.value, record, rejected));
  return result;
}

Result<ExaminedFile> examine_page(const InputFile& file, const CurateSettings& settings, const PageNamer& namer,
                                  const RepeatedBlocks* repeated) {
  LH_TRY(const std::string bytes, read_input(file, settings.page_bytes_max.value));
  ExaminedDocument examined;
  CurateDocument& document = examined.document;
  name_document(document, file.source, file.source, namer);
  examined.raw_bytes = static_cast<std::int64_t>(bytes.size());
  if (examined.raw_bytes > settings.page_bytes_max.value) {
    remove(examined, "extract", "too_large", format("page_bytes_max is {}", settings.page_bytes_max.value));
  } else {
    {
      const Stopwatch watch(examined.extract_s);
      if (file.kind == InputKind::html) {
        HtmlTextSettings html;
        html.markdown_tables = settings.markdown_tables;
        PageText page = extract_main_text(bytes, html, repeated);
        examined.repeated_bytes = page.repeated_bytes;
        document.title = std::move(page.title);
        document.author = std::move(page.author);
        document.date = std::move(page.date);
        document.url = std::move(page.url);
        document.text = std::move(page.text);
      } else {
        document.text = decode_bytes(bytes, false).text;
      }
    }
    examine_text(examined, settings);
  }
  ExaminedFile result;
  result.documents.push_back(std::move(examined));
  return result;
}

}  // namespace

Result<ExaminedFile> examine_file(const InputFile& file, const CurateSettings& settings, const PageNamer& namer,
                                  const RepeatedBlocks* repeated) {
  const auto examine = [&]() -> Result<ExaminedFile> {
    if (!file.refusal.empty()) return make_error(ErrorCode::unsupported, format("{}: {}", file.path, file.refusal));
    return file.kind == InputKind::jsonl ? examine_records(file, settings, namer)
                                         : examine_page(file, settings, namer, repeated);
  };
  Result<ExaminedFile> examined = examine();
  if (examined.ok() || file.named) return examined;
  ExaminedFile unreadable;
  unreadable.documents.emplace_back();
  name_document(unreadable.documents[0].document, file.source, file.source, namer);
  remove(unreadable.documents[0], "read", unreadable_file, examined.error().message());
  unreadable.rejected.push_back({file.source, 0, "", unreadable_file, examined.error().message(), 0});
  return unreadable;
}

}  // namespace longhaul
