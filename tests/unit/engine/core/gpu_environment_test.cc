// What a rank's environment must have for CUDA, and must not have for NCCL.
#include "engine/core/gpu_environment.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

using namespace longhaul;

TEST_CASE("one rank loads kernels as it needs them, several load all of them at their start") {
  std::map<std::string, std::string> one, several;
  for (const EnvironmentSetting& s : cuda_environment(false)) one[s.name] = s.value;
  for (const EnvironmentSetting& s : cuda_environment(true)) several[s.name] = s.value;
  CHECK(one["CUDA_DEVICE_MAX_CONNECTIONS"] == "32");
  CHECK_FALSE(one.contains("CUDA_MODULE_LOADING"));
  CHECK(several["CUDA_DEVICE_MAX_CONNECTIONS"] == "32");
  CHECK(several["CUDA_MODULE_LOADING"] == "EAGER");
}

TEST_CASE("variables that give NCCL more thread blocks than it may have are refused, all together") {
  std::map<std::string, std::string> set = {{"NCCL_DEBUG", "WARN"}, {"NCCL_IB_HCA", "mlx5"}};
  const auto variable = [&](const char* name) { return set.contains(name) ? set[name].c_str() : nullptr; };
  CHECK(check_nccl_environment(variable).ok());
  set["NCCL_MIN_CTAS"] = "16", set["NCCL_MAX_P2P_NCHANNELS"] = "32";
  CHECK(check_nccl_environment(variable).ok() == false);
  const std::string what = check_nccl_environment(variable).error().message();
  CHECK(what.find("NCCL_MIN_CTAS=16") != std::string::npos);
  CHECK(what.find("NCCL_MAX_P2P_NCHANNELS") == std::string::npos);  // it takes away alone
  set.erase("NCCL_MIN_CTAS"), set["NCCL_MIN_NCHANNELS"] = "24";
  CHECK(check_nccl_environment(variable).error().message().find("unset") != std::string::npos);
}
