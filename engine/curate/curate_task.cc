#include "engine/curate/curate_task.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "base/digest/hash.h"
#include "base/error/diagnostics.h"
#include "base/files/files.h"
#include "base/system/parallel_for.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/curate/corpus_files.h"
#include "engine/curate/dedup/dedup.h"
#include "engine/curate/examine.h"
#include "engine/curate/extract/unicode.h"
#include "engine/curate/filter/page_identity.h"
#include "engine/curate/filter/sites.h"
#include "engine/curate/heldout_pages.h"
#include "engine/curate/read/inputs.h"
#include "engine/curate/readers/document_readers.h"
#include "engine/curate/removal_log.h"
#include "engine/curate/waterfall.h"

namespace longhaul {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string base_language(const std::string& code) {
  const std::string base = code.substr(0, code.find('-'));
  return base == "nb" || base == "nn" ? "no" : base;
}

Status check_settings(const CurateSettings& s) {
  Diagnostics problems;
  const auto require = [&](bool good, std::string what, std::string hint) {
    if (!good) problems.add(make_error(ErrorCode::invalid_input, std::move(what), std::move(hint)));
  };
  require(s.heldout_fraction >= 0 && s.heldout_fraction < 1, format("heldout_fraction = {}", s.heldout_fraction),
          "use 0 to below 1");
  require(s.heldout_bytes >= -1, format("heldout_bytes = {}", s.heldout_bytes), "use 0 or more bytes, or -1");
  require(s.dedup.bands > 0 && s.dedup.rows > 0 && s.dedup.bands * s.dedup.rows <= 4096,
          format("dedup bands = {}, rows = {}", s.dedup.bands, s.dedup.rows),
          "use positive numbers with a product of at most 4096");
  require(s.dedup.shingle_words > 0, format("dedup shingle_words = {}", s.dedup.shingle_words), "use 1 or more");
  require(s.dedup.paragraph_columns_min > 0, format("dedup paragraph_columns_min = {}", s.dedup.paragraph_columns_min),
          "use 1 or more");
  require(s.rejected_share_max >= 0 && s.rejected_share_max <= 1,
          format("rejected_share_max = {}", s.rejected_share_max), "use 0 to 1");
  require(s.rejected_min >= 0, format("rejected_min = {}", s.rejected_min), "use 0 or more");
  require(s.page_bytes_max.value > 0, format("page_bytes_max = {}", s.page_bytes_max.value), "use 1 or more bytes");
  return problems.to_status("nothing was read");
}

// Refuses inputs of which more `records` are broken than the settings allow.
Status check_rejected(const CurateReport& report, std::int64_t records, const CurateSettings& settings) {
  const auto share = static_cast<std::int64_t>(settings.rejected_share_max * static_cast<double>(records));
  const std::int64_t allowed = std::max(settings.rejected_min, share);
  if (report.rejected <= allowed) return {};
  return make_error(ErrorCode::invalid_input,
                    format("{} of {} records and files are broken, of which {} may be; the first: {}", report.rejected,
                           records, allowed, report.first_rejected),
                    "rejected.jsonl names each; mend them, or raise rejected_share_max or rejected_min");
}

// Divides the longest document of the page whose end is held out, where there is such a page.
void hold_end_out(const HeldoutChoice& choice, std::vector<CurateDocument>& documents,
                  std::vector<CurateDocument>& heldout, RemovalLog& removals) {
  CurateDocument* longest = nullptr;
  for (CurateDocument& document : documents)
    if (document.page == choice.cut_page && (!longest || document.text.size() > longest->text.size()))
      longest = &document;
  if (choice.cut_page.empty() || !longest) return;
  const std::size_t begin = begin_of_heldout_end(longest->text, choice.cut_bytes);
  if (begin == longest->text.size()) return;
  CurateDocument end_of_it = *longest;
  end_of_it.source += "#end";
  end_of_it.id = hex64(xxh3_64(end_of_it.source));
  end_of_it.text = longest->text.substr(begin);
  longest->text.resize(begin);
  while (ends_with(longest->text, "\n") || ends_with(longest->text, " ")) longest->text.pop_back();
  removals.count("held_out", 0, static_cast<std::int64_t>(end_of_it.text.size()));
  heldout.push_back(std::move(end_of_it));
}

class Curation {
 public:
  Curation(const CurateSettings& settings, std::string out_dir,
           const std::function<void(const CurateProgress&)>& progress)
      : settings_(settings), out_dir_(std::move(out_dir)), progress_(progress) {}

  Result<CurateReport> run(const CurateInputs& inputs) {
    const auto start = Clock::now();
    LH_CHECK(check_settings(settings_));
    LH_CHECK(read(inputs));
    LH_CHECK(account_for_reading());
    account_for_examination();
    order_for_deduplication();
    if (settings_.dedup.exact) remove_exact_duplicates();
    if (settings_.dedup.near_duplicates) remove_near_duplicates();
    if (settings_.dedup.paragraphs) remove_paragraphs();
    split_heldout();
    return finish(start);
  }

 private:
  // --- reading and what each document decides for itself ---

  Status read(const CurateInputs& inputs) {
    Diagnostics problems;
    const FoundInputs found = find_inputs(inputs.documents, document_types(), problems);
    LH_TRY(const PageNamer namer, PageNamer::create(settings_.page_key));
    const Sites sites = Sites::look_at(found.files, namer, settings_);
    std::vector<ExaminedFile> examined(found.files.size());
    std::vector<std::optional<Error>> errors(found.files.size());
    std::mutex mutex;
    std::int64_t done = 0;
    parallel_for(found.files.size(), settings_.threads, [&](std::size_t i) {
      auto result = examine_file(found.files[i], settings_, namer, sites.repeated_on(found.files[i], namer));
      if (result.ok()) {
        examined[i] = std::move(result).value();
      } else {
        errors[i] = result.error();
      }
      const std::lock_guard lock(mutex);
      if (progress_) progress_({"read", ++done, static_cast<std::int64_t>(found.files.size())});
    });
    for (auto& error : errors) {
      if (error) problems.add(*error);
    }
    LH_CHECK(problems.to_status("no corpus was made"));
    report_.files = static_cast<std::int64_t>(found.files.size());
    for (ExaminedFile& file : examined) {
      std::move(file.documents.begin(), file.documents.end(), std::back_inserter(examined_));
      std::move(file.rejected.begin(), file.rejected.end(), std::back_inserter(rejected_));
    }
    return {};
  }

  // The first step of the waterfall: what is no document at all. Too much of it is an error: then the inputs are not
  // what their user takes them for.
  Status account_for_reading() {
    std::int64_t records = 0, bytes = 0, lost_bytes = 0, broken_files = 0;
    for (const ExaminedDocument& e : examined_) {
      ++records;
      bytes += e.raw_bytes;
      broken_files += e.removed_in == "read";
    }
    for (const RejectedRecord& r : rejected_) {
      if (r.reason == unreadable_file) continue;  // counted as the document that it would have been
      ++records;
      lost_bytes += r.bytes;
    }
    report_.rejected = static_cast<std::int64_t>(rejected_.size());
    if (!rejected_.empty()) report_.first_rejected = rejected_text(rejected_.front());
    removals_.begin("read", records, bytes + lost_bytes);
    for (const RejectedRecord& r : rejected_) {
      if (r.reason != unreadable_file) removals_.count(r.reason, 1, r.bytes);
    }
    for (const ExaminedDocument& e : examined_) {
      if (e.removed_in != "read") continue;
      if (report_.unreadable_files++ == 0) report_.first_unreadable = e.detail;
      removals_.count(e.reason, 1, e.raw_bytes);
      removals_.note(e.document, e.reason, e.detail);
    }
    removals_.end(static_cast<std::int64_t>(examined_.size()) - broken_files, bytes, 0);
    LH_CHECK(write("rejected.jsonl", rejected_lines(rejected_)));
    return check_rejected(report_, records, settings_);
  }

  // One waterfall step out of the examination: `bytes_in` and `bytes_out` of a document, and its seconds.
  template <class In, class Out, class Seconds>
  void examination_step(const char* step, const In& bytes_in, const Out& bytes_out, const Seconds& seconds) {
    std::int64_t in = 0, out = 0, documents_in = 0, documents_out = 0;
    double work_s = 0;
    for (const ExaminedDocument& e : examined_) {
      if (removals_.has(e.document)) continue;
      ++documents_in;
      in += bytes_in(e);
      work_s += seconds(e);
    }
    removals_.begin(step, documents_in, in);
    for (const ExaminedDocument& e : examined_) {
      if (removals_.has(e.document)) continue;
      if (e.removed_in == step) {
        removals_.count(e.reason, 1, bytes_in(e));
        removals_.note(e.document, e.reason, e.detail);
        continue;
      }
      ++documents_out;
      out += bytes_out(e);
      if (std::string_view(step) == "extract" && e.repeated_bytes > 0)
        removals_.count("repeated_on_site", 0, e.repeated_bytes);
      if (std::string_view(step) != "line_rules") continue;
      for (const RemovedLines& lines : e.removed_lines) removals_.count(lines.rule, 0, lines.bytes);
    }
    removals_.end(documents_out, out, work_s);
  }

  void account_for_examination() {
    const auto raw = [](const ExaminedDocument& e) { return e.raw_bytes; };
    const auto extracted = [](const ExaminedDocument& e) { return e.extracted_bytes; };
    const auto clean = [](const ExaminedDocument& e) { return e.clean_bytes; };
    const auto text = [](const ExaminedDocument& e) { return static_cast<std::int64_t>(e.document.text.size()); };
    examination_step("extract", raw, extracted, [](const ExaminedDocument& e) { return e.extract_s; });
    examination_step("clean", extracted, clean, [](const ExaminedDocument& e) { return e.clean_s; });
    examination_step("language", clean, clean, [](const ExaminedDocument& e) { return e.language_s; });
    examination_step("line_rules", clean, text, [](const ExaminedDocument& e) { return e.line_rules_s; });
    examination_step("document_rules", text, text, [](const ExaminedDocument& e) { return e.document_rules_s; });
    report_.input_bytes = removals_.steps().front().bytes_in;
    for (ExaminedDocument& e : examined_) {
      for (const std::string& rule : e.rules_left_out) ++report_.rules_left_out[e.document.language][rule];
      if (!removals_.has(e.document)) documents_.push_back(std::move(e.document));
    }
    examined_.clear();
  }

  // --- deduplication: of several copies the one first in this order stays ---

  // Pages whose text is in the language that their path promises come first: an English passage belongs to the English
  // manual, not to the translation that has not got round to it.
  void order_for_deduplication() {
    const auto broken_promise = [](const CurateDocument& d) {
      return !d.path_language.empty() && base_language(d.path_language) != base_language(d.language);
    };
    std::stable_sort(documents_.begin(), documents_.end(), [&](const CurateDocument& a, const CurateDocument& b) {
      return std::tuple(broken_promise(a), std::string_view(a.source)) <
             std::tuple(broken_promise(b), std::string_view(b.source));
    });
  }

  void remove_exact_duplicates() {
    remove_copies("exact_duplicates", "same_text",
                  [&](const auto& t) { return find_exact_duplicates(t, settings_.threads); });
  }
  void remove_near_duplicates() {
    remove_copies("near_duplicates", "similar_text",
                  [&](const auto& t) { return find_near_duplicates(t, settings_.dedup, settings_.threads); });
  }

  template <class Find>
  void remove_copies(const char* step, const char* reason, const Find& find) {
    const auto start = begin(step);
    const std::vector<std::size_t> kept = find(texts());
    std::vector<CurateDocument> rest;
    for (std::size_t i = 0; i < documents_.size(); ++i) {
      if (kept[i] == i) continue;
      removals_.remove(documents_[i], reason, format("as {}", documents_[kept[i]].source));
    }
    for (std::size_t i = 0; i < documents_.size(); ++i) {
      if (kept[i] == i) rest.push_back(std::move(documents_[i]));
    }
    documents_ = std::move(rest);
    end(start);
  }

  void remove_paragraphs() {
    const auto start = begin("repeated_paragraphs");
    std::vector<std::string> languages;
    for (const CurateDocument& document : documents_) languages.push_back(document.language);
    ParagraphDedupResult result = remove_repeated_paragraphs(texts(), languages, settings_.dedup, settings_.threads);
    removals_.count("repeated_paragraph", 0, result.bytes_removed);
    std::vector<CurateDocument> rest;
    for (std::size_t i = 0; i < documents_.size(); ++i) {
      CurateDocument& document = documents_[i];
      const double share = static_cast<double>(result.texts[i].size()) / static_cast<double>(document.text.size());
      document.text = std::move(result.texts[i]);
      const std::int64_t columns = display_columns(document.text);
      if (columns < settings_.document_columns_min) {
        removals_.remove(document, "document_columns_min",
                         format("{} columns left; at least {} wanted", columns, settings_.document_columns_min));
      } else if (share < settings_.document_share_min) {
        removals_.remove(
            document, "document_share_min",
            format("{:.0f} % left; at least {:.0f} % wanted", 100 * share, 100 * settings_.document_share_min));
      } else {
        rest.push_back(std::move(document));
      }
    }
    documents_ = std::move(rest);
    end(start);
  }

  // --- what is held out ---

  void split_heldout() {
    const auto start = begin("split");
    std::map<std::string, std::int64_t> page_bytes;
    for (const CurateDocument& document : documents_)
      page_bytes[document.page] += static_cast<std::int64_t>(document.text.size());
    const HeldoutChoice choice = choose_heldout_pages(page_bytes, settings_);
    report_.heldout_note = choice.note;
    heldout_key_ = choice.key;
    std::vector<CurateDocument> training;
    for (CurateDocument& document : documents_) {
      const bool held = choice.pages.contains(document.page);
      if (held) removals_.count("held_out", 1, static_cast<std::int64_t>(document.text.size()));
      (held ? heldout_ : training).push_back(std::move(document));
    }
    documents_ = std::move(training);
    hold_end_out(choice, documents_, heldout_, removals_);
    while (!heldout_.empty() && remove_heldout_paragraphs()) {
    }  // what is left may join into a paragraph anew: look again
    std::ranges::sort(documents_, {}, &CurateDocument::source);
    std::ranges::sort(heldout_, {}, &CurateDocument::source);
    end(start);
  }

  // Removes from training what stands in held-out text; false when there was nothing.
  bool remove_heldout_paragraphs() {
    std::vector<std::string_view> forbidden;
    for (const CurateDocument& document : heldout_) forbidden.push_back(document.text);
    const int columns_min = std::min(40, settings_.dedup.paragraph_columns_min);
    ParagraphDedupResult result = remove_paragraphs_of(texts(), forbidden, columns_min, settings_.threads);
    if (result.paragraphs_removed == 0) return false;
    removals_.count("paragraph_in_heldout", 0, result.bytes_removed);
    std::vector<CurateDocument> rest;
    for (std::size_t i = 0; i < documents_.size(); ++i) {
      documents_[i].text = std::move(result.texts[i]);
      if (documents_[i].text.empty()) {
        removals_.remove(documents_[i], "paragraph_in_heldout", "nothing left");
      } else {
        rest.push_back(std::move(documents_[i]));
      }
    }
    documents_ = std::move(rest);
    return true;
  }

  // --- files ---

  Result<CurateReport> finish(Clock::time_point start) {
    report_.languages = language_shares(documents_, heldout_);
    report_.steps = removals_.steps();
    report_.documents = static_cast<std::int64_t>(documents_.size());
    report_.bytes = text_bytes(documents_);
    report_.heldout_documents = static_cast<std::int64_t>(heldout_.size());
    report_.heldout_bytes = text_bytes(heldout_);
    LH_CHECK(write("removed.jsonl", removals_.lines()));
    LH_CHECK(write("waterfall.json", to_json_pretty(to_value(report_.steps))));
    if (documents_.empty()) return empty_corpus_error(report_.steps, heldout_key_);
    LH_CHECK(write("languages.json", to_json_pretty(to_value(report_.languages, report_.rules_left_out))));
    LH_CHECK(write("heldout.jsonl", document_lines(heldout_)));
    LH_CHECK(write("documents.jsonl", document_lines(documents_)));
    report_.seconds = seconds_since(start);
    return report_;
  }

  Status write(const char* name, const std::string& text) const {
    return write_file_atomic(join_path(out_dir_, name), text);
  }

  std::vector<std::string_view> texts() const {
    std::vector<std::string_view> views;
    for (const CurateDocument& document : documents_) views.push_back(document.text);
    return views;
  }

  Clock::time_point begin(const char* step) {
    const auto count = static_cast<std::int64_t>(documents_.size());
    if (progress_) progress_({step, 0, count});
    removals_.begin(step, count, text_bytes(documents_));
    return Clock::now();
  }
  void end(Clock::time_point start) {
    removals_.end(static_cast<std::int64_t>(documents_.size()), text_bytes(documents_), seconds_since(start));
  }

  const CurateSettings& settings_;
  const std::string out_dir_;
  const std::function<void(const CurateProgress&)>& progress_;
  std::vector<ExaminedDocument> examined_;
  std::vector<RejectedRecord> rejected_;
  std::vector<CurateDocument> documents_, heldout_;
  std::string heldout_key_;  // as HeldoutChoice::key
  RemovalLog removals_;
  CurateReport report_;
};

}  // namespace

Result<CurateReport> curate(const CurateInputs& inputs, const CurateSettings& settings, const std::string& out_dir,
                            const std::function<void(const CurateProgress&)>& progress) {
  return Curation(settings, out_dir, progress).run(inputs);
}

}  // namespace longhaul
