// Room base/error
// Errors as values: Result<T>, Status, the Error with place, reason and remedy; die() on a broken invariant.
// Start with result.h; diagnostics.h collects all errors of an input; whereabouts.h gives die() rank and step.
// Nearly everything includes it, so it may include nothing but base/text.
//
// Errors are values. Result<T> carries either a T or an Error that says what, where and how to fix it; each layer may
// add the one fact it knows (run, stage, rank, step). Exceptions of third-party code end inside their wrapper file.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/text/shared_text.h"

namespace longhaul {

// Coarse on purpose: what a caller, or the exit code of a program, has to distinguish (docs/reference/exit-codes.md).
enum class ErrorCode {
  internal,       // a bug of ours, reported instead of hidden
  invalid_input,  // what the user wrote or brought is wrong: nothing was changed
  not_found,      // a run, stage, file or artifact that was named does not exist
  io,             // the operating system refused: permission, disk full, unreadable
  corrupt,        // a file of ours or of a stranger's is damaged or foreign
  unsupported,    // understood, but this build or version cannot do it
  unavailable,    // something outside did not answer: scheduler, process, network
  timeout,        // a wait passed its deadline
  aborted,        // a collective or a job was asked to stop
  conflict,       // somebody else holds or already did this (epoch taken, artifact published)
};
const char* to_string(ErrorCode code);

// A place in a file that the user wrote. Lines and columns count from 1; 0 means unknown.
struct SourcePos {
  SharedText file;
  int line = 0;
  int column = 0;
  bool operator==(const SourcePos&) const = default;
};

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string what;                // "tp = 3 does not divide num_attention_heads = 32"
  std::optional<SourcePos> where;  // set when the user wrote the cause
  std::string hint;                // "use tp = 1, 2, 4, 8, 16 or 32"; may be empty

  // "file:line:column: what; hint"
  std::string message() const;
  // The same error with one more fact in front: "stage tokens: cannot read ...".
  Error with_context(const std::string& fact) const;
};

Error make_error(ErrorCode code, std::string what, std::string hint = {});
// For a failed system call: adds strerror(error_number), and what to do where a disk is full.
Error errno_error(ErrorCode code, std::string what, int error_number);

// Ends the process and prints what this thread is at (base/error/crash_context.h): a bug, never an answer. `where`:
// "file:line".
[[noreturn]] void die(const char* where, const char* condition, const std::string& coordinates);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Only after ok(): the program ends with the error's message otherwise.
  T& value() & {
    require();
    return std::get<0>(state_);
  }
  const T& value() const& {
    require();
    return std::get<0>(state_);
  }
  T&& value() && {
    require();
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Only after !ok().
  const Error& error() const& {
    require_error();
    return std::get<1>(state_);
  }
  Error&& error() && {
    require_error();
    return std::get<1>(std::move(state_));
  }
  Result with_context(const std::string& fact) && {
    if (ok()) return std::move(*this);
    return error().with_context(fact);
  }

 private:
  void require() const {
    if (!ok()) die("Result::value", "ok()", std::get<1>(state_).message());
  }
  void require_error() const {
    if (ok()) die("Result::error", "!ok()", "there is a value");
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit on purpose
  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  // Only after !ok().
  const Error& error() const& {
    require_error();
    return *error_;
  }
  Error&& error() && {
    require_error();
    return std::move(*error_);
  }
  // Ends the program when there is an error; for callers that have no way to go on.
  void value() const {
    if (!ok()) die("Result::value", "ok()", error_->message());
  }
  Result with_context(const std::string& fact) && {
    if (ok()) return {};
    return error_->with_context(fact);
  }

 private:
  void require_error() const {
    if (ok()) die("Result::error", "!ok()", "it went well");
  }
  std::optional<Error> error_;
};
using Status = Result<void>;

}  // namespace longhaul

#define LH_CONCAT_(a, b) a##b
#define LH_CONCAT(a, b) LH_CONCAT_(a, b)
#define LH_STRING_(x) #x
#define LH_STRING(x) LH_STRING_(x)

// LH_TRY(auto x, f()): x = the value, or return the error. LH_CHECK(f()): go on, or return the error.
#define LH_TRY(declaration, expression)                                                                 \
  auto LH_CONCAT(lh_result_, __LINE__) = (expression);                                                  \
  if (!LH_CONCAT(lh_result_, __LINE__).ok()) return std::move(LH_CONCAT(lh_result_, __LINE__)).error(); \
  declaration = std::move(LH_CONCAT(lh_result_, __LINE__)).value()
#define LH_CHECK(expression)                                  \
  do {                                                        \
    auto lh_status = (expression);                            \
    if (!lh_status.ok()) return std::move(lh_status).error(); \
  } while (0)

// An invariant, in release too. `coordinates` is a string that names run, rank, step, shapes.
#define LH_ASSERT(condition, coordinates)                                                           \
  do {                                                                                              \
    if (!(condition)) ::longhaul::die(__FILE__ ":" LH_STRING(__LINE__), #condition, (coordinates)); \
  } while (0)
