#include "engine/checkpoint/shard_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "base/json.h"
#include "base/text.h"

namespace longhaul {

static_assert(std::endian::native == std::endian::little, "shards are little-endian, and so are all target machines");

namespace {

constexpr std::uint64_t kHeaderBytesMax = 100'000'000;  // the limit of the format's own reader

std::int64_t bytes_of_dtype(std::string_view dtype) {
  if (dtype == "F64" || dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  if (dtype == "BF16" || dtype == "F16" || dtype == "I16") return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL") return 1;
  return 0;
}

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
    at += static_cast<std::int64_t>(tensor.bytes.size());
    offsets.push_back(at);
    entry.set("data_offsets", std::move(offsets));
    header.set(tensor.key, std::move(entry));
  }
  std::string text = to_json(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

Status write_all(int fd, std::string_view bytes, const std::string& path) {
  constexpr std::size_t piece_max = std::size_t{64} << 20;
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), std::min(bytes.size(), piece_max));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(ErrorCode::io, "cannot write " + path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Status write_tensors(int fd, std::span<const ShardTensor> tensors, const std::string& path) {
  const std::string header = header_of(tensors);
  const std::uint64_t length = header.size();
  LH_CHECK(write_all(fd, std::string_view(reinterpret_cast<const char*>(&length), sizeof length), path));
  LH_CHECK(write_all(fd, header, path));
  for (const ShardTensor& tensor : tensors) LH_CHECK(write_all(fd, tensor.bytes, path));
  if (::fsync(fd) != 0) return errno_error(ErrorCode::io, "cannot sync " + path, errno);
  return {};
}

}  // namespace

Status write_shard(const std::string& path, std::span<const ShardTensor> tensors) {
  FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return errno_error(ErrorCode::io, "cannot create " + path, errno);
  Status status = write_tensors(fd.get(), tensors, path);
  if (!status.ok()) ::unlink(path.c_str());
  return status;
}

Result<ShardReader> ShardReader::open(const std::string& path) {
  const auto damaged = [&](const std::string& what) {
    return make_error(ErrorCode::corrupt, path + " is damaged: " + what);
  };
  LH_TRY(MappedFile file, MappedFile::open(path));
  const std::string_view all = file.view();
  std::uint64_t length = 0;
  if (all.size() < sizeof length) return damaged(format("{} bytes are no safetensors file", all.size()));
  std::memcpy(&length, all.data(), sizeof length);
  if (length > kHeaderBytesMax || length > all.size() - sizeof length)
    return damaged(format("its header has {} bytes, the file {}", length, all.size()));
  const std::string_view data = all.substr(sizeof length + length);
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
