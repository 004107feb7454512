#include "engine/checkpoint/state/file_state_place.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/files/file_query.h"
#include "base/process/process.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t bounce_bytes = std::int64_t{1} << 20;

std::int64_t page_before(std::int64_t byte) {
  return byte / state_page_bytes * state_page_bytes;
}
std::int64_t page_after(std::int64_t byte) {
  return page_before(byte + state_page_bytes - 1);
}
bool is_whole_pages(std::int64_t begin, const void* memory, std::size_t size) {
  return begin % state_page_bytes == 0 && static_cast<std::int64_t>(size) % state_page_bytes == 0 &&
         reinterpret_cast<std::uintptr_t>(memory) % static_cast<std::uintptr_t>(state_page_bytes) == 0;
}

// A file without a name.
int open_nameless(const std::string& folder) {
#ifdef O_TMPFILE
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
#endif
  std::string path = join_path(folder, "longhaul-state-XXXXXX");
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

}  // namespace

Result<std::unique_ptr<FileStatePlace>> FileStatePlace::create(const std::string& folder, std::int64_t bytes,
                                                               MemoryAccount* account) {
  LH_TRY(const bool there, is_there(folder));
  if (!there || !is_directory(folder))
    return make_error(ErrorCode::not_found, format("there is no folder {} on {}", folder, host_name()),
                      "it must be there on every node");
  std::unique_ptr<FileStatePlace> place(new FileStatePlace());
  place->name_ = format("state of the optimizer in {} on {}", folder, host_name());
  place->bytes_ = page_after(bytes);
  place->file_.reset(open_nameless(folder));
  if (!place->file_.valid()) return errno_error(ErrorCode::io, "cannot create a file for the " + place->name_, errno);
  if (place->bytes_ > 0)
    if (const int full = ::posix_fallocate(place->file_.get(), 0, static_cast<off_t>(place->bytes_)); full != 0)
      return errno_error(
          ErrorCode::io,
          format("there is no room for {}, the {}", human_bytes(static_cast<double>(place->bytes_)), place->name_),
          full);
#ifdef O_DIRECT
  const int flags = ::fcntl(place->file_.get(), F_GETFL);
  place->direct_ = flags >= 0 && ::fcntl(place->file_.get(), F_SETFL, flags | O_DIRECT) == 0;
#endif
  LH_TRY(place->bounce_, PageBuffer::create(std::min(bounce_bytes, place->bytes_), account));
  return place;
}

Status FileStatePlace::read(std::int64_t begin, std::byte* out, std::int64_t size) const {
  while (size > 0) {
    const ssize_t n = ::pread(file_.get(), out, static_cast<std::size_t>(size), static_cast<off_t>(begin));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(ErrorCode::io, "cannot read the " + name_, errno);
    if (n == 0) return make_error(ErrorCode::io, "the " + name_ + " ends too early");
    out += n, begin += n, size -= n;
  }
  return {};
}

Status FileStatePlace::write(std::int64_t begin, const std::byte* from, std::int64_t size) const {
  while (size > 0) {
    const ssize_t n = ::pwrite(file_.get(), from, static_cast<std::size_t>(size), static_cast<off_t>(begin));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(ErrorCode::io, "cannot write the " + name_, errno);
    from += n, begin += n, size -= n;
  }
  return {};
}

template <class Use>
Status FileStatePlace::by_bounce(std::int64_t begin, std::int64_t size, const Use& use) {
  const std::lock_guard lock(mutex_);
  for (std::int64_t at = begin; at < begin + size;) {
    const std::int64_t first = page_before(at);
    const std::int64_t end = std::min(begin + size, first + bounce_.bytes());
    const std::span<std::byte> pages(bounce_.data(), static_cast<std::size_t>(page_after(end) - first));
    LH_CHECK(use(first, pages, bounce_.data() + (at - first), at - begin, end - at));
    at = end;
  }
  return {};
}

Status FileStatePlace::fetch(std::int64_t begin, std::span<std::byte> out) {
  const auto size = static_cast<std::int64_t>(out.size());
  LH_ASSERT(begin >= 0 && begin + size <= bytes_, name_);
  if (is_whole_pages(begin, out.data(), out.size())) return read(begin, out.data(), size);
  const auto copy = [&](std::int64_t first, std::span<std::byte> pages, std::byte* here, std::int64_t at,
                        std::int64_t count) -> Status {
    LH_CHECK(read(first, pages.data(), static_cast<std::int64_t>(pages.size())));
    std::memcpy(out.data() + at, here, static_cast<std::size_t>(count));
    return {};
  };
  return by_bounce(begin, size, copy);
}

Status FileStatePlace::store(std::int64_t begin, std::span<const std::byte> from) {
  const auto size = static_cast<std::int64_t>(from.size());
  LH_ASSERT(begin >= 0 && begin + size <= bytes_, name_);
  if (is_whole_pages(begin, from.data(), from.size())) return write(begin, from.data(), size);
  const auto copy = [&](std::int64_t first, std::span<std::byte> pages, std::byte* here, std::int64_t at,
                        std::int64_t count) -> Status {
    const auto bytes = static_cast<std::int64_t>(pages.size());
    if (count < bytes) LH_CHECK(read(first, pages.data(), bytes));  // what else is in its first and last page
    std::memcpy(here, from.data() + at, static_cast<std::size_t>(count));
    return write(first, pages.data(), bytes);
  };
  return by_bounce(begin, size, copy);
}

}  // namespace longhaul
