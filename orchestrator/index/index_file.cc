#include "orchestrator/index/index_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/digest/hash.h"
#include "base/files/file_hash.h"
#include "base/files/files.h"
#include "base/files/owned_files.h"
#include "base/files/owned_folder.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr const char* last_line_begin = "longhaul runs index, format ";
constexpr std::size_t digest_length = 32;

std::string last_line(int format_number, const std::string& digest) {
  return format("\n{}{:06}, {}\n", last_line_begin, format_number, digest);
}

Error damaged(const std::string& path, const std::string& why) {
  return make_error(ErrorCode::corrupt, "index " + path + " " + why);
}

// Whole, and of our format?
Status check_last_line(const std::string& path, std::string_view file) {
  const std::size_t length = last_line(0, std::string(digest_length, '0')).size();
  if (file.size() < length) return damaged(path, "is cut off");
  const std::string_view tables = file.substr(0, file.size() - length);
  const std::string line(file.substr(tables.size()));
  const std::string begin = std::string("\n") + last_line_begin;
  if (!starts_with(line, begin)) return damaged(path, "is cut off, or no index of runs");
  const int found = std::atoi(line.c_str() + begin.size());
  if (found != runs_index_format)
    return damaged(path, format("is of format {}, this program writes format {}", found, runs_index_format));
  if (line != last_line(found, xxh3_128_hex(tables))) return damaged(path, "is damaged: its digest is another");
  return {};
}

Status check_folder_of_runs(const std::string& path, SqlDatabase& database, const std::string& runs_dir) {
  LH_TRY(SqlStatement query, database.prepare("SELECT runs_dir FROM about"));
  LH_TRY(const bool row, query.step());
  if (!row || query.text(0) != runs_dir) return damaged(path, "is of another folder of runs");
  return {};
}

}  // namespace

Result<SqlDatabase> load_index_file(const std::string& path, const std::string& runs_dir) {
  auto file = open_owned_file(path, Ownership{});
  if (!file.ok()) return file.error();
  {
    LH_TRY(const MappedFile mapped, MappedFile::open(format("/proc/self/fd/{}", file->get())));
    LH_CHECK(check_last_line(path, mapped.view()));
  }
  auto database = SqlDatabase::load(path);
  if (!database.ok()) return damaged(path, "cannot be read: " + database.error().what);
  LH_CHECK(check_folder_of_runs(path, *database, runs_dir));
  return database;
}

Status save_index_file(const std::string& path, SqlDatabase& database) {
  const std::string folder = parent_path(path);
  LH_CHECK(make_directories(parent_path(folder)));
  LH_CHECK(make_private_folder(folder));
  LH_TRY(FileBeside beside, create_beside(path, 0600));
  const auto write = [&]() -> Status {
    LH_CHECK(database.save(beside.path));
    LH_TRY(const std::string digest, hash_file(beside.path));
    LH_TRY(const FileDescriptor end, open_to_append(beside.path, 0600));
    LH_CHECK(write_to(end.get(), last_line(runs_index_format, digest), beside.path));
    if (::rename(beside.path.c_str(), path.c_str()) != 0)
      return errno_error(ErrorCode::io, "cannot rename " + beside.path, errno);
    return {};
  };
  Status written = write();
  if (!written.ok()) (void)::unlink(beside.path.c_str());
  return written;
}

}  // namespace longhaul
