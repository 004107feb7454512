#include "engine/curate/examine.h"

#include <algorithm>
#include <chrono>

#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/curate/charset.h"
#include "engine/curate/clean_text.h"
#include "engine/curate/html_text.h"
#include "engine/curate/language.h"

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
  if (auto verdict = broken_document_rule(document.text, document.language, settings.document_rules)) {
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

Result<std::vector<ExaminedDocument>> examine_lines(const InputFile& file, const std::string& bytes,
                                                    const CurateSettings& settings, const PageNamer& namer) {
  std::vector<ExaminedDocument> result;
  int line_number = 0;
  for (std::size_t start = 0; start < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', start), bytes.size());
    const std::string_view line = std::string_view(bytes).substr(start, end - start);
    start = end + 1;
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto object = parse_json(is_valid_utf8(line) ? std::string(line) : repair_utf8(line), file.path);
    const Value* text = object.ok() ? object->find("text") : nullptr;
    if (!object.ok() || !text || !text->is_string()) {
      Error error = object.ok() ? make_error(ErrorCode::invalid_input, "no string \"text\" in this object",
                                             "each line is {\"text\": \"...\"}")
                                : object.error();
      error.where = SourcePos{file.path, line_number, 0};
      return error;
    }
    ExaminedDocument examined;
    const std::string origin = object->get_string("page", object->get_string("url"));
    const std::string source = format("{}#{}", file.source, line_number);
    name_document(examined.document, source, origin.empty() ? source : origin, namer);
    examined.document.title = object->get_string("title");
    examined.document.text = text->as_string();
    examined.raw_bytes = static_cast<std::int64_t>(line.size());
    examine_text(examined, settings);
    result.push_back(std::move(examined));
  }
  return result;
}

}  // namespace

Result<std::vector<ExaminedDocument>> examine_file(const InputFile& file, const CurateSettings& settings,
                                                   const PageNamer& namer) {
  constexpr std::int64_t file_bytes_max = 4LL << 30;
  const auto read = read_input(file, file_bytes_max);
  if (!read.ok()) {
    if (file.named) return read.error();
    ExaminedDocument examined;
    name_document(examined.document, file.source, file.source, namer);
    remove(examined, "extract", unreadable_file, read.error().message());
    return std::vector<ExaminedDocument>{std::move(examined)};
  }
  const std::string& bytes = *read;
  if (file.kind == InputKind::jsonl) return examine_lines(file, bytes, settings, namer);
  ExaminedDocument examined;
  CurateDocument& document = examined.document;
  name_document(document, file.source, file.source, namer);
  examined.raw_bytes = static_cast<std::int64_t>(bytes.size());
  if (examined.raw_bytes > settings.page_bytes_max.value) {
    remove(examined, "extract", "too_large",
           format("{} bytes; page_bytes_max is {}", bytes.size(), settings.page_bytes_max.value));
  } else {
    {
      const Stopwatch watch(examined.extract_s);
      if (file.kind == InputKind::html) {
        PageText page = extract_main_text(bytes);
        document.title = std::move(page.title);
        document.text = std::move(page.text);
      } else {
        document.text = decode_bytes(bytes, false).text;
      }
    }
    examine_text(examined, settings);
  }
  std::vector<ExaminedDocument> result;
  result.push_back(std::move(examined));
  return result;
}

}  // namespace longhaul
