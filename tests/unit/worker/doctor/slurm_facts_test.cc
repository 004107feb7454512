// What slurm.conf means for a run, by what scontrol prints of several releases and settings.
#include "worker/doctor/slurm_facts.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace longhaul;

namespace {

const std::string plain =
    "Configuration data as of 2026-11-27T10:00:00\nClusterName             = alpha\nSLURM_VERSION           = 22.05.8\n"
    "SlurmctldParameters     = (null)\nAuthType                = auth/munge\nAuthAltTypes            = (null)\n"
    "PreemptMode             = OFF\nPreemptType             = preempt/none\nPreemptParameters       = (null)\n"
    "SrunPortRange           = 0-0\nJobSubmitPlugins        = (null)\nCliFilterPlugins        = (null)\n"
    "MpiDefault              = none\nKillWait                = 30 sec\nMaxBatchRequeue         = 5\n"
    "JobRequeue              = 1\nPrivateData             = none\n\nCgroup Support Configuration:\nConstrainDevices    "
    "    = no\n";

DoctorFact fact(const std::string& config, const std::string& name,
                const std::vector<std::string>& clusters = {"alpha"}, bool token = false) {
  const auto facts = facts_of_slurm(slurm_settings(config), clusters, token);
  const auto found = std::find_if(facts.begin(), facts.end(), [&](const DoctorFact& one) { return one.name == name; });
  REQUIRE_MESSAGE(found != facts.end(), name);
  return *found;
}

std::string with(const std::string& key, const std::string& value) {
  std::string config = plain;
  const std::size_t at = config.find(key + " ");
  REQUIRE(at != std::string::npos);
  const std::size_t begin = config.find("= ", at) + 2;
  config.replace(begin, config.find('\n', begin) - begin, value);
  return config;
}

}  // namespace

TEST_CASE("slurm facts: a plain cluster") {
  CHECK(slurm_settings(plain)["SLURM_VERSION"] == "22.05.8");
  for (const char* name :
       {"stepmgr", "jwt", "multi_cluster", "preemption", "constrain_devices", "submit_filters", "private_data"})
    CHECK_MESSAGE(fact(plain, name).answer == "no", name);
  CHECK(fact(plain, "srun_ports").answer == "any");
  CHECK(fact(plain, "requeue").answer == "yes");
  CHECK(fact(plain, "kill_wait").answer == "30 sec");
}

TEST_CASE("slurm facts: each setting that changes what a run can rely on") {
  CHECK(fact(with("SlurmctldParameters", "enable_configless,enable_stepmgr"), "stepmgr").answer == "yes");
  CHECK(fact(with("AuthAltTypes", "auth/jwt"), "jwt").detail.find("jobs have none set") != std::string::npos);
  CHECK(fact(with("AuthAltTypes", "auth/jwt"), "jwt", {"alpha"}, true).detail.find("SLURM_JWT is set") !=
        std::string::npos);
  CHECK(fact(plain, "multi_cluster", {"alpha", "beta"}).detail.find("alpha, beta") != std::string::npos);
  CHECK(fact(plain, "multi_cluster", {}).answer == "unknown");
  std::string by_partition = with("PreemptMode", "REQUEUE");
  by_partition.replace(by_partition.find("preempt/none"), 12, "preempt/partition_prio");
  CHECK(fact(by_partition, "preemption").detail.find("steps get SIGTERM") != std::string::npos);
  by_partition.replace(by_partition.find("PreemptParameters       = (null)"), 32,
                       "PreemptParameters       = send_user_signal");
  CHECK(fact(by_partition, "preemption").detail.find("USR1") != std::string::npos);
  CHECK(fact(with("ConstrainDevices", "yes"), "constrain_devices").answer == "yes");
  CHECK(fact(with("CliFilterPlugins", "lua"), "submit_filters").detail.find("slurm_backend") != std::string::npos);
  CHECK(fact(with("SrunPortRange", "60001-63000"), "srun_ports").answer == "60001-63000");
  CHECK(fact(with("JobRequeue", "0"), "requeue").answer == "no");
  CHECK(fact(with("PrivateData", "jobs,reservations"), "private_data").answer == "jobs,reservations");
  CHECK(fact(with("PrivateData", "jobs,reservations"), "private_data").detail.find("maintenance is not seen") !=
        std::string::npos);
  CHECK(fact(with("PrivateData", "events"), "private_data").detail == "nothing of it concerns runs");
}

TEST_CASE("slurm facts: plugins of MPI in the layouts of several releases") {
  using Words = std::vector<std::string>;
  CHECK(mpi_plugins("MPI plugin types are...\n\tcray_shasta\n\tnone\n\tpmi2\n\tpmix\nspecific pmix plugin versions "
                    "available: pmix_v4,pmix_v5\n") ==
        Words{"cray_shasta", "none", "pmi2", "pmix", "pmix_v4", "pmix_v5"});
  CHECK(mpi_plugins("srun: MPI types are...\nsrun: pmix_v3\nsrun: none\n") == Words{"pmix_v3", "none"});
  CHECK(mpi_plugins("").empty());
}
