#include "engine/curate/read/unpackers.h"

#include <zlib.h>
#ifdef LONGHAUL_HAVE_BZIP2
#include <bzlib.h>
#endif
#ifdef LONGHAUL_HAVE_LZMA
#include <lzma.h>
#endif
#ifdef LONGHAUL_HAVE_ZSTD
#include <zstd.h>
#endif

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t library_bytes_max = 1U << 30;  // the libraries count in 32 bits

// Members stand one behind the other (RFC 1952); what follows the last and is no member is padding.
class GzipUnpacker : public Unpacker {
 public:
  GzipUnpacker() { ready_ = inflateInit2(&stream_, 31) == Z_OK; }
  ~GzipUnpacker() override { inflateEnd(&stream_); }
  GzipUnpacker(const GzipUnpacker&) = delete;
  GzipUnpacker& operator=(const GzipUnpacker&) = delete;

  std::string unpack(Piece& piece) override {
    if (!ready_) return "no memory to unpack it";
    if (whole_) {
      if (piece.in_size > 0 && piece.in[0] != '\x1f') piece.in_size = 0;
      if (piece.in_size == 0) return {};
      inflateReset(&stream_);
      whole_ = false;
    }
    stream_.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(piece.in));
    stream_.avail_in = static_cast<unsigned>(std::min(piece.in_size, library_bytes_max));
    stream_.next_out = reinterpret_cast<unsigned char*>(piece.out);
    stream_.avail_out = static_cast<unsigned>(std::min(piece.out_size, library_bytes_max));
    const unsigned in = stream_.avail_in, out = stream_.avail_out;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    piece.in += in - stream_.avail_in;
    piece.in_size -= in - stream_.avail_in;
    piece.out += out - stream_.avail_out;
    piece.out_size -= out - stream_.avail_out;
    whole_ = code == Z_STREAM_END;
    if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR) return {};
    return stream_.msg ? stream_.msg : "damaged";
  }
  bool is_whole() const override { return whole_; }

 private:
  z_stream stream_{};
  bool ready_ = false, whole_ = false;
};

#ifdef LONGHAUL_HAVE_BZIP2
class Bzip2Unpacker : public Unpacker {
 public:
  Bzip2Unpacker() { BZ2_bzDecompressInit(&stream_, 0, 0); }
  ~Bzip2Unpacker() override { BZ2_bzDecompressEnd(&stream_); }
  Bzip2Unpacker(const Bzip2Unpacker&) = delete;
  Bzip2Unpacker& operator=(const Bzip2Unpacker&) = delete;

  std::string unpack(Piece& piece) override {
    if (whole_) {
      if (piece.in_size > 0 && piece.in[0] != 'B') piece.in_size = 0;
      if (piece.in_size == 0) return {};
      BZ2_bzDecompressEnd(&stream_);
      stream_ = bz_stream{};
      BZ2_bzDecompressInit(&stream_, 0, 0);
      whole_ = false;
    }
    stream_.next_in = const_cast<char*>(piece.in);
    stream_.avail_in = static_cast<unsigned>(std::min(piece.in_size, library_bytes_max));
    stream_.next_out = piece.out;
    stream_.avail_out = static_cast<unsigned>(std::min(piece.out_size, library_bytes_max));
    const unsigned in = stream_.avail_in, out = stream_.avail_out;
    const int code = BZ2_bzDecompress(&stream_);
    piece.in += in - stream_.avail_in;
    piece.in_size -= in - stream_.avail_in;
    piece.out += out - stream_.avail_out;
    piece.out_size -= out - stream_.avail_out;
    whole_ = code == BZ_STREAM_END;
    if (code == BZ_OK || code == BZ_STREAM_END) return {};
    return format("bzip2 says {}", code);
  }
  bool is_whole() const override { return whole_; }

 private:
  bz_stream stream_{};
  bool whole_ = false;
};
#endif

#ifdef LONGHAUL_HAVE_LZMA
class XzUnpacker : public Unpacker {
 public:
  XzUnpacker() {
    constexpr std::uint64_t memory_max = 1ULL << 30;  // a header may ask for 4 GiB
    ready_ = lzma_stream_decoder(&stream_, memory_max, 0) == LZMA_OK;
  }
  ~XzUnpacker() override { lzma_end(&stream_); }
  XzUnpacker(const XzUnpacker&) = delete;
  XzUnpacker& operator=(const XzUnpacker&) = delete;

  std::string unpack(Piece& piece) override {
    if (!ready_) return "no memory to unpack it";
    if (whole_) {
      if (piece.in_size > 0 && piece.in[0] != '\xFD') piece.in_size = 0;
      if (piece.in_size == 0) return {};
      lzma_end(&stream_);
      stream_ = LZMA_STREAM_INIT;
      if (lzma_stream_decoder(&stream_, 1ULL << 30, 0) != LZMA_OK) return "no memory to unpack it";
      whole_ = false;
    }
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(piece.in);
    stream_.avail_in = piece.in_size;
    stream_.next_out = reinterpret_cast<std::uint8_t*>(piece.out);
    stream_.avail_out = piece.out_size;
    const lzma_ret code = lzma_code(&stream_, LZMA_RUN);
    piece.in += piece.in_size - stream_.avail_in;
    piece.in_size = stream_.avail_in;
    piece.out += piece.out_size - stream_.avail_out;
    piece.out_size = stream_.avail_out;
    whole_ = code == LZMA_STREAM_END;
    if (code == LZMA_OK || code == LZMA_STREAM_END || code == LZMA_BUF_ERROR) return {};
    return format("xz says {}", static_cast<int>(code));
  }
  bool is_whole() const override { return whole_; }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ready_ = false, whole_ = false;
};
#endif

#ifdef LONGHAUL_HAVE_ZSTD
// Windows of more than 128 MiB are refused, which is the library's default.
class ZstdUnpacker : public Unpacker {
 public:
  ZstdUnpacker() : stream_(ZSTD_createDStream(), &ZSTD_freeDStream) {}

  std::string unpack(Piece& piece) override {
    if (!stream_) return "no memory to unpack it";
    ZSTD_inBuffer in{piece.in, piece.in_size, 0};
    ZSTD_outBuffer out{piece.out, piece.out_size, 0};
    const std::size_t code = ZSTD_decompressStream(stream_.get(), &out, &in);
    piece.in += in.pos;
    piece.in_size -= in.pos;
    piece.out += out.pos;
    piece.out_size -= out.pos;
    if (ZSTD_isError(code)) return ZSTD_getErrorName(code);
    if (in.pos > 0 || out.pos > 0) whole_ = code == 0;  // asked without bytes it waits for the next frame
    return {};
  }
  bool is_whole() const override { return whole_; }

 private:
  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream_;
  bool whole_ = false;
};
#endif

}  // namespace

Packing packing_of(std::string_view start) {
  if (starts_with(start, "\x1F\x8B")) return Packing::gzip;
  if (starts_with(start, "BZh")) return Packing::bzip2;
  if (starts_with(start, std::string_view("\xFD"
                                          "7zXZ\0",
                                          6)))
    return Packing::xz;
  if (starts_with(start, "\x28\xB5\x2F\xFD")) return Packing::zstd;
  return Packing::none;
}

const char* to_string(Packing packing) {
  switch (packing) {
    case Packing::gzip: return "gzip";
    case Packing::bzip2: return "bzip2";
    case Packing::xz: return "xz";
    case Packing::zstd: return "zstd";
    default: return "nothing";
  }
}

std::unique_ptr<Unpacker> make_unpacker(Packing packing) {
  switch (packing) {
    case Packing::gzip: return std::make_unique<GzipUnpacker>();
#ifdef LONGHAUL_HAVE_BZIP2
    case Packing::bzip2: return std::make_unique<Bzip2Unpacker>();
#endif
#ifdef LONGHAUL_HAVE_LZMA
    case Packing::xz: return std::make_unique<XzUnpacker>();
#endif
#ifdef LONGHAUL_HAVE_ZSTD
    case Packing::zstd: return std::make_unique<ZstdUnpacker>();
#endif
    default: return nullptr;
  }
}

bool is_packing_built_in(const std::string& ending) {
  const Packing packing = ending == ".bz2"   ? Packing::bzip2
                          : ending == ".xz"  ? Packing::xz
                          : ending == ".zst" ? Packing::zstd
                                             : Packing::gzip;
  return make_unpacker(packing) != nullptr;
}

}  // namespace longhaul
