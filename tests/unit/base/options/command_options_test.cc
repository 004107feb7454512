#include "base/options/command_options.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {

// A command with an option of each kind.
struct Asked {
  std::string task, folder, precision = "f32";
  std::int64_t threads = 1;
  double seconds = 2;
  bool json = false;
  std::vector<std::string> places;
  CommandOptions options{"program verb", "does something"};

  Asked() {
    options.text("--task", "FILE", task, "what to do").required();
    options.choice("--precision", {"f32", "bf16"}, precision, "of products");
    options.integer("--threads", threads, 0, 64, "that read");
    options.number("--seconds", seconds, 0, 60, "that it lasts");
    options.flag("--json", json, "for programs");
    options.texts("--place", "FOLDER", places, "where to look; may be repeated");
    options.positional("CHECKPOINT", folder, "a folder");
  }
  std::string refused(const std::vector<std::string>& arguments) {
    const auto parsed = options.parse(arguments);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.error().code == ErrorCode::invalid_input);
    CHECK(parsed.error().hint == "see: program verb --help");
    return parsed.error().what;
  }
};

}  // namespace

TEST_CASE("options fill their variables; those not given keep what they hold") {
  Asked asked;
  REQUIRE(asked.options
              .parse({"--task", "a b", "folder", "--precision=bf16", "--threads", "8", "--seconds", "0.5", "--json",
                      "--place", "x", "--place", ""})
              .ok());
  CHECK(asked.task == "a b");
  CHECK(asked.folder == "folder");
  CHECK(asked.precision == "bf16");
  CHECK(asked.threads == 8);
  CHECK(asked.seconds == 0.5);
  CHECK(asked.json);
  CHECK(asked.places == std::vector<std::string>{"x", ""});
  CHECK(asked.options.given("--threads"));
  Asked less;
  REQUIRE(less.options.parse({"--task", ""}).ok());
  CHECK(less.precision == "f32");
  CHECK(less.threads == 1);
  CHECK_FALSE(less.json);
  CHECK_FALSE(less.options.given("--threads"));
}

TEST_CASE("what cannot be is refused by name") {
  CHECK(Asked().refused({"--task", "a", "--jsn"}) == "there is no option --jsn");
  CHECK(Asked().refused({"--tsk", "a"}) == "there is no option --tsk");  // rather than: --task is missing
  CHECK(Asked().refused({"--task", "a", "one", "two"}) == "what is meant by two");
  CHECK(Asked().refused({"one"}) == "--task is missing");
  CHECK(Asked().refused({"--task"}) == "--task needs a value");
  CHECK(Asked().refused({"--task", "a", "--task", "b"}) == "--task is given more than once");
  CHECK(Asked().refused({"--task", "a", "--threads", "2x"}) == "--threads 2x: a whole number in 0..64 is expected");
  CHECK(Asked().refused({"--task", "a", "--threads", "65"}) == "--threads 65: a whole number in 0..64 is expected");
  CHECK(Asked().refused({"--task", "a", "--seconds", "nan"}) == "--seconds nan: a number in 0..60 is expected");
  CHECK(Asked().refused({"--task", "a", "--precision", "f64"}) == "--precision f64: use f32 or bf16");
}

TEST_CASE("help lists every option with its default, and asks for nothing else") {
  Asked asked;
  const std::string help = asked.options.help();
  for (const char* part : {"does something", "program verb", "--task", "FILE", "REQUIRED", "f32|bf16",
                           "of products [f32]", "that read [1]", "--json", "CHECKPOINT"}) {
    CAPTURE(part);
    CHECK(help.find(part) != std::string::npos);
  }
  const auto parsed = asked.options.parse({"--help"});
  REQUIRE(parsed.ok());
  CHECK(*parsed);
}
