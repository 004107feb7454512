#include "orchestrator/index/sqlite.h"

#include <sqlite3.h>

namespace longhaul {
namespace {

constexpr const char* no_locks = "unix-none";  // SQLite's name for files that nobody else writes

Error sql_error(sqlite3* db, const std::string& what) {
  return make_error(ErrorCode::corrupt, what + ": " + (db ? sqlite3_errmsg(db) : "out of memory"));
}

}  // namespace

void SqlStatement::Finalize::operator()(sqlite3_stmt* statement) const noexcept {
  sqlite3_finalize(statement);
}
void SqlDatabase::Close::operator()(sqlite3* db) const noexcept {
  sqlite3_close_v2(db);
}

SqlStatement& SqlStatement::bind(int at, std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), at, value);
  return *this;
}
SqlStatement& SqlStatement::bind(int at, double value) {
  sqlite3_bind_double(statement_.get(), at, value);
  return *this;
}
SqlStatement& SqlStatement::bind(int at, const std::string& value) {
  sqlite3_bind_text(statement_.get(), at, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
  return *this;
}
SqlStatement& SqlStatement::bind_null(int at) {
  sqlite3_bind_null(statement_.get(), at);
  return *this;
}

Result<bool> SqlStatement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  sqlite3* const db = sqlite3_db_handle(statement_.get());
  return sql_error(db, sqlite3_sql(statement_.get()));
}

Status SqlStatement::finish() {
  for (;;) {
    LH_TRY(const bool row, step());
    if (!row) break;
  }
  sqlite3_reset(statement_.get());
  return {};
}

bool SqlStatement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}
std::int64_t SqlStatement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}
double SqlStatement::number(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}
std::string SqlStatement::text(int column) const {
  const unsigned char* const value = sqlite3_column_text(statement_.get(), column);
  return value ? reinterpret_cast<const char*>(value) : "";
}

Error SqlDatabase::error(const std::string& what) const {
  return sql_error(db_.get(), what);
}

Result<SqlDatabase> SqlDatabase::in_memory() {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(":memory:", &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  SqlDatabase database(raw);
  if (code != SQLITE_OK) return database.error("cannot open a database in memory");
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  LH_CHECK(database.run("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"));
  return database;
}

Status SqlDatabase::copy(sqlite3* from, sqlite3* to, const std::string& what) {
  sqlite3_backup* const backup = sqlite3_backup_init(to, "main", from, "main");
  if (!backup) return sql_error(to, what);
  sqlite3_backup_step(backup, -1);
  if (sqlite3_backup_finish(backup) != SQLITE_OK) return sql_error(to, what);
  return {};
}

Result<SqlDatabase> SqlDatabase::load(const std::string& path) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY, no_locks);
  const SqlDatabase file(raw);
  if (code != SQLITE_OK) return file.error("cannot open " + path);
  LH_TRY(SqlDatabase database, in_memory());
  LH_CHECK(copy(raw, database.db_.get(), "cannot read " + path));
  return database;
}

Status SqlDatabase::save(const std::string& path) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, no_locks);
  SqlDatabase file(raw);
  if (code != SQLITE_OK) return file.error("cannot open " + path);
  LH_CHECK(file.run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"));
  return copy(db_.get(), raw, "cannot write " + path);
}

Status SqlDatabase::run(const char* sql) {
  if (sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return error(std::string(sql).substr(0, 80));
}

Result<SqlStatement> SqlDatabase::prepare(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db_.get(), sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) return error(sql.substr(0, 80));
  return SqlStatement(statement);
}

}  // namespace longhaul
