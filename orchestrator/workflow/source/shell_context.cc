#include "orchestrator/workflow/source/shell_context.h"

#include <cctype>
#include <string>
#include <vector>

namespace longhaul {
namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  ShellContext end() {
    while (at_ < text_.size())
      if (const std::size_t before = at_; !step() || at_ <= before) return result_;
    if (levels_.back() == Level::double_quotes) return ShellContext::double_quotes;
    const bool calculates = levels_.back() == Level::arithmetic || levels_.back() == Level::parentheses_of_arithmetic;
    return calculates ? ShellContext::arithmetic : ShellContext::plain;
  }

 private:
  enum class Level { script, parentheses, backticks, double_quotes, arithmetic, parentheses_of_arithmetic };
  struct HereDocument {
    std::string delimiter;
    bool is_literal = false, strips_tabs = false;
  };

  bool at(std::string_view what) const { return text_.substr(at_, what.size()) == what; }
  bool ends_as(ShellContext context) {
    result_ = context;
    return false;
  }
  void enter(Level level, std::size_t length) {
    levels_.push_back(level);
    at_ += length;
  }
  void leave(std::size_t length) {
    if (levels_.size() > 1) levels_.pop_back();
    at_ += length;
  }
  bool begins_word() const {
    return at_ == 0 || std::string_view(" \t\n;&|()`").find(text_[at_ - 1]) != std::string_view::npos;
  }

  // One character or one construct; false where the text ends inside of one, which result_ then names.
  bool step() {
    if (at("\\")) return at_ += 2, true;
    const Level level = levels_.back();
    if (at("\"")) return level == Level::double_quotes ? leave(1) : enter(Level::double_quotes, 1), true;
    if (at("`")) return level == Level::backticks ? leave(1) : enter(Level::backticks, 1), true;
    if (at("$((")) return enter(Level::arithmetic, 3), true;
    if (at("$(")) return enter(Level::parentheses, 2), true;
    if (level == Level::double_quotes) return ++at_, true;
    if (level == Level::arithmetic || level == Level::parentheses_of_arithmetic) return step_in_arithmetic(level);
    if (at("$'")) return skip_ansi_quotes();
    if (at("'")) return skip_to('\'', 1, ShellContext::single_quotes);
    if (at("#") && begins_word()) return skip_to('\n', 1, ShellContext::comment, false);
    if (at("((") && begins_word()) return enter(Level::arithmetic, 2), true;
    if (at("(")) return enter(Level::parentheses, 1), true;
    if (at(")")) return level == Level::parentheses ? leave(1) : void(++at_), true;
    if (at("<<<")) return at_ += 3, true;
    if (at("<<")) return read_delimiter();
    if (at("\n") && !documents_.empty()) return skip_documents();
    return ++at_, true;
  }

  bool step_in_arithmetic(Level level) {
    if (at("(")) return enter(Level::parentheses_of_arithmetic, 1), true;
    if (!at(")")) return ++at_, true;
    return leave(level == Level::arithmetic ? 2 : 1), true;  // "))"
  }

  bool skip_to(char end, std::size_t from, ShellContext context, bool over = true) {
    const std::size_t found = text_.find(end, at_ + from);
    if (found == std::string_view::npos) return ends_as(context);
    at_ = found + (over ? 1 : 0);
    return true;
  }

  bool skip_ansi_quotes() {
    for (at_ += 2; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\'') return ++at_, true;
      if (text_[at_] == '\\') ++at_;
    }
    return ends_as(ShellContext::single_quotes);
  }

  bool read_delimiter() {
    HereDocument document;
    at_ += 2;
    if (at("-")) document.strips_tabs = true, ++at_;
    while (at(" ") || at("\t")) ++at_;
    for (; at_ < text_.size() && std::string_view(" \t\n;&|()<>").find(text_[at_]) == std::string_view::npos; ++at_) {
      if (std::string_view("'\"\\").find(text_[at_]) == std::string_view::npos)
        document.delimiter += text_[at_];
      else
        document.is_literal = true;
    }
    documents_.push_back(std::move(document));
    return true;
  }

  // From the end of the line that names them.
  bool skip_documents() {
    ++at_;
    for (const HereDocument& document : documents_) {
      bool over = false;
      while (!over) {
        const std::size_t end = text_.find('\n', at_);
        if (end == std::string_view::npos)
          return ends_as(document.is_literal ? ShellContext::single_quotes : ShellContext::double_quotes);
        std::string_view line = text_.substr(at_, end - at_);
        while (document.strips_tabs && !line.empty() && line.front() == '\t') line.remove_prefix(1);
        over = line == document.delimiter;
        at_ = end + 1;
      }
    }
    documents_.clear();
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<Level> levels_ = {Level::script};
  std::vector<HereDocument> documents_;
  ShellContext result_ = ShellContext::plain;
};

}  // namespace

ShellContext shell_context(std::string_view before) {
  return Scanner(before).end();
}

}  // namespace longhaul
