// Files of the reference are read, ours are read back, and nothing that is cut, holed or foreign is accepted.
#include "engine/interop/safetensors.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/digest/philox.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "tests/support/plain_file.h"

using namespace longhaul;

namespace {

struct TensorFolder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / format("longhaul_safetensors_test_{}", ::getpid());
  TensorFolder() { std::filesystem::create_directories(path); }
  ~TensorFolder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name) const { return (path / name).string(); }
};

std::string golden_path(const char* name) {
  return std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/" + name;
}

// A file with this header text and this much data.
std::string raw_file(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), 8);
  return file + header + std::string(data_bytes, '\x11');
}
Result<SafetensorsFile> open_bytes(const TensorFolder& folder, const std::string& bytes) {
  REQUIRE(write_plain(folder.file("x.safetensors"), bytes));
  return SafetensorsFile::open(folder.file("x.safetensors"));
}

}  // namespace

TEST_CASE("trust: a file of weights is written beside its place under a name that nobody can know before") {
  const TensorFolder folder;
  const std::string path = folder.file("m"), precious = folder.file("precious");
  REQUIRE(write_plain(precious, "keep this"));
  REQUIRE(::symlink(precious.c_str(), format("{}.tmp.{}", path, ::getpid()).c_str()) == 0);
  auto writer = SafetensorsWriter::create(path, {{"w", SafetensorType::i8, {4}}}).value();
  REQUIRE(writer.write("w", "abcd").ok());
  REQUIRE(writer.finish().ok());
  CHECK(read_file(precious).value() == "keep this");
  CHECK(SafetensorsFile::open(path).ok());
}

TEST_CASE("a file of the reference is read, values and all") {
  const auto file = SafetensorsFile::open(golden_path("small.safetensors")).value();
  const Value golden = parse_json(read_file(golden_path("safetensors.json")).value()).value();
  const Value& tensors = *golden.find("tensors");
  CHECK(file.tensors().size() == tensors.size());
  CHECK(file.metadata().at("format") == "pt");
  for (const ValueMember& member : tensors.as_table()) {
    CAPTURE(member.key);
    const SafetensorView view = file.find(member.key).value();
    ValueArray shape(view.shape.begin(), view.shape.end());
    CHECK(Value(shape) == *member.value.find("shape"));
    const Value& values = *member.value.find("values");
    REQUIRE(static_cast<std::size_t>(view.elements()) == values.size());
    std::vector<float> floats(values.size());
    const Status converted = convert_to_f32(view, floats);
    const bool floating =
        view.type == SafetensorType::f32 || view.type == SafetensorType::f16 || view.type == SafetensorType::f64;
    CHECK(converted.ok() == floating);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double expected = values.as_array()[i].as_number();
      if (floating)
        CHECK(static_cast<double>(floats[i]) == expected);
      else if (view.type == SafetensorType::i8)
        CHECK(static_cast<signed char>(view.bytes[i]) == expected);
      else
        CHECK(view.bytes[8 * i] == expected);
    }
  }
  const auto missing = file.find("a.weights");
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().message().find("a.weight'") != std::string::npos);
}

TEST_CASE("half and bfloat16 become f32 exactly, all 65,536 of them") {
  std::string bytes(2 * 65536, '\0');
  for (std::uint32_t i = 0; i < 65536; ++i) {
    bytes[2 * i] = static_cast<char>(i);
    bytes[2 * i + 1] = static_cast<char>(i >> 8);
  }
  std::vector<float> out(65536);
  REQUIRE(convert_to_f32({SafetensorType::bf16, {65536}, bytes}, out).ok());
  for (std::uint32_t i = 0; i < 65536; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, &out[i], 4);
    CHECK(bits == i << 16);
  }
  REQUIRE(convert_to_f32({SafetensorType::f16, {65536}, bytes}, out).ok());
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const int exponent = static_cast<int>(i >> 10 & 31), fraction = static_cast<int>(i & 1023);
    const double magnitude = exponent == 31  ? (fraction ? std::nan("") : INFINITY)
                             : exponent == 0 ? std::ldexp(fraction, -24)
                                             : std::ldexp(1024 + fraction, exponent - 25);
    const double expected = i & 0x8000 ? -magnitude : magnitude;
    if (std::isnan(expected))
      CHECK(std::isnan(out[i]));
    else
      CHECK(static_cast<double>(out[i]) == expected);
  }
}

TEST_CASE("what was written is read back; parts in any order") {
  const TensorFolder folder;
  const std::string path = folder.file("m.safetensors");
  {
    auto writer = SafetensorsWriter::create(path,
                                            {{"b", SafetensorType::i8, {3}},
                                             {"w", SafetensorType::f32, {2, 2}},
                                             {"h", SafetensorType::bf16, {3}},
                                             {"none", SafetensorType::f32, {0, 9}},
                                             {"one", SafetensorType::i64, {}}},
                                            {{"who", "test \"quoted\""}})
                      .value();
    CHECK_FALSE(file_exists(path));
    REQUIRE(writer.write("w", std::string(8, 'B'), 8).ok());
    REQUIRE(writer.write("one", std::string(8, '1')).ok());
    REQUIRE(writer.write("w", std::string(8, 'A')).ok());
    REQUIRE(writer.write("b", "xyz").ok());
    REQUIRE(writer.write("h", "hhhhhh").ok());
    CHECK_FALSE(writer.write("h", "hhh", 4).ok());
    CHECK_FALSE(writer.write("nobody", "x").ok());
    REQUIRE(writer.finish().ok());
  }
  CHECK(list_directory(folder.path.string()).value() == std::vector<std::string>{"m.safetensors"});
  const auto file = SafetensorsFile::open(path).value();
  CHECK(file.metadata().at("who") == "test \"quoted\"");
  CHECK(file.find("w")->bytes == "AAAAAAAABBBBBBBB");
  CHECK(file.find("w")->shape == std::vector<std::int64_t>{2, 2});
  CHECK(file.find("b")->bytes == "xyz");
  CHECK(file.find("one")->shape.empty());
  CHECK(file.find("none")->bytes.empty());
  const auto base = read_file(path).value();
  std::uint64_t header = 0;
  std::memcpy(&header, base.data(), 8);
  CHECK((8 + header) % 8 == 0);
}

TEST_CASE("an unfinished file leaves nothing behind") {
  const TensorFolder folder;
  {
    auto writer = SafetensorsWriter::create(folder.file("m"), {{"w", SafetensorType::f32, {4}}}).value();
    REQUIRE(writer.write("w", "1234").ok());
    const Status status = writer.finish();
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message().find("4 of 16 bytes of tensor 'w'") != std::string::npos);
  }
  CHECK(list_directory(folder.path.string()).value().empty());
  CHECK_FALSE(
      SafetensorsWriter::create(folder.file("m"), {{"w", SafetensorType::f32, {4}}, {"w", SafetensorType::i8, {4}}})
          .ok());
  CHECK_FALSE(SafetensorsWriter::create("/nonexistent/m", {{"w", SafetensorType::f32, {4}}}).ok());
}

TEST_CASE("a file cut at any byte is refused, and the error names it") {
  const TensorFolder folder;
  const std::string whole = read_file(golden_path("small.safetensors")).value();
  REQUIRE(open_bytes(folder, whole).ok());
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    CAPTURE(cut);
    const auto opened = open_bytes(folder, whole.substr(0, cut));
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().code == ErrorCode::corrupt);
    CHECK(opened.error().message().find("x.safetensors") != std::string::npos);
    CHECK(opened.error().message().find("cut off") != std::string::npos);
  }
  CHECK(open_bytes(folder, whole + "x").error().message().find("1 bytes that belong to no tensor") !=
        std::string::npos);
}

TEST_CASE("headers that contradict themselves are refused") {
  const TensorFolder folder;
  const auto entry = [](const char* name, const char* dtype, const char* shape, const char* offsets) {
    return format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
  };
  const std::string good = entry("a", "F32", "[2]", "[0,8]");
  REQUIRE(open_bytes(folder, raw_file("{" + good + "}", 8)).ok());
  REQUIRE(open_bytes(folder, raw_file("{}", 0)).ok());
  struct Row {
    std::string header;
    std::size_t data;
    const char* part;
  };
  const Row rows[] = {
      {"{" + good + "," + entry("b", "I8", "[4]", "[6,10]") + "}", 10, "overlap"},
      {"{" + good + "," + entry("b", "I8", "[4]", "[9,13]") + "}", 13, "hole"},
      {"{" + entry("a", "F32", "[2]", "[4,12]") + "}", 12, "hole"},
      {"{" + entry("a", "F32", "[2]", "[0,4]") + "}", 4, "data_offsets"},
      {"{" + entry("a", "F32", "[2]", "[8,0]") + "}", 8, "data_offsets"},
      {"{" + entry("a", "F32", "[2]", "[0,-8]") + "}", 8, "data_offsets"},
      {"{" + entry("a", "F32", "[2]", "[0]") + "}", 8, "data_offsets"},
      {"{" + entry("a", "F32", "[-2]", "[0,8]") + "}", 8, "shape"},
      {"{" + entry("a", "F32", "[1.5]", "[0,8]") + "}", 8, "shape"},
      {"{" + entry("a", "F32", "[4611686018427387904,4]", "[0,0]") + "}", 0, "shape"},
      {"{" + entry("a", "F4", "[2]", "[0,1]") + "}", 1, "dtype F4"},
      {R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8, "dtype"},
      {R"({"a":3})", 0, "dtype"},
      {R"({"__metadata__":{"a":1}})", 0, "__metadata__.a"},
      {R"({"__metadata__":[]})", 0, "__metadata__"},
      {"[]", 0, "not a JSON object"},
      {"", 0, "not a JSON object"},
      {"{" + good, 8, "JSON"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.header);
    const auto opened = open_bytes(folder, raw_file(row.header, row.data));
    REQUIRE_FALSE(opened.ok());
    CAPTURE(opened.error().message());
    CHECK(opened.error().message().find(row.part) != std::string::npos);
  }
  std::string huge = raw_file("{}", 0);
  huge[4] = 1;  // a header of 4 GiB
  CHECK(open_bytes(folder, huge).error().message().find("not a safetensors file") != std::string::npos);
}

TEST_CASE("changed bytes and random bytes never crash the reader") {
  const TensorFolder folder;
  const std::string whole = read_file(golden_path("small.safetensors")).value();
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    PhiloxSequence draw(seed);
    std::string changed = whole;
    changed[draw.next_below(std::min<std::size_t>(changed.size(), 600))] = static_cast<char>(draw.next_below(256));
    const auto opened = open_bytes(folder, changed);
    if (opened.ok())
      for (const auto& [name, view] : opened->tensors()) {
        std::vector<float> out(static_cast<std::size_t>(view.elements()));
        (void)convert_to_f32(view, out);
      }
    std::string noise;
    for (std::uint64_t i = draw.next_below(64); i > 0; --i) noise += static_cast<char>(draw.next_below(256));
    CHECK_FALSE(open_bytes(folder, noise).ok());
  }
}

TEST_CASE("a model of several files, and of one") {
  const TensorFolder folder;
  const auto shard = [&](const char* name, const char* tensor, char fill) {
    auto writer = SafetensorsWriter::create(folder.file(name), {{tensor, SafetensorType::u8, {4}}}).value();
    REQUIRE(writer.write(tensor, std::string(4, fill)).ok());
    REQUIRE(writer.finish().ok());
  };
  shard("model.safetensors", "only", 'o');
  CHECK(SafetensorsModel::open(folder.path.string())->find("only")->bytes == "oooo");
  REQUIRE(std::filesystem::remove(folder.file("model.safetensors")));
  shard("a.safetensors", "x", 'x');
  shard("b.safetensors", "y", 'y');
  const auto with_index = [&](const std::string& map) {
    REQUIRE(write_file_atomic(folder.file("model.safetensors.index.json"), map).ok());
    return SafetensorsModel::open(folder.path.string());
  };
  const auto model = with_index(R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors"}})").value();
  CHECK(model.names() == std::vector<std::string>{"x", "y"});
  CHECK(model.find("y")->bytes == "yyyy");
  CHECK(model.find("z").error().code == ErrorCode::not_found);
  CHECK_FALSE(with_index(R"({"weight_map":{"z":"a.safetensors"}})").ok());
  CHECK_FALSE(with_index(R"({"weight_map":{"x":"../a.safetensors"}})").ok());
  CHECK_FALSE(with_index(R"({"weight_map":{"x":"gone.safetensors"}})").ok());
  CHECK_FALSE(with_index(R"({"weight_map":3})").ok());
  CHECK_FALSE(with_index("{").ok());
}
