#include "orchestrator/state/run_index.h"

#include <sqlite3.h>
#include <unistd.h>

#include <memory>
#include <set>

#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/owned_files.h"
#include "orchestrator/state/epoch_log.h"

namespace longhaul {
namespace {

// All SQL of the index. A new shape gets a new version; an older file is thrown away and made again.
constexpr int schema_version = 1;
constexpr const char* sql_schema =
    "CREATE TABLE position (id INTEGER PRIMARY KEY CHECK (id = 0), facts INTEGER NOT NULL, digest TEXT NOT NULL);"
    "CREATE TABLE stage (id TEXT PRIMARY KEY, ordinal INTEGER NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL, "
    "attempts INTEGER NOT NULL,"
    "  submitted_ms INTEGER, started_ms INTEGER, ended_ms INTEGER, cause TEXT, artifact TEXT, digest TEXT, figures "
    "TEXT);"
    "CREATE TABLE fact (number INTEGER PRIMARY KEY, ms INTEGER NOT NULL, kind TEXT NOT NULL, stage TEXT, attempt "
    "INTEGER, fields TEXT);"
    "CREATE INDEX fact_stage ON fact (stage, number);"
    "INSERT INTO position VALUES (0, 0, '');"
    "PRAGMA user_version = 1;";
constexpr const char* sql_settings =
    "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = OFF; PRAGMA busy_timeout = 2000;"
    "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;";
constexpr const char* sql_version = "PRAGMA user_version";
constexpr const char* sql_check = "PRAGMA quick_check(1)";
constexpr const char* sql_position = "SELECT facts, digest FROM position";
constexpr const char* sql_set_position = "UPDATE position SET facts = ?, digest = ?";
constexpr const char* sql_add_fact = "INSERT INTO fact VALUES (?, ?, ?, ?, ?, ?)";
constexpr const char* sql_put_stage = "INSERT OR REPLACE INTO stage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
constexpr const char* sql_stages =
    "SELECT id, state, cause, artifact, attempts, started_ms, ended_ms FROM stage ORDER BY ordinal";
constexpr const char* sql_count_facts = "SELECT count(*) FROM fact WHERE kind = ?";

struct CloseDatabase {
  void operator()(sqlite3* db) const noexcept { sqlite3_close_v2(db); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
};

class Statement {
 public:
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  void bind(int at, std::int64_t value) { sqlite3_bind_int64(statement_.get(), at, value); }
  void bind(int at, const std::string& value) {
    sqlite3_bind_text(statement_.get(), at, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
  }
  // SQLITE_ROW or SQLITE_DONE; everything else is an error.
  int step() { return sqlite3_step(statement_.get()); }
  void reset() { sqlite3_reset(statement_.get()); }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  std::string text(int column) const {
    const unsigned char* value = sqlite3_column_text(statement_.get(), column);
    return value ? reinterpret_cast<const char*>(value) : "";
  }

 private:
  std::unique_ptr<sqlite3_stmt, FinalizeStatement> statement_;
};

class Database {
 public:
  static Result<Database> open(const std::string& path, bool create) {
    if (!create) LH_CHECK(check_own(path));
    sqlite3* raw = nullptr;
    int flags = SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0);
#ifdef SQLITE_OPEN_NOFOLLOW  // 3.31
    flags |= SQLITE_OPEN_NOFOLLOW;
#endif
    const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
    Database database(raw);
    if (code != SQLITE_OK)
      return make_error(file_exists(path) ? ErrorCode::corrupt : ErrorCode::not_found, "cannot open " + path);
    sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    LH_CHECK(database.run(sql_settings));
    return database;
  }
  Status run(const char* sql) {
    if (sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
    return error(sql);
  }
  Result<Statement> prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(db_.get(), sql, -1, &statement, nullptr) != SQLITE_OK) return error(sql);
    return Statement(statement);
  }
  Error error(const char* what) const {
    return make_error(ErrorCode::corrupt,
                      std::string("index: ") + sqlite3_errmsg(db_.get()) + " (" + std::string(what).substr(0, 60) + ")",
                      "it is made again from the logs");
  }

 private:
  // One that another user made may hold anything that SQLite can be brought to do; the logs say the same. The group of
  // a run may write its index (022 is not asked for): who is in it can do more than that.
  static Status check_own(const std::string& path) {
    Ownership ours;
    ours.forbidden = S_IWOTH;
    LH_TRY([[maybe_unused]] const FileDescriptor file, open_owned_file(path, ours));
    return {};
  }

  explicit Database(sqlite3* db) : db_(db) {}
  std::unique_ptr<sqlite3, CloseDatabase> db_;
};

struct Position {
  std::int64_t facts = 0;
  std::string digest;  // chained over the lines of all facts so far
};

std::string chain(const std::string& digest, const Fact& fact) {
  return xxh3_128_hex(digest + fact_line(fact));
}

Result<Position> read_position(Database& db) {
  LH_TRY(Statement version, db.prepare(sql_version));
  if (version.step() != SQLITE_ROW || version.integer(0) != schema_version)
    return make_error(ErrorCode::corrupt, "the index is of another version");
  LH_TRY(Statement query, db.prepare(sql_position));
  if (query.step() != SQLITE_ROW) return make_error(ErrorCode::corrupt, "the index has no position");
  return Position{query.integer(0), query.text(1)};
}

Status quick_check(Database& db) {
  LH_TRY(Statement check, db.prepare(sql_check));
  if (check.step() == SQLITE_ROW && check.text(0) == "ok") return {};
  return db.error("quick_check");
}

Status put_stages(Database& db, const FrozenRun& frozen, const RunLedger& ledger, const std::set<std::string>* only) {
  LH_TRY(Statement put, db.prepare(sql_put_stage));
  for (std::size_t i = 0; i < ledger.stages.size(); ++i) {
    const LedgerStage& stage = ledger.stages[i];
    if (only && !only->contains(stage.id)) continue;
    const PlannedStage* planned = frozen.plan.find(stage.id);
    put.bind(1, stage.id);
    put.bind(2, static_cast<std::int64_t>(i));
    put.bind(3, planned ? planned->kind : "");
    put.bind(4, std::string(to_string(stage.state)));
    put.bind(5, static_cast<std::int64_t>(stage.attempts.size()));
    put.bind(6, stage.submitted_ms);
    put.bind(7, stage.started_ms);
    put.bind(8, stage.ended_ms);
    put.bind(9, stage.cause);
    put.bind(10, stage.artifact);
    put.bind(11, stage.digest);
    put.bind(12, to_json(stage.figures));
    if (put.step() != SQLITE_DONE) return db.error(sql_put_stage);
    put.reset();
  }
  return {};
}

// Adds facts[from..) at `position` and stores the stages as they are now, all or nothing.
Status extend(Database& db, const FrozenRun& frozen, const RunLedger& ledger, const std::vector<Fact>& facts,
              std::size_t from, Position position) {
  LH_CHECK(db.run("BEGIN IMMEDIATE"));
  const bool first = position.facts == 0;
  std::set<std::string> touched;
  LH_TRY(Statement add, db.prepare(sql_add_fact));
  for (std::size_t i = from; i < facts.size(); ++i) {
    const Fact& fact = facts[i];
    position.digest = chain(position.digest, fact);
    add.bind(1, ++position.facts);
    add.bind(2, fact.wall_ms);
    add.bind(3, std::string(to_string(fact.kind)));
    add.bind(4, fact.stage);
    add.bind(5, static_cast<std::int64_t>(fact.attempt));
    add.bind(6, fact.fields.is_table() ? to_json(fact.fields) : std::string());
    if (add.step() != SQLITE_DONE) return db.error(sql_add_fact);
    add.reset();
    touched.insert(fact.stage);
  }
  LH_CHECK(put_stages(db, frozen, ledger, first ? nullptr : &touched));
  LH_TRY(Statement set, db.prepare(sql_set_position));
  set.bind(1, position.facts);
  set.bind(2, position.digest);
  if (set.step() != SQLITE_DONE) return db.error(sql_set_position);
  return db.run("COMMIT");
}

// Continues an index that stands within or just before `news`; an error says that it cannot be continued.
Status continue_index(const std::string& path, const FrozenRun& frozen, const RunLedger& ledger,
                      const std::vector<Fact>& news) {
  LH_TRY(Database db, Database::open(path, false));
  LH_TRY(const Position position, read_position(db));
  const std::int64_t start = ledger.facts - static_cast<std::int64_t>(news.size());
  if (position.facts < start || position.facts > ledger.facts)
    return make_error(ErrorCode::corrupt, "the index does not continue where the logs are");
  const auto known = static_cast<std::size_t>(position.facts - start);
  if (start == 0) {  // a controller's first update: is it an index of these logs at all?
    LH_CHECK(quick_check(db));
    std::string digest;
    for (std::size_t i = 0; i < known; ++i) digest = chain(digest, news[i]);
    if (digest != position.digest) return make_error(ErrorCode::corrupt, "the index is of other logs");
  }
  return extend(db, frozen, ledger, news, known, position);
}

Status make_index(const std::string& path, const FrozenRun& frozen, const RunLedger& ledger,
                  const std::vector<Fact>& facts) {
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) LH_CHECK(remove_tree(path + suffix));
  LH_TRY(Database db, Database::open(path, true));
  LH_CHECK(db.run(sql_schema));
  return extend(db, frozen, ledger, facts, 0, {});
}

}  // namespace

std::string run_index_path(const std::string& run_dir) {
  return join_path(run_dir, "longhaul.db");
}

Status update_run_index(const std::string& run_dir, const FrozenRun& frozen, const RunLedger& ledger,
                        const std::vector<Fact>& news) {
  if (continue_index(run_index_path(run_dir), frozen, ledger, news).ok()) return {};
  if (static_cast<std::int64_t>(news.size()) == ledger.facts)
    return make_index(run_index_path(run_dir), frozen, ledger, news);
  return rebuild_run_index(run_dir);
}

Status rebuild_run_index(const std::string& run_dir) {
  LH_TRY(const FrozenRun frozen, read_frozen_run(run_dir));
  LH_TRY(const EpochRead read, read_epochs(run_dir));
  RunLedger ledger(frozen.stage_ids());
  for (const Fact& fact : read.facts) ledger.apply(fact);
  return make_index(run_index_path(run_dir), frozen, ledger, read.facts);
}

Result<std::vector<IndexedStage>> indexed_stages(const std::string& run_dir) {
  LH_TRY(Database db, Database::open(run_index_path(run_dir), false));
  LH_TRY([[maybe_unused]] const Position position, read_position(db));
  LH_TRY(Statement query, db.prepare(sql_stages));
  std::vector<IndexedStage> stages;
  int code = SQLITE_ROW;
  while ((code = query.step()) == SQLITE_ROW) {
    const std::int64_t started = query.integer(5), ended = query.integer(6);
    const double seconds = started > 0 && ended > started ? static_cast<double>(ended - started) / 1000 : 0;
    stages.push_back(
        {query.text(0), query.text(1), query.text(2), query.text(3), static_cast<int>(query.integer(4)), seconds});
  }
  if (code != SQLITE_DONE) return db.error(sql_stages);
  return stages;
}

Result<std::int64_t> indexed_facts(const std::string& run_dir, const std::string& kind) {
  LH_TRY(Database db, Database::open(run_index_path(run_dir), false));
  LH_TRY(Statement query, db.prepare(sql_count_facts));
  query.bind(1, kind);
  if (query.step() != SQLITE_ROW) return db.error(sql_count_facts);
  return query.integer(0);
}

}  // namespace longhaul
