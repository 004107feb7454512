// #SBATCH lines are read as sbatch reads them. What is stated here was tried with sbatch 22.05.8.
#include "orchestrator/slurm_helper/batch_options.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "orchestrator/slurm_helper/option_values.h"

using namespace longhaul;

namespace {

std::string read_options(const std::string& text, const std::vector<std::pair<std::string, std::string>>& more = {}) {
  const auto options = batch_options(text, "job.sbatch", more);
  if (!options.ok()) return "error: " + options.error().message();
  std::vector<std::string> shown;
  for (const BatchOption& option : *options)
    shown.push_back(option.has_value ? option.name + "=[" + option.value + "]" : option.name);
  return join(shown, " ");
}

}  // namespace

TEST_CASE("sbatch lines: words, quotes, escapes, comments") {
  CHECK(read_options("#!/bin/sh\n#SBATCH --nodes=2 -n8 -c 4\n") == "nodes=[2] ntasks=[8] cpus-per-task=[4]");
  CHECK(read_options("#SBATCH --comment=\"a 'b' \\\"c\\\" #d\"") == "comment=[a 'b' \"c\" #d]");
  CHECK(read_options("#SBATCH --comment='a \"b\" \\'c\\'' --hold") == "comment=[a \"b\" 'c'] hold");
  CHECK(read_options("#SBATCH --comment=a\\\"b") == "comment=[a\"b]");
  // A backslash does not hold a word together: only quotes do.
  CHECK(read_options("#SBATCH --comment=a\\ b").find("'b' is no option") != std::string::npos);
  CHECK(read_options("#SBATCH --time=10 # --nodes=3") == "time=[10]");
  CHECK(read_options("#SBATCH --comment=a#b --nodes=3") == "comment=[a]");
  CHECK(read_options("#SBATCH --comment=\"\" --nodes=3") == "comment=[] nodes=[3]");
  CHECK(read_options("#SBATCH --comment $(rm)`x`") == "comment=[$(rm)`x`]");
  CHECK(read_options("#SBATCH --comment=\xc3\xbc") == "comment=[\xc3\xbc]");
}

TEST_CASE("sbatch lines: only before the first command, only at the start of a line") {
  CHECK(read_options("#!/bin/sh\n\n  # text\n#SBATCH -N1\necho\n#SBATCH -N2\n") == "nodes=[1]");
  CHECK(read_options(" #SBATCH -N1\n##SBATCH -N2\n#SBATCH -N3") == "nodes=[3]");
  CHECK(read_options("") == "");
}

TEST_CASE("sbatch lines: flags with and without a value, values in the next word, also of the next line") {
  CHECK(read_options("#SBATCH --exclusive\n#SBATCH --exclusive=user --no-kill --nice") ==
        "exclusive exclusive=[user] no-kill nice");
  CHECK(read_options("#SBATCH --nodes\n#SBATCH 3") == "nodes=[3]");
  CHECK(read_options("#SBATCH -N3", {{"nodes", "4"}, {"exclusive", ""}}) == "nodes=[3] nodes=[4] exclusive");
}

TEST_CASE("sbatch lines: what is not understood is an error with its place, never dropped") {
  const std::string unknown = read_options("#!/bin/sh\n#SBATCH -N1\n#SBATCH --gpu-bind=closest\n");
  CHECK(unknown.find("job.sbatch:3") != std::string::npos);
  CHECK(unknown.find("--gpu-bind") != std::string::npos);
  CHECK(unknown.find("slurm_backend = \"cli\"") != std::string::npos);
  for (const char* text : {"#SBATCH --comment='a", "#SBATCH --nodes", "#SBATCH nodes=3", "#SBATCH --hold=yes",
                           "#SBATCH hetjob", "#SBATCH -Z", "#SBATCH : --nodes=1", "#SBATCH --nod=3"})
    CHECK(starts_with(read_options(text), "error: job.sbatch:1"));
  CHECK(starts_with(read_options("", {{"no-such", "1"}}), "error: "));
}

TEST_CASE("values of options: times, memory, signals") {
  CHECK(time_limit_minutes("90") == 90);
  CHECK(time_limit_minutes("1:30") == 2);  // minutes:seconds, rounded up
  CHECK(time_limit_minutes("1:30:00") == 90);
  CHECK(time_limit_minutes("2-12") == 60 * 60);
  CHECK(time_limit_minutes("1-00:00:01") == 1441);
  CHECK(time_limit_minutes("UNLIMITED") == 0);
  for (const char* text : {"", "soon", "1:2:3:4", "-5", "1-", "1h", "1:", "99999999999999999999"})
    CHECK_FALSE(time_limit_minutes(text));
  CHECK(mebibytes("16G") == 16384);
  CHECK(mebibytes("16GB") == 16384);
  CHECK(mebibytes("500") == 500);
  CHECK(mebibytes("1025K") == 2);
  CHECK(mebibytes("2t") == 2U << 20);
  for (const char* text : {"", "G", "16X", "-1", "1.5G"}) CHECK_FALSE(mebibytes(text));
  CHECK(signal_number("USR1") == 10);
  CHECK(signal_number("SIGTERM") == 15);
  CHECK(signal_number("9") == 9);
  for (const char* text : {"", "NOPE", "0", "-3"}) CHECK_FALSE(signal_number(text));
}
