#include "contracts/records/benchmark_result.h"

#include <cmath>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {

std::string BenchmarkResult::name() const {
  if (what == "product") return format("product {} {}x{}x{}", precision, m, n, k);
  return format("{} {}", what, human_bytes(static_cast<double>(bytes)));
}

Value benchmark_to_value(const BenchmarkResults& results) {
  Value document = Value::make_table();
  document.set("format", BenchmarkResults::format);
  document.set("ranks", results.ranks);
  Value& list = document.set("results", Value::make_array());
  for (const BenchmarkResult& one : results.results) {
    Value entry = Value::make_table();
    entry.set("what", one.what);
    if (one.what == "product") {
      entry.set("precision", one.precision);
      entry.set("m", static_cast<long long>(one.m)), entry.set("n", static_cast<long long>(one.n)),
          entry.set("k", static_cast<long long>(one.k));
    } else {
      entry.set("bytes", static_cast<long long>(one.bytes));
    }
    entry.set("seconds", one.seconds), entry.set("repeats", one.repeats);
    list.push_back(std::move(entry));
  }
  return document;
}

Result<BenchmarkResults> benchmark_from_value(const Value& value, const std::string& path) {
  const auto corrupt = [&](const std::string& what) { return make_error(ErrorCode::corrupt, path + ": " + what); };
  if (value.get_integer("format") != BenchmarkResults::format) return corrupt("this is no benchmark of format 1");
  BenchmarkResults found;
  found.ranks = static_cast<int>(value.get_integer("ranks"));
  const Value* list = value.find("results");
  if (found.ranks < 1 || !list || !list->is_array()) return corrupt("ranks or results are missing");
  for (const Value& entry : list->as_array()) {
    BenchmarkResult one;
    one.what = entry.get_string("what"), one.precision = entry.get_string("precision");
    one.m = entry.get_integer("m"), one.n = entry.get_integer("n"), one.k = entry.get_integer("k");
    one.bytes = entry.get_integer("bytes"), one.repeats = static_cast<int>(entry.get_integer("repeats"));
    one.seconds = entry.get_number("seconds");
    const bool sized = one.what == "product" ? one.m > 0 && one.n > 0 && one.k > 0 : one.bytes > 0;
    if (one.what.empty() || !sized || !std::isfinite(one.seconds) || one.seconds <= 0)
      return corrupt("a result has no name, no size or no time");
    found.results.push_back(std::move(one));
  }
  return found;
}

Result<BenchmarkResults> read_benchmark(const std::string& folder) {
  const std::string path = join_path(folder, benchmark_file_name);
  LH_TRY(const std::string text, read_file(path));
  LH_TRY(const Value value, parse_json(text, path));
  return benchmark_from_value(value, path);
}

}  // namespace longhaul
