// Room base/options
// The options of one command of a program, read by CLI11: help, unknown options refused by name, values checked.
// command_options.h is all of it; the programs below `longhaul`, whose commands are few, describe theirs with it.
// It knows no command.
//
// Each option is described once, with the variable that gets its value; parse() fills them:
//
//   std::string task;
//   std::int64_t threads = 1;
//   CommandOptions options("longhaul-engine verify", "is a checkpoint whole?");
//   options.text("--task", "FILE", task, "what to do").required();
//   options.integer("--threads", threads, 0, 4096, "that read; 0: all cores");
//   LH_TRY(const bool asked_for_help, options.parse(arguments));
//
// One thread. What is described borrows its variable until parse() is over.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

class CommandOptions {
 public:
  // `command`: program and command, as a person writes them.
  CommandOptions(std::string command, const std::string& summary);
  ~CommandOptions();
  CommandOptions(const CommandOptions&) = delete;
  CommandOptions& operator=(const CommandOptions&) = delete;

  // `name`: "--task". A variable keeps what it holds where its option is not given; help says so for what is not empty.
  // Given twice an option is refused, but for texts().
  CommandOptions& text(const char* name, const char* type, std::string& value, const std::string& help);
  CommandOptions& texts(const char* name, const char* type, std::vector<std::string>& values, const std::string& help);
  // One of `allowed`.
  CommandOptions& choice(const char* name, const std::vector<std::string>& allowed, std::string& value,
                         const std::string& help);
  // In low..high.
  CommandOptions& integer(const char* name, std::int64_t& value, std::int64_t low, std::int64_t high,
                          const std::string& help);
  CommandOptions& integer(const char* name, int& value, int low, int high, const std::string& help);
  // In low..high; parts of a unit are allowed.
  CommandOptions& number(const char* name, double& value, double low, double high, const std::string& help);
  // Without a value.
  CommandOptions& flag(const char* name, bool& value, const std::string& help);
  // A value of any other form: `take` keeps it, or says what is wrong with it.
  CommandOptions& value(const char* name, const char* type, const std::string& help,
                        std::function<Status(const std::string&)> take);
  // The word that is no option.
  CommandOptions& positional(const char* name, std::string& value, const std::string& help);
  // The option described last must be given.
  CommandOptions& required();
  // Behind the options in the help.
  CommandOptions& footer(const std::string& text);

  // The arguments behind the command. True: help was asked for, and printed to stdout; nothing else is to be done.
  // invalid_input: names the option that is unknown, missing, or has no value that it takes.
  Result<bool> parse(const std::vector<std::string>& arguments);
  bool given(const char* name) const;
  std::string help() const;

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace longhaul
