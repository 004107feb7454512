#include "orchestrator/state/epoch_log.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/fault_point.h"
#include "base/files.h"
#include "base/process.h"
#include "base/text.h"
#include "orchestrator/state/authored_file.h"

namespace longhaul {
namespace {

std::string log_path(const std::string& run_dir, std::int64_t epoch) {
  return join_path(run_dir, format("log/{:06}.jsonl", epoch));
}

Result<std::vector<std::int64_t>> list_epochs(const std::string& run_dir) {
  std::vector<std::int64_t> epochs;
  LH_TRY(const auto names, list_directory(join_path(run_dir, "log")));
  for (const std::string& name : names)
    if (ends_with(name, ".jsonl")) epochs.push_back(std::atoll(name.c_str()));
  std::sort(epochs.begin(), epochs.end());
  return epochs;
}

struct OneLog {
  std::vector<Fact> facts;
  std::vector<std::uint64_t> ends;  // byte behind each fact's line
  std::uint64_t whole_bytes = 0;    // up to the last whole line
  bool torn = false;
};

Result<OneLog> read_log(const std::string& path) {
  LH_TRY(const AuthoredFile file, read_with_author(path));
  const std::string& text = file.text;
  OneLog log;
  std::size_t begin = 0;
  for (int line = 1; begin < text.size(); ++line) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) {
      log.torn = true;
      break;
    }
    auto fact = parse_fact(std::string_view(text).substr(begin, end - begin));
    if (!fact.ok()) {
      Error error = fact.error();
      error.where = SourcePos{path, line, 1};
      error.hint = "the log was damaged from outside; restore it from a copy";
      return error;
    }
    log.facts.push_back(std::move(fact).value());
    if (log.facts.back().kind == FactKind::epoch)  // whoever owns the log drove, whatever it says
      log.facts.back().fields.set("uid", static_cast<long long>(file.uid));
    log.ends.push_back(end + 1);
    begin = log.whole_bytes = end + 1;
  }
  return log;
}

// What each epoch's `adopted` says about the earlier ones; the latest statement counts. An epoch that nobody adopted
// from yet is believed whole.
std::map<std::int64_t, std::uint64_t> believed_lengths(const std::map<std::int64_t, OneLog>& logs) {
  std::map<std::int64_t, std::uint64_t> lengths;
  for (const auto& [epoch, log] : logs) lengths[epoch] = log.whole_bytes;
  for (auto entry = logs.rbegin(); entry != logs.rend(); ++entry) {
    for (const Fact& fact : entry->second.facts) {
      if (fact.kind != FactKind::adopted) continue;
      const Value* table = fact.fields.find("lengths");
      for (auto& [epoch, bytes] : lengths)
        if (epoch < entry->first)
          bytes = table ? static_cast<std::uint64_t>(table->get_integer(std::to_string(epoch))) : 0;
      return lengths;
    }
  }
  return lengths;
}

}  // namespace

Result<std::int64_t> newest_epoch(const std::string& run_dir) {
  LH_TRY(const auto epochs, list_epochs(run_dir));
  return epochs.empty() ? 0 : epochs.back();
}

Result<EpochRead> read_epochs(const std::string& run_dir) {
  LH_TRY(const auto epochs, list_epochs(run_dir));
  std::map<std::int64_t, OneLog> logs;
  for (const std::int64_t epoch : epochs) {
    LH_TRY(logs[epoch], read_log(log_path(run_dir, epoch)));
  }
  EpochRead read;
  if (epochs.empty()) return read;
  read.newest = epochs.back();
  read.torn = logs[read.newest].torn;
  read.lengths = believed_lengths(logs);
  for (auto& [epoch, log] : logs)
    for (std::size_t i = 0; i < log.facts.size(); ++i)
      if (log.ends[i] <= read.lengths[epoch]) read.facts.push_back(std::move(log.facts[i]));
  return read;
}

Result<EpochLog> EpochLog::claim(const std::string& run_dir, const Clock& clock, std::vector<Fact>& facts) {
  LH_TRY(const ProcessId self, identify_process(::getpid()));
  Fact first{FactKind::epoch, {}, 0, Value::make_table(), clock.wall_ms()};
  first.fields.set("host", host_name());
  first.fields.set("pid", static_cast<long long>(self.pid));
  first.fields.set("start_ticks", static_cast<unsigned long long>(self.start_ticks));
  std::int64_t epoch = 0;
  for (int tries = 0;; ++tries) {
    LH_TRY(const std::int64_t newest, newest_epoch(run_dir));
    epoch = newest + 1;
    first.fields.set("epoch", static_cast<long long>(epoch));
    const Status created = create_file_exclusive(log_path(run_dir, epoch), fact_line(first));
    if (created.ok()) break;
    if (created.error().code != ErrorCode::conflict || tries == 100)
      return created.error().with_context("cannot claim an epoch");
  }
  if (auto fault = fault_here(FaultPoint::controller_epoch_claimed)) return *fault;
  LH_TRY(EpochRead read, read_epochs(run_dir));
  EpochLog log(run_dir, epoch);
  Value lengths = Value::make_table();
  for (const auto& [earlier, bytes] : read.lengths)
    if (earlier < epoch) lengths.set(std::to_string(earlier), static_cast<unsigned long long>(bytes));
  std::vector<Fact> adopted(1);
  adopted[0].kind = FactKind::adopted;
  adopted[0].fields.set("lengths", std::move(lengths));
  LH_CHECK(log.append(adopted, clock));
  facts = std::move(read.facts);
  facts.push_back(std::move(adopted[0]));
  return log;
}

Result<EpochLog> EpochLog::reopen(const std::string& run_dir, std::int64_t epoch, std::vector<Fact>& facts) {
  LH_TRY(EpochRead read, read_epochs(run_dir));
  if (read.newest != epoch || read.torn)
    return make_error(ErrorCode::conflict, format("epoch {} is over: the newest is {}", epoch, read.newest));
  facts = std::move(read.facts);
  return EpochLog(run_dir, epoch);
}

Status EpochLog::append(std::vector<Fact>& facts, const Clock& clock) const {
  std::string text;
  for (Fact& fact : facts) {
    fact.wall_ms = clock.wall_ms();
    text += fact_line(fact);
  }
  return append_file_synced(log_path(run_dir_, epoch_), text);
}

Status EpochLog::check_newest() const {
  LH_TRY(const std::int64_t newest, newest_epoch(run_dir_));
  if (newest == epoch_) return {};
  return make_error(ErrorCode::conflict,
                    format("another controller took over: epoch {} is newer than {}", newest, epoch_),
                    "only one drives a run at a time; watch it with `longhaul status`");
}

}  // namespace longhaul
