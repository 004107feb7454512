#include "engine/interop/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>

#include "base/files/owned_files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78U : crc >> 1;
    table[i] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> crc_table = make_crc_table();

std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

template <class T>
void append_little_endian(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

// Protocol buffers: a field is its number and wire type, then the value.
void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}
void varint_field(std::string& out, std::uint64_t number, std::int64_t value) {
  append_varint(out, number << 3 | 0);
  append_varint(out, static_cast<std::uint64_t>(value));
}
void double_field(std::string& out, std::uint64_t number, double value) {
  append_varint(out, number << 3 | 1);
  append_little_endian(out, std::bit_cast<std::uint64_t>(value));
}
void bytes_field(std::string& out, std::uint64_t number, std::string_view bytes) {
  append_varint(out, number << 3 | 2);
  append_varint(out, bytes.size());
  out += bytes;
}
void float_field(std::string& out, std::uint64_t number, float value) {
  append_varint(out, number << 3 | 5);
  append_little_endian(out, std::bit_cast<std::uint32_t>(value));
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) crc = crc >> 8 ^ crc_table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

Result<TensorBoardWriter> TensorBoardWriter::create(const std::string& folder, const Clock& clock) {
  LH_CHECK(make_directories(folder));
  char host[256] = "localhost";
  (void)::gethostname(host, sizeof host - 1);
  for (int n = 0;; ++n) {
    const std::string path =
        join_path(folder, format("events.out.tfevents.{:010}.{}.{}.{}", clock.wall_ms() / 1000, host, ::getpid(), n));
    auto file = create_new_file(path);
    if (!file.ok() && file.error().code == ErrorCode::conflict && n < 1000) continue;
    if (!file.ok()) return std::move(file).error();
    TensorBoardWriter writer(std::move(*file), path, clock);
    std::string fields;
    bytes_field(fields, 3, "brain.Event:2");
    LH_CHECK(writer.append(fields));
    return writer;
  }
}

Status TensorBoardWriter::resumed_after(std::int64_t step) {
  std::string log, fields;
  varint_field(log, 1, 1);
  varint_field(fields, 2, step + 1);  // what is at this step and later is dropped
  bytes_field(fields, 7, log);
  return append(fields);
}

Status TensorBoardWriter::scalar(const std::string& tag, std::int64_t step, double value) {
  std::string one, summary, fields;
  bytes_field(one, 1, tag);
  float_field(one, 2, static_cast<float>(value));
  bytes_field(summary, 1, one);
  varint_field(fields, 2, step);
  bytes_field(fields, 5, summary);
  return append(fields);
}

Status TensorBoardWriter::append(const std::string& fields) {
  std::string event, record;
  double_field(event, 1, static_cast<double>(clock_->wall_ms()) * 1e-3);
  event += fields;
  append_little_endian(record, static_cast<std::uint64_t>(event.size()));
  append_little_endian(record, masked_crc(record));
  record += event;
  append_little_endian(record, masked_crc(event));
  const ssize_t written = ::write(file_.get(), record.data(), record.size());
  if (written == static_cast<ssize_t>(record.size())) return {};
  if (written < 0) return errno_error(ErrorCode::io, "cannot write to " + path_, errno);
  return errno_error(ErrorCode::io, "cannot write whole records to " + path_, ENOSPC);
}

}  // namespace longhaul
