// Scalars for TensorBoard: one event file, appended to while the training runs, that TensorBoard reads as it grows.
//
// The file is a row of TFRecords, little-endian:
//
//   u64  length of the data
//   u32  masked CRC32C of those eight bytes     masked: rotated right by 15 bits, plus 0xA282EAD8
//   ...  data: one Event message
//   u32  masked CRC32C of the data
//
// Of the protocol buffers (tensorflow/core/util/event.proto and framework/summary.proto) these fields are written, by
// hand, as they are few and never change:
//
//   Event      1 double wall_time (s)   2 int64 step   3 string file_version = "brain.Event:2", in the first record
//   alone
//              5 Summary                7 SessionLog
//   Summary    1 Value, one             Value       1 string tag   2 float simple_value
//   SessionLog 1 status = 1 (START)
#pragma once

#include <cstdint>
#include <string>

#include "base/files/files.h"
#include "base/system/clock.h"

namespace longhaul {

// One writer per file, one thread at a time. A record is one write(2) at the end of the file and not synced: a reader
// sees whole records, a lost machine costs the last seconds of curves.
class TensorBoardWriter {
 public:
  // A new file in `folder` (made if absent), named events.out.tfevents.<seconds>.<host>.<pid>.<n> so that no other
  // writer's is ever touched. TensorBoard joins all files of a folder into one run. `clock` is borrowed.
  static Result<TensorBoardWriter> create(const std::string& folder, const Clock& clock);

  // A training goes on after `step`: TensorBoard drops what earlier files of the folder have of later steps.
  Status resumed_after(std::int64_t step);
  // step >= 0. Kept as float, as TensorBoard does; NaN and infinities are written as such.
  Status scalar(const std::string& tag, std::int64_t step, double value);

  const std::string& path() const { return path_; }

 private:
  TensorBoardWriter(FileDescriptor file, std::string path, const Clock& clock)
      : file_(std::move(file)), path_(std::move(path)), clock_(&clock) {}
  // Fields of an Event behind wall_time, framed and appended.
  Status append(const std::string& fields);

  FileDescriptor file_;
  std::string path_;
  const Clock* clock_;
};

// CRC-32C (Castagnoli; RFC 3720, appendix B.4).
std::uint32_t crc32c(std::string_view bytes);

}  // namespace longhaul
