// The few calls of SQLite that the index of runs needs: a database in memory, loaded from a file and saved as a new
// one. No file is ever changed in place, so nothing is locked (Lustre and NFS may not offer locks) and no journal is
// left behind. Whose a file is, and that it is no link, is for the caller to see (base/files/owned_files.h): SQLite
// itself would refuse every path with a link in it, also that of a home folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace longhaul {

class SqlStatement {
 public:
  explicit SqlStatement(sqlite3_stmt* statement) : statement_(statement) {}
  // Parameters and columns count as in SQLite: parameters from 1, columns from 0.
  SqlStatement& bind(int at, std::int64_t value);
  SqlStatement& bind(int at, double value);
  SqlStatement& bind(int at, const std::string& value);
  SqlStatement& bind_null(int at);
  Result<bool> step();  // true: there is a row
  Status finish();      // runs it to its end, and makes it ready for other parameters
  bool is_null(int column) const;
  std::int64_t integer(int column) const;
  double number(int column) const;
  std::string text(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// Used by one thread at a time. Errors of SQLite are ErrorCode::corrupt.
class SqlDatabase {
 public:
  static Result<SqlDatabase> in_memory();
  // Reads the whole file, which nobody may change meanwhile; the database does not refer to it afterwards.
  static Result<SqlDatabase> load(const std::string& path);
  // Writes everything into the file of this path, which has to be empty.
  Status save(const std::string& path);

  Status run(const char* sql);
  Result<SqlStatement> prepare(const std::string& sql);

 private:
  struct Close {
    void operator()(sqlite3* db) const noexcept;
  };
  explicit SqlDatabase(sqlite3* db) : db_(db) {}
  Error error(const std::string& what) const;
  static Status copy(sqlite3* from, sqlite3* to, const std::string& what);

  std::unique_ptr<sqlite3, Close> db_;
};

}  // namespace longhaul
