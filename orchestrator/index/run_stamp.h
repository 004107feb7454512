// What the file system says of a run's log without opening it: whether what is known of the run is still so. A run's
// log grows in two ways only (state/epoch_log.h): a new epoch's file appears, which changes the folder, or lines are
// appended to the newest epoch's file. A run that has ended gets no more lines without a new epoch, so it is one
// question; one that has not is two.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul {

struct FileStamp {
  std::int64_t inode = 0, bytes = 0, changed_ns = 0, status_ns = 0;  // st_ino, st_size, st_mtim, st_ctim
  bool there() const { return inode != 0; }
  bool operator==(const FileStamp&) const = default;
};
// One system call. All 0: it is not there, or cannot be looked at.
FileStamp stamp_of(const std::string& path);

struct RunStamp {
  FileStamp log;     // the folder log/
  FileStamp newest;  // the file of the newest epoch; not looked at where the run has ended
  bool operator==(const RunStamp&) const = default;
};

// Something that changed only a moment before it was looked at may change again without another time stamp: clocks of
// file systems are coarse. What was read then is read again the next time. `now_ms` is this host's clock; a file
// server's that is ahead of it costs another reading.
bool is_settled(const FileStamp& stamp, std::int64_t now_ms);

}  // namespace longhaul
