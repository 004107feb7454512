#include "engine/curate/read/input_stream.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/files/owned_files.h"
#include "base/text/text.h"
#include "engine/curate/read/unpackers.h"

namespace longhaul {
namespace {
constexpr std::size_t packed_bytes = 1 << 18;
}

Result<InputStream> InputStream::open(const std::string& path) {
  InputStream stream;
  stream.path_ = path;
  LH_TRY(stream.fd_, open_to_read(path));
  LH_CHECK(stream.fill());
  const Packing packing = packing_of(stream.packed_);
  stream.unpacker_ = make_unpacker(packing);
  if (packing != Packing::none && !stream.unpacker_) {
    return make_error(
        ErrorCode::unsupported,
        format("{} is packed by {}, whose library was not there when this program was built", path, to_string(packing)),
        "unpack the file, or pack it with gzip");
  }
  return stream;
}

// Reads on, behind what is left.
Status InputStream::fill() {
  if (at_ > 0) packed_.erase(0, at_);
  at_ = 0;
  const std::size_t before = packed_.size();
  packed_.resize(before + packed_bytes);
  ssize_t n = 0;
  do {
    n = ::read(fd_.get(), packed_.data() + before, packed_bytes);
  } while (n < 0 && errno == EINTR);
  const int error_number = errno;
  packed_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  if (n < 0) return errno_error(ErrorCode::io, format("cannot read {}", path_), error_number);
  file_ended_ = n == 0;
  return {};
}

Result<std::size_t> InputStream::read(char* to, std::size_t size) {
  std::size_t done = 0;
  while (done < size && damage_.empty()) {
    if (at_ == packed_.size()) {
      if (!file_ended_) LH_CHECK(fill());
    }
    Unpacker::Piece piece{packed_.data() + at_, packed_.size() - at_, to + done, size - done};
    if (!unpacker_) {
      const std::size_t n = std::min(piece.in_size, piece.out_size);
      std::memcpy(piece.out, piece.in, n);
      at_ += n;
      done += n;
      if (n == 0 && file_ended_) break;
      continue;
    }
    const std::size_t in_before = piece.in_size;
    const std::string problem = unpacker_->unpack(piece);
    const std::size_t given = size - done - piece.out_size;
    at_ = packed_.size() - piece.in_size;
    done += given;
    if (!problem.empty()) {
      damage_ = "its packed data is damaged: " + problem;
    } else if (given == 0 && file_ended_ && at_ == packed_.size()) {
      if (!unpacker_->is_whole()) damage_ = "the file ends within its packed data";
      break;
    } else if (given == 0 && in_before > 0 && piece.in_size == in_before) {
      damage_ = "its packed data leads nowhere";
    }
  }
  return done;
}

}  // namespace longhaul
