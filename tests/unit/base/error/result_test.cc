#include "base/error/result.h"

#include <doctest/doctest.h>

#include <memory>

namespace longhaul {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0)
    return make_error(ErrorCode::invalid_input, std::to_string(number) + " is odd", "use an even one");
  return number / 2;
}
Result<int> quarter(int number) {
  LH_TRY(const int once, half(number));
  LH_TRY(const int twice, half(once));
  return twice;
}
Status must_halve(int number) {
  LH_CHECK(half(number));
  return {};
}

}  // namespace

TEST_CASE("LH_TRY goes on with the value or returns the error") {
  CHECK(quarter(12).value() == 3);
  const auto failed = quarter(6);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().code == ErrorCode::invalid_input);
  CHECK(failed.error().message() == "3 is odd; use an even one");
  CHECK(must_halve(2).ok());
  CHECK_FALSE(must_halve(3).ok());
}

TEST_CASE("context is put in front, place and hint stay") {
  Error error = make_error(ErrorCode::io, "cannot read a.bin", "check the quota");
  error.where = SourcePos{"wf.toml", 14, 3};
  const Error outer = error.with_context("stage tokens");
  CHECK(outer.message() == "wf.toml:14:3: stage tokens: cannot read a.bin; check the quota");
  const auto result = Result<int>(error).with_context("run x");
  CHECK(result.error().what == "run x: cannot read a.bin");
  error.where = SourcePos{"wf.toml", 0, 0};
  CHECK(error.message() == "wf.toml: cannot read a.bin; check the quota");
}

TEST_CASE("a result moves what can only be moved") {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  const std::unique_ptr<int> taken = std::move(result).value();
  CHECK(*taken == 5);
}

}  // namespace longhaul
