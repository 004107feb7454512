#include "orchestrator/state/epoch_log.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "orchestrator/state/authored_file.h"
#include "orchestrator/state/sealed_line.h"

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
  std::int64_t appends = 0;
  bool torn = false;
  std::optional<Error> damage;  // of the line behind the whole ones, which was whole once
};

std::optional<Fact> whole_fact(std::string_view line, CheckedLine& checked) {
  checked = check_line(line);
  if (checked.check == LineCheck::bad) return std::nullopt;
  auto fact = parse_fact(line);
  return fact.ok() ? std::optional(std::move(fact).value()) : std::nullopt;
}

// What follows a bad line only says what that one was.
LogBreak look_behind(std::string_view bad, std::string_view rest, const std::optional<LineSeal>& before) {
  LogBreak found{before, std::nullopt, false, bad.find('\0') != std::string_view::npos};
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;
    CheckedLine checked;
    if (whole_fact(rest.substr(0, end), checked)) {
      if (checked.check == LineCheck::sealed) found.after = checked.seal;
      found.plain_after = found.plain_after || checked.check == LineCheck::plain;
    }
    rest.remove_prefix(end + 1);
  }
  return found;
}

Error damage_at(const std::string& path, int line, const std::string& what) {
  Error error = make_error(ErrorCode::corrupt, what, "the log was damaged from outside; restore it from a copy");
  error.where = SourcePos{path, line, 1};
  return error;
}

OneLog parse_log(std::string_view text, const std::string& path) {
  OneLog log;
  std::optional<LineSeal> last;
  for (int line = 1; log.whole_bytes < text.size(); ++line) {
    const std::string_view rest = text.substr(log.whole_bytes);
    const std::size_t length = rest.find('\n');
    log.torn = length == std::string_view::npos;
    if (log.torn) break;
    CheckedLine checked;
    auto fact = whole_fact(rest.substr(0, length), checked);
    if (!fact) {
      log.torn = !was_whole_once(look_behind(rest.substr(0, length), rest.substr(length + 1), last));
      if (!log.torn) log.damage = damage_at(path, line, "not a line as it was written");
      break;
    }
    if (checked.check == LineCheck::sealed) last = checked.seal;
    log.facts.push_back(*std::move(fact));
    log.whole_bytes += length + 1;
    log.ends.push_back(log.whole_bytes);
  }
  log.appends = last ? last->append + 1 : static_cast<std::int64_t>(log.facts.size());
  return log;
}

Result<OneLog> read_log(const std::string& path) {
  LH_TRY(const AuthoredFile file, read_with_author(path));
  OneLog log = parse_log(file.text, path);
  for (Fact& fact : log.facts)
    if (fact.kind == FactKind::epoch)  // whoever owns the log drove, whatever it says
      fact.fields.set("uid", static_cast<long long>(file.uid));
  return log;
}

// How many bytes of each log are believed, as it becomes known from the newest to the oldest: what the newest `adopted`
// says of an epoch counts, and a log of which none says anything is believed whole.
class Belief {
 public:
  // Of a log whose later ones have all been taken.
  Result<std::uint64_t> length_of(std::int64_t epoch, const OneLog& log, const std::string& path) const {
    if (epoch < from_) {
      if (log.damage) return *log.damage;
      return log.whole_bytes;
    }
    const auto stated = lengths_.find(epoch);
    const std::uint64_t length = stated == lengths_.end() ? 0 : stated->second;
    if (length <= log.whole_bytes) return length;
    if (log.damage) return *log.damage;
    return damage_at(path, static_cast<int>(log.facts.size()) + 1,
                     format("only {} of the {} bytes that were there once are whole", log.whole_bytes, length));
  }
  void take(std::int64_t epoch, const Fact& adopted) {
    const std::int64_t since = adopted.fields.get_integer("since");
    if (const Value* table = adopted.fields.find("lengths"); table && table->is_table())
      for (const ValueMember& one : table->as_table())
        if (const std::int64_t earlier = std::atoll(one.key.c_str()); earlier < std::min(epoch, from_))
          lengths_[earlier] = static_cast<std::uint64_t>(one.value.is_integer() ? one.value.as_integer() : 0);
    from_ = std::min(from_, since);
  }

 private:
  std::int64_t from_ = std::numeric_limits<std::int64_t>::max();  // of this epoch and later ones something is said
  std::map<std::int64_t, std::uint64_t> lengths_;
};

// nullopt: it is gone, or not as it was. The logs before it are read then.
std::optional<std::vector<Fact>> kept_facts(const std::string& run_dir, const Fact& kept) {
  const auto text = read_file(join_path(run_dir, "log/" + file_name(kept.text("file"))));
  if (!text.ok() || xxh3_128_hex(*text) != kept.text("digest")) return std::nullopt;
  std::vector<Fact> facts;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::size_t length = rest.find('\n');
    auto fact = length == std::string_view::npos ? Result<Fact>(make_error(ErrorCode::corrupt, "torn"))
                                                 : parse_fact(rest.substr(0, length));
    if (!fact.ok()) return std::nullopt;
    facts.push_back(std::move(fact).value());
    rest.remove_prefix(length + 1);
  }
  return facts;
}

const Fact* find_fact(const std::vector<Fact>& facts, FactKind kind) {
  const auto found = std::find_if(facts.begin(), facts.end(), [&](const Fact& fact) { return fact.kind == kind; });
  return found == facts.end() ? nullptr : &*found;
}

constexpr std::size_t logs_before_kept = 100;
constexpr const char* kept_suffix = ".facts";

}  // namespace

Result<std::int64_t> newest_epoch(const std::string& run_dir) {
  LH_TRY(const auto epochs, list_epochs(run_dir));
  return epochs.empty() ? 0 : epochs.back();
}

Result<EpochRead> read_epochs(const std::string& run_dir) {
  LH_TRY(const auto epochs, list_epochs(run_dir));
  EpochRead read;
  if (epochs.empty()) return read;
  read.newest = epochs.back();
  Belief belief;
  std::vector<std::vector<Fact>> newest_first;
  for (auto epoch = epochs.rbegin(); epoch != epochs.rend(); ++epoch) {
    const std::string path = log_path(run_dir, *epoch);
    LH_TRY(OneLog log, read_log(path));
    LH_TRY(const std::uint64_t length, belief.length_of(*epoch, log, path));
    if (*epoch == read.newest) read.torn = log.torn, read.appends = log.appends;
    const auto believed = std::upper_bound(log.ends.begin(), log.ends.end(), length) - log.ends.begin();
    log.facts.resize(static_cast<std::size_t>(believed));
    read.lengths[*epoch] = length;
    const Fact* adopted = find_fact(log.facts, FactKind::adopted);
    if (adopted) belief.take(*epoch, *adopted);
    if (adopted) read.newest_adopted = std::max(read.newest_adopted, *epoch);
    const Fact* kept = find_fact(log.facts, FactKind::kept);
    auto earlier = kept ? kept_facts(run_dir, *kept) : std::nullopt;
    newest_first.push_back(std::move(log.facts));
    if (!earlier) continue;
    newest_first.push_back(*std::move(earlier));
    break;
  }
  for (auto facts = newest_first.rbegin(); facts != newest_first.rend(); ++facts) {
    if (facts + 1 == newest_first.rend()) read.facts_before_newest = read.facts.size();
    read.facts.insert(read.facts.end(), std::make_move_iterator(facts->begin()), std::make_move_iterator(facts->end()));
  }
  return read;
}

Result<EpochLog> EpochLog::claim(const std::string& run_dir, const Clock& clock, std::vector<Fact>& facts) {
  LH_TRY(const ProcessId self, identify_process(::getpid()));
  Fact first{FactKind::epoch, {}, 0, Value::make_table(), clock.wall_ms()};
  first.fields.set("host", host_name());
  first.fields.set("pid", static_cast<long long>(self.pid));
  first.fields.set("start_ticks", static_cast<unsigned long long>(self.start_ticks));
  first.fields.set("monotonic_ms", static_cast<long long>(clock.monotonic_ns() / 1'000'000));
  std::int64_t epoch = 0;
  for (int tries = 0;; ++tries) {
    LH_TRY(const std::int64_t newest, newest_epoch(run_dir));
    epoch = newest + 1;
    first.fields.set("epoch", static_cast<long long>(epoch));
    const std::string line = fact_line(first);
    const Status created =
        create_file_exclusive(log_path(run_dir, epoch), seal_line(line.substr(0, line.size() - 1), {0, 0, 1}));
    if (created.ok()) break;
    if (created.error().code != ErrorCode::conflict || tries == 100)
      return created.error().with_context("cannot claim an epoch");
  }
  if (auto fault = fault_here(FaultPoint::controller_epoch_claimed)) return *fault;
  LH_TRY(EpochRead read, read_epochs(run_dir));
  EpochLog log(run_dir, epoch, 1);
  Value lengths = Value::make_table();
  for (const auto& [earlier, bytes] : read.lengths)
    if (earlier < epoch && earlier >= read.newest_adopted)
      lengths.set(std::to_string(earlier), static_cast<unsigned long long>(bytes));
  std::vector<Fact> adopted(1);
  adopted[0].kind = FactKind::adopted;
  adopted[0].fields.set("since", static_cast<long long>(read.newest_adopted));
  adopted[0].fields.set("lengths", std::move(lengths));
  LH_CHECK(log.append(adopted, clock));
  facts = read.facts;
  facts.push_back(std::move(adopted[0]));
  if (read.newest == epoch && read.lengths.size() > logs_before_kept) LH_CHECK(log.keep_facts(read, clock, facts));
  return log;
}

// Whoever comes later believes of earlier epochs what this one does, or does not read this log.
Status EpochLog::keep_facts(const EpochRead& read, const Clock& clock, std::vector<Fact>& facts) {
  std::string text;
  for (std::size_t i = 0; i < read.facts_before_newest; ++i) text += fact_line(read.facts[i]);
  const std::string name = format("{:06}{}", epoch_, kept_suffix);
  LH_CHECK(write_file_atomic(join_path(run_dir_, "log/" + name), text));
  std::vector<Fact> kept(1);
  kept[0].kind = FactKind::kept;
  kept[0].fields.set("file", name);
  kept[0].fields.set("digest", xxh3_128_hex(text));
  kept[0].fields.set("facts", read.facts_before_newest);
  LH_CHECK(append(kept, clock));
  facts.push_back(std::move(kept[0]));
  LH_TRY(const auto names, list_directory(join_path(run_dir_, "log")));
  for (const std::string& other : names)  // they say nothing that this one does not
    if (ends_with(other, kept_suffix) && other < name) (void)remove_tree(join_path(run_dir_, "log/" + other)).ok();
  return {};
}

Result<EpochLog> EpochLog::reopen(const std::string& run_dir, std::int64_t epoch, std::vector<Fact>& facts) {
  LH_TRY(EpochRead read, read_epochs(run_dir));
  if (read.newest != epoch || read.torn)
    return make_error(ErrorCode::conflict, format("epoch {} is over: the newest is {}", epoch, read.newest));
  facts = std::move(read.facts);
  return EpochLog(run_dir, epoch, read.appends);
}

Status EpochLog::append(std::vector<Fact>& facts, const Clock& clock) {
  LH_CHECK(closed_by_);
  std::string text;
  LineSeal seal{appends_++, 0, static_cast<std::int64_t>(facts.size())};
  for (Fact& fact : facts) {
    fact.wall_ms = clock.wall_ms();
    const std::string line = fact_line(fact);
    text += seal_line(std::string_view(line).substr(0, line.size() - 1), seal);
    ++seal.line;
  }
  closed_by_ = append_file_synced(log_path(run_dir_, epoch_), text);
  return closed_by_;
}

Status EpochLog::check_newest() const {
  LH_TRY(const std::int64_t newest, newest_epoch(run_dir_));
  if (newest == epoch_) return {};
  return make_error(ErrorCode::conflict,
                    format("another controller took over: epoch {} is newer than {}", newest, epoch_),
                    "only one drives a run at a time; watch it with `longhaul status`");
}

}  // namespace longhaul
