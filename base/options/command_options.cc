#include "base/options/command_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/text/print.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

Result<std::int64_t> whole_number(const std::string& name, const std::string& text, std::int64_t low,
                                  std::int64_t high) {
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(text.c_str(), &end, 10);
  if (errno != 0 || text.empty() || *end != '\0' || number < low || number > high)
    return make_error(ErrorCode::invalid_input,
                      format("{} {}: a whole number in {}..{} is expected", name, text, low, high));
  return static_cast<std::int64_t>(number);
}

Result<double> any_number(const std::string& name, const std::string& text, double low, double high) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(number >= low && number <= high))
    return make_error(ErrorCode::invalid_input, format("{} {}: a number in {}..{} is expected", name, text, low, high));
  return number;
}

std::string with_default(const std::string& help, const std::string& value) {
  return value.empty() ? help : format("{} [{}]", help, value);
}

}  // namespace

struct CommandOptions::Parser {
  CLI::App app;
  std::string command;
  CLI::Option* last = nullptr;

  // What CLI11 says in other terms, or has no place for.
  std::string problem(const CLI::ParseError& error) const {
    const std::vector<std::string> unknown = app.remaining();
    if (!unknown.empty())
      return (starts_with(unknown.front(), "-") ? "there is no option " : "what is meant by ") + unknown.front();
    for (const CLI::Option* option : app.get_options())
      if (option->get_required() && option->count() == 0) return option->get_name() + " is missing";
    return error.what();
  }
};

CommandOptions::CommandOptions(std::string command, const std::string& summary) : parser_(std::make_unique<Parser>()) {
  parser_->command = std::move(command);
  parser_->app.name(parser_->command);
  parser_->app.description(summary);
  parser_->app.get_formatter()->column_width(34);
  parser_->app.set_help_flag("--help", "print this");
}

CommandOptions::~CommandOptions() = default;

CommandOptions& CommandOptions::value(const char* name, const char* type, const std::string& help,
                                      std::function<Status(const std::string&)> take) {
  const auto keep = [take = std::move(take)](const std::string& text) {
    if (const Status taken = take(text); !taken.ok()) throw CLI::ValidationError(taken.error().message());
  };
  parser_->last = parser_->app.add_option_function<std::string>(name, keep, help);
  parser_->last->type_name(type);
  return *this;
}

CommandOptions& CommandOptions::text(const char* name, const char* type, std::string& value, const std::string& help) {
  return this->value(name, type, with_default(help, value), [&value](const std::string& text) -> Status {
    value = text;
    return {};
  });
}

CommandOptions& CommandOptions::texts(const char* name, const char* type, std::vector<std::string>& values,
                                      const std::string& help) {
  parser_->last = parser_->app.add_option(name, values, help);
  parser_->last->type_name(type)->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return *this;
}

CommandOptions& CommandOptions::choice(const char* name, const std::vector<std::string>& allowed, std::string& value,
                                       const std::string& help) {
  const auto take = [&value, allowed, name = std::string(name)](const std::string& text) -> Status {
    if (std::ranges::find(allowed, text) == allowed.end())
      return make_error(ErrorCode::invalid_input, format("{} {}: use {}", name, text, join(allowed, " or ")));
    value = text;
    return {};
  };
  return this->value(name, join(allowed, "|").c_str(), with_default(help, value), take);
}

CommandOptions& CommandOptions::integer(const char* name, std::int64_t& value, std::int64_t low, std::int64_t high,
                                        const std::string& help) {
  const auto take = [&value, low, high, name = std::string(name)](const std::string& text) -> Status {
    LH_TRY(value, whole_number(name, text, low, high));
    return {};
  };
  return this->value(name, "N", with_default(help, std::to_string(value)), take);
}

CommandOptions& CommandOptions::integer(const char* name, int& value, int low, int high, const std::string& help) {
  const auto take = [&value, low, high, name = std::string(name)](const std::string& text) -> Status {
    LH_TRY(const std::int64_t number, whole_number(name, text, low, high));
    value = static_cast<int>(number);
    return {};
  };
  return this->value(name, "N", with_default(help, std::to_string(value)), take);
}

CommandOptions& CommandOptions::number(const char* name, double& value, double low, double high,
                                       const std::string& help) {
  const auto take = [&value, low, high, name = std::string(name)](const std::string& text) -> Status {
    LH_TRY(value, any_number(name, text, low, high));
    return {};
  };
  return this->value(name, "X", with_default(help, format("{:g}", value)), take);
}

CommandOptions& CommandOptions::flag(const char* name, bool& value, const std::string& help) {
  parser_->last = parser_->app.add_flag(name, value, help);
  return *this;
}

CommandOptions& CommandOptions::positional(const char* name, std::string& value, const std::string& help) {
  return this->value(name, "", help, [&value](const std::string& text) -> Status {
    value = text;
    return {};
  });
}

CommandOptions& CommandOptions::required() {
  parser_->last->required();
  return *this;
}

CommandOptions& CommandOptions::footer(const std::string& text) {
  parser_->app.footer(text);
  return *this;
}

Result<bool> CommandOptions::parse(const std::vector<std::string>& arguments) {
  try {
    parser_->app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success&) {
    print_text(stdout, help());
    return true;
  } catch (const CLI::ValidationError& wrong) {
    return make_error(ErrorCode::invalid_input, wrong.what(), format("see: {} --help", parser_->command));
  } catch (const CLI::ArgumentMismatch& wrong) {
    const std::string text = wrong.what(), name = text.substr(0, text.find(':'));
    const bool lacks = text.find("missing") != std::string::npos;
    return make_error(ErrorCode::invalid_input, name + (lacks ? " needs a value" : " is given more than once"),
                      format("see: {} --help", parser_->command));
  } catch (const CLI::ParseError& wrong) {
    return make_error(ErrorCode::invalid_input, parser_->problem(wrong), format("see: {} --help", parser_->command));
  }
  return false;
}

bool CommandOptions::given(const char* name) const {
  return parser_->app.count(name) > 0;
}

std::string CommandOptions::help() const {
  return parser_->app.help();
}

}  // namespace longhaul
