#include "engine/curate/read/records.h"

#include <algorithm>

#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/curate/extract/charset.h"
#include "engine/curate/read/lines.h"

namespace longhaul {
namespace {

class RecordReader {
 public:
  RecordReader(const InputFile& file, std::int64_t bytes_max, const std::function<void(InputRecord)>& record,
               const std::function<void(RejectedRecord)>& rejected)
      : file_(file), bytes_max_(bytes_max), record_(record), rejected_(rejected) {}

  Status run() {
    LH_TRY(InputStream stream, InputStream::open(file_.path));
    LineReader lines(stream, bytes_max_);
    InputLine line;
    for (;;) {
      LH_TRY(const bool found, lines.next(line));
      if (!found) break;
      if (line.text.find_first_not_of(std::string_view(" \t\0", 3)) == std::string::npos && !line.too_long) continue;
      if (is_array(line)) return read_array(lines, line);
      read_line(line);
    }
    if (!lines.damage().empty() && !cut_reported_) reject(line.number + 1, "", 0, "cut", lines.damage());
    return {};
  }

 private:
  void reject(std::int64_t line, std::string_view text, std::int64_t bytes, const char* reason, std::string detail) {
    rejected_({file_.source, line, first_bytes(text), reason, std::move(detail), bytes});
  }

  void read_line(const InputLine& line) {
    cut_reported_ = cut_reported_ || line.cut;
    if (line.too_long) {
      return reject(line.number, line.text, line.bytes, "too_long",
                    format("{} bytes; page_bytes_max is {}", line.bytes, bytes_max_));
    }
    auto object = parse_json(decode_bytes(line.text, false).text, file_.path);
    if (!object.ok()) {
      return reject(line.number, line.text, line.bytes, line.cut ? "cut" : "not_json",
                    line.cut ? "the file ends within this record" : object.error().what);
    }
    read_value(line.number, line.text, line.bytes, std::move(object).value());
  }

  void read_value(std::int64_t line, std::string_view text, std::int64_t bytes, Value value) {
    if (!value.is_table()) return reject(line, text, bytes, "not_an_object", "each record is {\"text\": \"...\"}");
    const Value* found = value.find("text");
    if (!found || !found->is_string()) {
      return reject(line, text, bytes, "no_text",
                    found ? "\"text\" is no string" : "no \"text\" in this object: each is {\"text\": \"...\"}");
    }
    record_({line, bytes, std::move(value)});
  }

  // A file named .json may be one array, written over many lines.
  bool is_array(const InputLine& line) {
    if (any_line_) return false;
    any_line_ = true;
    const std::size_t first = line.text.find_first_not_of(" \t");
    return first != std::string::npos && line.text[first] == '[' && file_.source.find(".json") != std::string::npos &&
           file_.source.find(".jsonl") == std::string::npos;
  }

  Status read_array(LineReader& lines, InputLine line) {
    constexpr std::size_t array_bytes_max = 64U << 20;  // as values it takes up to 44 times as much memory
    std::string text;
    for (bool found = true; found && text.size() <= array_bytes_max && !line.too_long;) {
      text += line.text + "\n";
      LH_TRY(found, lines.next(line));
    }
    const auto bytes = static_cast<std::int64_t>(text.size());
    if (text.size() > array_bytes_max || line.too_long) {
      reject(0, text, bytes, "too_long",
             "an array may have 64 MiB, and no line above page_bytes_max; write JSON lines");
      return {};
    }
    auto array = parse_json(decode_bytes(text, false).text, file_.path);
    if (!array.ok() || !array->is_array()) {
      reject(0, text, bytes, lines.damage().empty() ? "not_json" : "cut", array.ok() ? "no array" : array.error().what);
      return {};
    }
    const auto& elements = array->as_array();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const std::string written = to_json(elements[i]);
      read_value(static_cast<std::int64_t>(i) + 1, written, static_cast<std::int64_t>(written.size()), elements[i]);
    }
    return {};
  }

  const InputFile& file_;
  std::int64_t bytes_max_;
  const std::function<void(InputRecord)>& record_;
  const std::function<void(RejectedRecord)>& rejected_;
  bool any_line_ = false, cut_reported_ = false;
};

}  // namespace

std::string first_bytes(std::string_view text) {
  std::string start = repair_utf8(text.substr(0, 80));
  for (char& c : start) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return start;
}

Status read_records(const InputFile& file, std::int64_t record_bytes_max,
                    const std::function<void(InputRecord)>& record,
                    const std::function<void(RejectedRecord)>& rejected) {
  return RecordReader(file, record_bytes_max, record, rejected).run();
}

}  // namespace longhaul
