#include "autotune/hardware/time_constants.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"

namespace longhaul {
namespace {

std::string constants_path() {
  return std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml";
}

ConstantTable shipped_table() {
  return ConstantTable::parse(*read_file(constants_path()), "constants.toml").value();
}

TEST_CASE("the constants that ship are complete, and fewer than forty of them are fitted") {
  const ConstantTable table = shipped_table();
  CHECK(table.fitted().size() < 40);
  CHECK(table.fitted().size() > 10);
  CHECK(make_time_constants(table).ok());
}

TEST_CASE("a number without unit or source, a bare number and an unknown key are refused together") {
  const auto table = ConstantTable::parse(
      "[common]\na = { value = 1 }\nb = 2\nc = { value = 3, unit = \"s\", source = "
      "\"x\", sauce = 1 }\nd = { value = -1, unit = \"s\", source = \"fit\", start = "
      "1, spread = 1 }\n",
      "bad.toml");
  REQUIRE(!table.ok());
  const std::string message = table.error().message();
  for (const char* part : {"bad.toml:2", "common.a lacks its unit", "common.b is a bare number", "sauce", "common.d"})
    CHECK_MESSAGE(message.find(part) != std::string::npos, part << " in " << message);
}

TEST_CASE("what is missing is named, all of it") {
  const auto table = ConstantTable::parse(
      "[gpu.x]\nnames = [\"X\"]\npeak_bf16 = { value = 1, unit = \"TFLOP/s\", source "
      "= \"s\" }\n",
      "few.toml");
  const auto constants = make_time_constants(*table);
  REQUIRE(!constants.ok());
  for (const char* part : {"common.memory_share", "gpu.x.memory_rate", "framework"})
    CHECK(constants.error().message().find(part) != std::string::npos);
}

TEST_CASE("constants that a run of an earlier version has kept are still read") {
  const std::vector<std::string> newer = {"expert_latency", "spread_experts", "keeps_qkv", "stream_passes"};
  std::string text;
  bool serving = false;
  for (const std::string& line : split(*read_file(constants_path()), '\n')) {
    if (starts_with(line, "[")) serving = line == "[serving]";
    const bool later = (serving && starts_with(line, "spread_")) ||
                       std::any_of(newer.begin(), newer.end(), [&](const auto& key) { return starts_with(line, key); });
    if (!later) text += line + "\n";
  }
  const auto old = make_time_constants(ConstantTable::parse(text, "constants.toml").value());
  REQUIRE_MESSAGE(old.ok(), old.error().message());
  CHECK(old->common.expert_latency == 0);
  CHECK(!old->framework("megatron")->keeps_qkv);
}

TEST_CASE("values that are set come back from the file that is written, comments and all") {
  ConstantTable table = shipped_table();
  REQUIRE(table.set("gpu.h100.gemm_bf16", 0.5, "measured").ok());
  CHECK(!table.set("gpu.h100.gem_bf16", 0.5, "measured").ok());
  const std::string text = table.to_toml();
  CHECK(text.substr(0, 11) == "# Constants");
  const ConstantTable again = ConstantTable::parse(text, "again.toml").value();
  CHECK(again.find("gpu.h100.gemm_bf16")->value == 0.5);
  CHECK(again.find("gpu.h100.gemm_bf16")->source == "measured");
  CHECK(again.find("gpu.a100.gemm_bf16")->value == table.find("gpu.a100.gemm_bf16")->value);
}

TEST_CASE("what was borrowed can be owned, and comes back from the file that is written") {
  ConstantTable table = shipped_table();
  const TimeConstants before = make_time_constants(table).value();
  CHECK(before.processors.memory_share == before.common.memory_share);
  REQUIRE(table.own("gpu.h200.gemm_bf16", 0.5, "measured").ok());       // had it from h100
  REQUIRE(table.own("common-cpu.memory_share", 0.1, "measured").ok());  // had it from [common]
  CHECK(table.find("common-cpu.memory_share")->unit == table.find("common.memory_share")->unit);
  for (const ConstantTable& one : {table, ConstantTable::parse(table.to_toml(), "again.toml").value()}) {
    const TimeConstants constants = make_time_constants(one).value();
    CHECK(constants.gpu_named("H200")->gemm_bf16 == 0.5);
    CHECK(constants.gpu_named("H100")->gemm_bf16 == before.gpu_named("H100")->gemm_bf16);
    CHECK(constants.processors.memory_share == 0.1);
    CHECK(constants.processors.jitter == before.common.jitter);
    CHECK(constants.common.memory_share == before.common.memory_share);
  }
  CHECK(table.find_or_borrow("framework.longhaul-cpu.optimizer_traffic") ==
        table.find("framework.megatron.optimizer_traffic"));
  CHECK(table.find_or_borrow("framework.longhaul-cpu.nothing") == nullptr);
  CHECK(table.own("common-cpu.memory_shore", 1, "x").error().message().find("memory_share") != std::string::npos);
}

TEST_CASE("a site's file is taken over whole, or its mistakes are named together with their lines") {
  ConstantTable table = shipped_table();
  const auto good = ConstantTable::parse(
      "[common-cpu]\nstep_overhead = { value = 3, unit = \"ms\", source = \"measured on x\" }\n", "x.toml");
  REQUIRE(table.take_over(*good).ok());
  CHECK(make_time_constants(table)->processors.step_overhead == doctest::Approx(3e-3));
  const auto bad = ConstantTable::parse(
      "[common]\nstep_overheat = { value = 3, unit = \"ms\", source = \"x\" }\n[gpu.h100]\ngemm_bf1 = { value = 1, "
      "unit = "
      "\"\", source = \"x\" }\n",
      "bad.toml");
  const std::string message = table.take_over(*bad).error().message();
  for (const char* part : {"bad.toml:2", "common.step_overhead", "bad.toml:4", "gpu.h100.gemm_bf16"})
    CHECK_MESSAGE(message.find(part) != std::string::npos, part << " in " << message);
}

TEST_CASE("a GPU is found by what site files and drivers call it") {
  const TimeConstants constants = read_time_constants(constants_path()).value();
  const auto key = [&](const char* name) { return constants.gpu_named(name).value().key; };
  CHECK(key("NVIDIA H100 80GB HBM3") == "h100");
  CHECK(key("NVIDIA H100 64 GB (custom)") == "h100-64");
  CHECK(key("NVIDIA GH200 96 GB") == "gh200");
  CHECK(key("NVIDIA A100-SXM4-40GB") == "a100-40");
  CHECK(key("GB300") == "gb300");
  // What a section does not say it borrows: the memory differs, the shares of the peak do not.
  CHECK(constants.gpu_named("H200")->gemm_bf16 == constants.gpu_named("H100")->gemm_bf16);
  CHECK(constants.gpu_named("H200")->memory > constants.gpu_named("H100")->memory);
  CHECK(constants.gpu_named("H200")->measured);
  CHECK(!constants.gpu_named("MI300X")->measured);
}

TEST_CASE("an unknown GPU asks for the four numbers that it needs, and lives on them") {
  const TimeConstants constants = read_time_constants(constants_path()).value();
  const auto unknown = constants.gpu_named("Gaudi 3");
  REQUIRE(!unknown.ok());
  for (const char* part : {"TFLOP/s", "memory in GB", "memory GB/s", "links"})
    CHECK(unknown.error().message().find(part) != std::string::npos);
  const GpuType gpu = unknown_gpu(constants, "Gaudi 3", 1835, 128, 3700, 525);
  CHECK(gpu.peak_bf16 == doctest::Approx(1835e12));
  CHECK(gpu.memory == doctest::Approx(128e9));
  CHECK(gpu.gemm_bf16 > 0.3);
  CHECK(gpu.gemm_bf16 < 1);
  CHECK(!gpu.measured);
}

TEST_CASE("a framework that nobody knows is answered with those that there are") {
  const TimeConstants constants = read_time_constants(constants_path()).value();
  CHECK(constants.framework("longhaul")->tensor_exposed == constants.framework("megatron")->tensor_exposed);
  CHECK(constants.framework("megatrom").error().message().find("megatron-2021") != std::string::npos);
}

}  // namespace
}  // namespace longhaul
