#include "engine/curate/examine.h"

#include <algorithm>
#include <chrono>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "engine/curate/extract/clean_text.h"
#include "engine/curate/filter/language.h"
#include "engine/curate/readers/document_readers.h"

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

ExaminedDocument examine_found(FoundDocument found, const InputFile& file, const CurateSettings& settings,
                               const PageNamer& namer) {
  ExaminedDocument examined;
  CurateDocument& document = examined.document;
  const std::string source = found.record > 0 ? format("{}#{}", file.source, found.record) : file.source;
  name_document(document, source, found.origin.empty() ? source : found.origin, namer);
  document.title = std::move(found.title);
  document.author = std::move(found.author);
  document.date = std::move(found.date);
  document.url = std::move(found.url);
  document.text = std::move(found.text);
  examined.raw_bytes = found.bytes;
  examined.repeated_bytes = found.repeated_bytes;
  examined.extract_s = found.seconds;
  if (found.is_too_large)
    remove(examined, "extract", "too_large", format("page_bytes_max is {}", settings.page_bytes_max.value));
  else
    examine_text(examined, settings);
  return examined;
}

}  // namespace

Result<ExaminedFile> examine_file(const InputFile& file, const CurateSettings& settings, const PageNamer& namer,
                                  const RepeatedBlocks* repeated) {
  const auto examine = [&]() -> Result<ExaminedFile> {
    if (!file.refusal.empty()) return make_error(ErrorCode::unsupported, format("{}: {}", file.path, file.refusal));
    ExaminedFile result;
    const auto found = [&](FoundDocument document) {
      result.documents.push_back(examine_found(std::move(document), file, settings, namer));
    };
    const auto rejected = [&](RejectedRecord record) { result.rejected.push_back(std::move(record)); };
    LH_CHECK(reader_of(*file.type).read({file, settings, repeated, found, rejected}));
    return result;
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
