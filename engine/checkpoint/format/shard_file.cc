#include "engine/checkpoint/format/shard_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {

static_assert(std::endian::native == std::endian::little, "shards are little-endian, and so are all target machines");

namespace {

constexpr int populate_read = 22;  // MADV_POPULATE_READ of Linux 5.14, which headers of an older libc do not have

constexpr std::uint64_t kHeaderBytesMax = 100'000'000;  // the limit of the format's own reader

std::int64_t bytes_of_dtype(std::string_view dtype) {
  if (dtype == "F64" || dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  if (dtype == "BF16" || dtype == "F16" || dtype == "I16") return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL") return 1;
  return 0;
}

std::uint64_t bytes_of(const ShardTensor& tensor) {
  std::uint64_t bytes = static_cast<std::uint64_t>(bytes_of_dtype(tensor.dtype));
  for (const std::int64_t extent : tensor.shape) bytes *= static_cast<std::uint64_t>(extent);
  return bytes;
}

// With the length before it and the spaces behind it: whole pages.
std::string header_of(std::span<const ShardTensor> tensors) {
  Value header = Value::make_table();
  std::int64_t at = 0;
  for (const ShardTensor& tensor : tensors) {
    Value entry = Value::make_table();
    entry.set("dtype", tensor.dtype);
    Value shape = Value::make_array();
    for (const std::int64_t extent : tensor.shape) shape.push_back(extent);
    entry.set("shape", std::move(shape));
    Value offsets = Value::make_array();
    offsets.push_back(at);
    at += static_cast<std::int64_t>(bytes_of(tensor));
    offsets.push_back(at);
    entry.set("data_offsets", std::move(offsets));
    header.set(tensor.key, std::move(entry));
  }
  std::string text = to_json(header);
  const std::size_t page = static_cast<std::size_t>(checkpoint_page_bytes);
  text.append((page - (text.size() + sizeof(std::uint64_t)) % page) % page, ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

constexpr std::size_t piece_bytes_max = std::size_t{32} << 20;
constexpr std::size_t pending_bytes_max = std::size_t{4} << 20;

bool begins_at_page(const char* data) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(checkpoint_page_bytes) == 0;
}
std::size_t whole_pages(std::size_t bytes) {
  return bytes - bytes % static_cast<std::size_t>(checkpoint_page_bytes);
}

}  // namespace

Result<ShardWriter> ShardWriter::create(const std::string& path, std::span<const ShardTensor> header,
                                        const ShardWriteOptions& options) {
  ShardWriter writer;
  writer.path_ = path;
  writer.options_ = options;
  const auto open_new = [&](int more) {
    ::unlink(path.c_str());
    writer.file_.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | more, options.mode));
  };
#ifdef O_DIRECT
  if (options.direct_io) open_new(O_DIRECT);
  writer.direct_ = writer.file_.valid();  // some file systems have none: then through the page cache
#endif
  if (!writer.file_.valid()) open_new(0);
  if (!writer.file_.valid()) return errno_error(ErrorCode::io, "cannot create " + path, errno);
  if (writer.direct_) {
    LH_TRY(writer.pending_, PageBuffer::create(static_cast<std::int64_t>(pending_bytes_max)));
  }
  const std::string head = header_of(header);
  writer.wanted_ = head.size();
  for (const ShardTensor& tensor : header) writer.wanted_ += bytes_of(tensor);
  LH_CHECK(writer.append(head));
  return writer;
}

ShardWriter::~ShardWriter() {
  if (file_.valid()) ::unlink(path_.c_str());
}

// The kernel is asked to begin with the disk at once: the sync at the end then waits for the last piece only.
Status ShardWriter::write_pieces(std::string_view bytes) {
  while (!bytes.empty()) {
    if (options_.cancelled && options_.cancelled->load(std::memory_order_relaxed))
      return make_error(ErrorCode::aborted, "writing " + path_ + " was given up");
    const ssize_t n =
        ::pwrite(file_.get(), bytes.data(), std::min(bytes.size(), piece_bytes_max), static_cast<off_t>(written_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(ErrorCode::io, "cannot write " + path_, errno);
#ifdef SYNC_FILE_RANGE_WRITE
    if (!direct_) ::sync_file_range(file_.get(), static_cast<off_t>(written_), n, SYNC_FILE_RANGE_WRITE);
#endif
    const bool first_half = written_ * 2 < wanted_;
    written_ += static_cast<std::uint64_t>(n);
    if (options_.written) options_.written->fetch_add(n, std::memory_order_relaxed);
    bytes.remove_prefix(static_cast<std::size_t>(n));
    if (first_half && written_ * 2 >= wanted_)
      if (auto fault = fault_here(FaultPoint::checkpoint_half_shard)) return *fault;
  }
  return {};
}

Status ShardWriter::append(std::string_view bytes) {
  if (!direct_) return write_pieces(bytes);
  while (!bytes.empty()) {
    if (pending_bytes_ == 0 && begins_at_page(bytes.data()) && whole_pages(bytes.size()) > 0) {
      LH_CHECK(write_pieces(bytes.substr(0, whole_pages(bytes.size()))));
      bytes.remove_prefix(whole_pages(bytes.size()));
      continue;
    }
    const std::size_t n = std::min(bytes.size(), pending_bytes_max - pending_bytes_);
    std::memcpy(pending_.data() + pending_bytes_, bytes.data(), n);
    pending_bytes_ += n;
    bytes.remove_prefix(n);
    if (pending_bytes_ == pending_bytes_max) LH_CHECK(flush());
  }
  return {};
}

Status ShardWriter::flush() {
  const std::size_t n = std::exchange(pending_bytes_, 0);
  return write_pieces({reinterpret_cast<const char*>(pending_.data()), n});
}

Status ShardWriter::finish() {
  const std::uint64_t size = written_ + pending_bytes_;
  if (size != wanted_)
    return make_error(ErrorCode::internal, format("{}: {} of {} bytes were written", path_, size, wanted_));
  if (pending_bytes_ > 0) {  // the last page is written whole, then cut
    std::memset(pending_.data() + pending_bytes_, 0, pending_bytes_max - pending_bytes_);
    const auto page = static_cast<std::size_t>(checkpoint_page_bytes);
    pending_bytes_ = (pending_bytes_ + page - 1) / page * page;
    LH_CHECK(flush());
    if (::ftruncate(file_.get(), static_cast<off_t>(size)) != 0)
      return errno_error(ErrorCode::io, "cannot cut " + path_ + " to its size", errno);
  }
  if (::fsync(file_.get()) != 0) return errno_error(ErrorCode::io, "cannot sync " + path_, errno);
  file_.reset();
  return {};
}

Status read_in(std::string_view mapped, const std::string& path) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto into_page = reinterpret_cast<std::uintptr_t>(mapped.data()) % page;
  char* const first = const_cast<char*>(mapped.data()) - into_page;
  while (!mapped.empty() && ::madvise(first, mapped.size() + into_page, populate_read) != 0) {
    if (errno == EFAULT || errno == EIO || errno == EHWPOISON)
      return make_error(ErrorCode::io, "cannot read " + path + ": the file system does not give its bytes",
                        "look for errors of the disk in the node's kernel log");
    if (errno != EINTR && errno != EAGAIN) break;  // an older kernel, or no memory for it: read without
  }
  return {};
}

Result<ShardReader> ShardReader::open(const std::string& path) {
  const auto damaged = [&](const std::string& what) {
    return make_error(ErrorCode::corrupt, path + " is damaged: " + what);
  };
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped.ok() && mapped.error().code == ErrorCode::invalid_input) return damaged("it is not a regular file");
  LH_TRY(MappedFile file, std::move(mapped));
  const std::string_view all = file.view();
  std::uint64_t length = 0;
  if (all.size() < sizeof length) return damaged(format("{} bytes are no safetensors file", all.size()));
  LH_CHECK(read_in(all.substr(0, sizeof length), path));
  std::memcpy(&length, all.data(), sizeof length);
  if (length > kHeaderBytesMax || length > all.size() - sizeof length)
    return damaged(format("its header has {} bytes, the file {}", length, all.size()));
  const std::string_view data = all.substr(sizeof length + length);
  LH_CHECK(read_in(all.substr(0, sizeof length + length), path));
  auto header = parse_json(all.substr(sizeof length, length), path);
  if (!header.ok() || !header->is_table()) return damaged("its header is no JSON table");

  ShardReader reader(std::move(file));
  for (const ValueMember& member : header->as_table()) {
    if (member.key == "__metadata__") continue;
    ShardTensor tensor{member.key, member.value.get_string("dtype"), {}, {}};
    const Value* shape = member.value.find("shape");
    const Value* offsets = member.value.find("data_offsets");
    if (!shape || !shape->is_array() || !offsets || !offsets->is_array() || offsets->size() != 2 ||
        !offsets->as_array()[0].is_integer() || !offsets->as_array()[1].is_integer())
      return damaged("entry of " + member.key);
    std::int64_t bytes = bytes_of_dtype(tensor.dtype);
    for (const Value& extent : shape->as_array()) {
      std::int64_t product = 0;
      if (!extent.is_integer() || extent.as_integer() < 0 ||
          __builtin_mul_overflow(bytes, extent.as_integer(), &product))
        return damaged("shape of " + member.key);
      bytes = product;
      tensor.shape.push_back(extent.as_integer());
    }
    const std::int64_t begin = offsets->as_array()[0].as_integer(), end = offsets->as_array()[1].as_integer();
    if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > data.size())
      return damaged(format("{} ends at byte {} of {}; the file was cut short", member.key, end, data.size()));
    if (end - begin != bytes)
      return damaged(format("{} has {} bytes, its shape asks for {}", member.key, end - begin, bytes));
    tensor.bytes = data.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    reader.tensors_.emplace(member.key, std::move(tensor));
  }
  return reader;
}

const ShardTensor* ShardReader::find(const std::string& key) const {
  const auto found = tensors_.find(key);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace longhaul
