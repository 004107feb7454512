// Inputs that would take all memory or all time of a machine: what comes of them, how long it takes, how much it holds.
#include <doctest/doctest.h>
#include <zlib.h>

#include <chrono>
#include <cstdio>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/curate/curate_task.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

// Bytes of a field of /proc/self/status, such as "VmHWM:".
double process_bytes(const std::string& field) {
  const auto text = read_file("/proc/self/status");
  const std::size_t at = text.ok() ? text->find(field) : std::string::npos;
  return at == std::string::npos ? 0 : 1024 * std::strtod(text->c_str() + at + field.size(), nullptr);
}

struct BadRun {
  CurateReport report;
  std::string error, documents, rejected, removed;
  double seconds = 0, peak_bytes = 0;  // above what the process held before; 0 where the system does not show it
};

BadRun bad_run(const std::string& path, std::int64_t page_bytes_max) {
  const testing::Scratch scratch;
  CurateSettings settings;
  settings.heldout_bytes = 0;
  settings.threads = 1;
  settings.dedup.near_duplicates = settings.dedup.paragraphs = false;
  settings.page_bytes_max.value = page_bytes_max;
  bool measured = false;
  if (FILE* refs = std::fopen("/proc/self/clear_refs", "w")) {  // "5" sets the peak to what is held now
    measured = std::fputs("5", refs) >= 0;
    measured = std::fclose(refs) == 0 && measured;
  }
  const double before = process_bytes("VmRSS:");
  const auto start = std::chrono::steady_clock::now();
  BadRun run;
  auto report = curate({{path}}, settings, scratch.path());
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (measured) run.peak_bytes = process_bytes("VmHWM:") - before;
  if (report.ok()) run.report = std::move(report).value();
  if (!report.ok()) run.error = report.error().message();
  const auto read = [&](const char* name) {
    auto text = read_file(scratch.file(name));
    return text.ok() ? std::move(text).value() : std::string();
  };
  run.documents = read("documents.jsonl");
  run.rejected = read("rejected.jsonl");
  run.removed = read("removed.jsonl");
  return run;
}

std::string gzip_member(const std::string& text) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<unsigned>(text.size());
  stream.next_out = reinterpret_cast<unsigned char*>(packed.data());
  stream.avail_out = static_cast<unsigned>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

const std::string& whole_records() {
  static const std::string records = [] {
    std::string lines;
    for (int i = 0; i < 3; ++i)
      lines += format(
          "{{\"text\": \"The keeper of lighthouse number {0} wrote that the lamp had burned for {0} nights, and that "
          "the sea was high. Nobody had come to relieve him, but there was bread for a week and oil for two.\"}}\n",
          i + 4);
    return lines;
  }();
  return records;
}

constexpr double mebi = 1 << 20;
#if defined(__SANITIZE_ADDRESS__)
constexpr double peak_max = 1024 * mebi;  // freed memory is kept for a while
#else
constexpr double peak_max = 96 * mebi;
#endif

TEST_CASE("a line of 100 MB is left out by its number and size, and the lines behind it are read") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("line.jsonl.gz");
  const std::string piece = gzip_member(std::string(1 << 20, 'x'));
  REQUIRE(
      write_file_atomic(path, gzip_member(whole_records()) + repeated(piece, 100) + gzip_member("\n" + whole_records()))
          .ok());
  const BadRun run = bad_run(path, 1 << 20);
  CHECK(run.error == "");
  CHECK(run.report.rejected == 1);
  const Value rejected = parse_json(run.rejected).value();
  CHECK(rejected.get_integer("line") == 4);
  CHECK(rejected.get_integer("bytes") == 100 << 20);
  CHECK(rejected.get_string("reason") == "too_long");
  CHECK(run.report.steps[0].documents_in == 7);  // three, the line, and the three copies that go later
  CHECK(run.report.steps[0].documents_out == 6);
  CHECK(run.seconds < 10);
  CHECK(run.peak_bytes < peak_max);
}

TEST_CASE("a file of 1 MB that unpacks to 1 GB ends where its one record is far too long, or its page too large") {
  const testing::Scratch scratch;
  const std::string bomb = repeated(gzip_member(std::string(1 << 20, 'x')), 1000);
  CHECK(bomb.size() < 2 << 20);
  REQUIRE(make_directories(scratch.file("in")).ok());
  REQUIRE(write_file_atomic(scratch.file("in/bomb.jsonl.gz"), gzip_member(whole_records()) + bomb).ok());
  REQUIRE(write_file_atomic(scratch.file("in/bomb.html.gz"), bomb).ok());
  REQUIRE(write_file_atomic(scratch.file("in/bomb.txt.gz"), bomb).ok());
  const BadRun run = bad_run(scratch.file("in"), 64 << 10);
  CHECK(run.error == "");
  CHECK(run.report.documents == 3);
  CHECK(run.report.rejected >= 1);
  CHECK(run.rejected.find("bomb.jsonl.gz") != std::string::npos);
  CHECK(run.removed.find("\"source\":\"bomb.html.gz\"") != std::string::npos);
  CHECK(run.removed.find("\"source\":\"bomb.txt.gz\"") != std::string::npos);
  std::int64_t too_large = 0;
  for (const WaterfallReason& reason : run.report.steps[1].reasons)
    too_large += reason.reason == "too_large" ? reason.documents : 0;
  CHECK(too_large == 2);
  CHECK(run.seconds < 5);
  CHECK(run.peak_bytes < peak_max);
}

TEST_CASE("a page nested 100,000 deep gives its text, in bounded time and memory") {
  const testing::Scratch scratch;
  const std::string prose =
      "<p>The keeper of the lighthouse wrote that the lamp had burned for nine nights, and that the sea was high. "
      "Nobody had come to relieve him, but there was bread for a week and oil for two.</p>";
  for (const char* tag : {"<div>", "<b>", "<table><tr><td>", "<ul><li>", "<article><a href='/'>x</a>", "<div><img>"}) {
    CAPTURE(tag);
    const std::string path = scratch.file("deep.html");
    REQUIRE(write_file_atomic(path, repeated(tag, 100'000) + prose + prose).ok());
    const BadRun run = bad_run(path, 16 << 20);
    CHECK(run.seconds < 10);
    CHECK(run.peak_bytes < 4 * peak_max);
    CHECK((run.documents.find("keeper of the lighthouse") != std::string::npos ||
           run.removed.find("deep.html") != std::string::npos));
  }
}

}  // namespace
}  // namespace longhaul
